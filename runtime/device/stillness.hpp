// Decides whether anything in a process moves. Pure data: it uses no threads and no clock.
//
// The wait graph of one process misses a hang across several processes, for example after a message
// was lost between two. In such a hang every member of every process waits.

#pragma once

#include "runtime/device/wait_graph.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

class stillness {
 public:
  explicit stillness(double suspicion);

  /// Nanoseconds without any motion, once they exceed twice the timeout (`suspicion`). A member
  /// that works moves, so do `bytes` that differ from those of the last look. While a member waits
  /// for another process's tensor the limit is twice as long: a large one moves no counter until
  /// it is complete. If the looks come late, the time starts anew, as for hang_judge. `without`:
  /// names of members that the looks themselves keep busy.
  std::optional<std::uint64_t> look(const std::vector<board_entry>& all,
                                    std::uint64_t bytes,
                                    std::uint64_t now_ns,
                                    const std::vector<std::string>& without = {});

 private:
  std::uint64_t suspicion_ns_;
  std::uint64_t last_ns_ = 0;   ///< time of the last look; 0: none yet
  std::uint64_t moved_ns_ = 0;  ///< last known motion
  std::uint64_t bytes_ = 0;     ///< at the last look
};

}  // namespace troupe::runtime
