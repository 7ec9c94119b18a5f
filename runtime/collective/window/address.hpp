// Where a process's windows are reached.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// A plain value, which travels by the control plane as one word of text.
struct window_address {
  std::uint64_t process = 0;  ///< no two of a run are equal, and none comes again
  /// memory_host(): processes with the same can read each other's memory, if the kernel lets them;
  /// empty: its memory is read by nobody.
  std::string host;
  std::int64_t pid = 0;
  int board = -1;           ///< the descriptor of its board, there
  std::uint64_t nonce = 0;  ///< stands in the board: a later process with the same pid has another
  std::uint64_t probe = 0;  ///< where the nonce lies in its memory
  std::string wire;         ///< empty: it has none

  friend bool operator==(const window_address&, const window_address&) = default;
};

std::string to_text(const window_address& x);
/// Throws input_error: what is no such text.
window_address window_address_of(std::string_view text);

}  // namespace troupe::runtime
