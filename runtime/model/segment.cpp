#include "runtime/model/segment.hpp"

#include "runtime/core/random.hpp"

namespace troupe::runtime {

std::uint64_t pass::dropout_key(const std::string& name) const {
  return random_key(settings.seed, name, settings.step);
}

}  // namespace troupe::runtime
