// Finds the new steps among those that a follower reads. After a supervisor restart, the state
// repeats steps that the viewer has already seen.

#pragma once

#include "runtime/watch/record_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::runtime {

class new_steps {
 public:
  /// Call this in run_listener::begin. `run`: the answer of /api/run. Another run resets the steps.
  void begin(std::string_view run) {
    auto id = text_member(shallow_value(run), "id");
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
