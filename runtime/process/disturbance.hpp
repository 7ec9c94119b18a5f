// Faults that are brought about in a process from outside, as chaos does.
//
// Linux: signal(7), prlimit(2).

#pragma once

#include "runtime/process/process_id.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// False: stop waiting. Asked some times a second.
using may_wait = std::function<bool()>;

/// Sends it, to a process that runs. False: it has ended.
bool strike(const process_id& whom, int signal);

/// It stands still for that long, or until it has ended, or until it may not wait.
void hold_still(const process_id& whom, std::chrono::milliseconds time, const may_wait& wait);

/// It runs one part in `times` of the time, for that long.
void slow_down(const process_id& whom,
               int times,
               std::chrono::milliseconds time,
               const may_wait& wait);

/// What a process may have is limited for that long, and then as it was. Returns why it cannot be;
/// empty: it was. The process may be another one than ours, of the same user.
enum class scarce : std::uint8_t {
  memory,     ///< no address and no data more: what needs memory from the system fails
  disk,       ///< no file grows: what it writes fails with EFBIG, where SIGXFSZ is ignored
  last_bytes  ///< a file takes the beginning of what is written next, and no more
};
std::string make_scarce(const process_id& whom,
                        scarce what,
                        const std::string& file,
                        std::chrono::milliseconds time,
                        const may_wait& wait);

}  // namespace troupe::runtime
