#include "actors/node/registries.hpp"

namespace troupe::actors {

void pool_registry::add(int rank, runtime::memory_pool pool) {
  const std::lock_guard lock(mutex_);
  pools_.insert_or_assign(rank, std::move(pool));
}

std::map<int, std::size_t> pool_registry::peaks() const {
  const std::lock_guard lock(mutex_);
  std::map<int, std::size_t> out;
  for (const auto& [rank, pool] : pools_)
    out.emplace(rank, pool.peak_bytes());
  return out;
}

std::shared_ptr<runtime::local_group> group_meeting::at(std::uint64_t generation,
                                                        const std::string& name,
                                                        runtime::axis along,
                                                        int size) {
  const std::lock_guard lock(mutex_);
  auto& group = groups_[{generation, name}];
  if (!group)
    group = std::make_shared<runtime::local_group>(along, size, runtime::cancel_token());
  return group;
}

group_registry::group_registry(runtime::cancel_token token,
                               std::uint64_t generation,
                               runtime::collectives by,
                               std::shared_ptr<group_meeting> meeting)
    : token_(std::move(token)), generation_(generation), meeting_(std::move(meeting)) {
  using runtime::collective_mode;
  if (by != runtime::collectives::local)
    by_nccl_ = std::make_unique<runtime::nccl_groups>(
        token_,
        generation,
        by == runtime::collectives::nccl ? collective_mode::ordered : collective_mode::fast);
}

std::unique_ptr<runtime::communicator> group_registry::join(
    const std::string& name, runtime::axis along, int size, int rank, int device) {
  const std::lock_guard lock(mutex_);
  if (by_nccl_ != nullptr && size > 1)
    return runtime::make_nccl_communicator(*by_nccl_, {name, along, rank, size, device});
  if (meeting_) {
    const auto shared = meeting_->at(generation_, name, along, size);
    shared->release_by(rank, token_);
    return std::make_unique<runtime::local_communicator>(shared, rank);
  }
  auto& group = groups_[name];
  if (!group)
    group = std::make_shared<runtime::local_group>(along, size, token_);
  return std::make_unique<runtime::local_communicator>(group, rank);
}

}  // namespace troupe::actors
