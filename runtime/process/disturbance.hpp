// Fault injection from outside a process: signals, pauses and resource limits (`troupe chaos`).
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

/// Returns false to stop waiting. Polled several times a second.
using may_wait = std::function<bool()>;

/// Sends the signal. Returns false when the process has ended.
bool strike(const process_id& whom, int signal);

/// Stops the process for `time`, or until it ends or `wait` returns false.
void hold_still(const process_id& whom, std::chrono::milliseconds time, const may_wait& wait);

/// Lets the process run for 1/`times` of the time, for that long.
void slow_down(const process_id& whom,
               int times,
               std::chrono::milliseconds time,
               const may_wait& wait);

/// Limits a resource of the process for `time`, then restores the limit. Returns the reason of a
/// failure; empty: it worked. The process may be any process of the same user.
enum class scarce : std::uint8_t {
  memory,     ///< no new addresses or data: allocations from the system fail
  disk,       ///< files cannot grow: writes fail with EFBIG where SIGXFSZ is ignored
  last_bytes  ///< `file` takes only the first bytes of the next write
};
std::string make_scarce(const process_id& whom,
                        scarce what,
                        const std::string& file,
                        std::chrono::milliseconds time,
                        const may_wait& wait);

}  // namespace troupe::runtime
