// The address of a process's windows.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// A plain value, which travels in the control plane as one word of text.
struct window_address {
  std::uint64_t process = 0;  ///< unique in a run and never reused
  /// memory_host(). Processes with the same host can read each other's memory, if the kernel allows
  /// it. Empty: shares no memory.
  std::string host;
  std::int64_t pid = 0;
  int board = -1;           ///< file descriptor of its board, in that process
  std::uint64_t nonce = 0;  ///< also written on the board; a later process with the same pid has
                            ///< another
  std::uint64_t probe = 0;  ///< address of the nonce in its memory
  std::string wire;         ///< address of its wire; empty without one

  friend bool operator==(const window_address&, const window_address&) = default;
};

std::string to_text(const window_address& x);
/// Throws input_error for any other text.
window_address window_address_of(std::string_view text);

}  // namespace troupe::runtime
