#include "actors/node/resources.hpp"

namespace troupe::actors {

std::unique_ptr<runtime::communicator> group_registry::join(const std::string& name,
                                                            runtime::axis along,
                                                            int size,
                                                            int rank) {
  const std::lock_guard lock(mutex_);
  auto& group = groups_[name];
  if (!group)
    group = std::make_shared<runtime::local_group>(along, size, token_);
  return std::make_unique<runtime::local_communicator>(group, rank);
}

}  // namespace troupe::actors
