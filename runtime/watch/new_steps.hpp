// Finds the new steps among those that a follower reads. After a supervisor restart, the state
// repeats steps that the viewer has already seen.

#pragma once

#include "runtime/core/json_text.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::runtime {

class new_steps {
 public:
  /// Call this in run_listener::begin. `run`: the answer of /api/run. Another run resets the steps.
  void begin(std::string_view run) {
    const auto read = json_value_or_discarded(run);
    const auto found = read.is_object() ? read.find("id") : read.end();
    auto id = read.is_object() && found != read.end() && found->is_string()
                  ? found->get<std::string>()
                  : std::string();
    if (id != id_)
      newest_ = 0;
    id_ = std::move(id);
  }

  /// True once for each step. Steps are committed in ascending order.
  bool is_new(std::uint64_t iteration) {
    if (iteration <= newest_)
      return false;
    newest_ = iteration;
    return true;
  }

 private:
  std::string id_;
  std::uint64_t newest_ = 0;
};

}  // namespace troupe::runtime
