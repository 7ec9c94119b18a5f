// Messages between the front of a run and the supervisor process, over a socket pair
// (docs/protocol/front.md): values and their JSON. Both ends are the same program.

#pragma once

#include "runtime/core/log.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace troupe::runtime {

// --- from the front -----------------------------------------------------------------------------

/// Asks for an orderly end of the run; `why` is shown, for example "SIGINT".
struct end_asked {
  std::string why;
  bool operator==(const end_asked&) const = default;
};

/// Width of the front's terminal (log_reader::status_line_columns).
struct terminal_resized {
  int columns = 0;
  bool operator==(const terminal_resized&) const = default;
};

using front_request = std::variant<end_asked, terminal_resized>;

// --- from the supervisor process ----------------------------------------------------------------

struct line_told {
  severity level = severity::info;
  std::string text;
  bool operator==(const line_told&) const = default;
};

/// The line at the bottom of the terminal; empty: no line.
struct status_line_told {
  std::string text;
  bool operator==(const status_line_told&) const = default;
};

/// Heartbeat, sent when there is no other message.
struct still_there {
  bool operator==(const still_there&) const = default;
};

/// Kind of error that ended the program.
enum class complaint { none, input, memory, fault };

/// The last message before an exit; only heartbeats follow.
struct end_told {
  int exit_code = 0;
  complaint kind = complaint::none;
  std::string text;  ///< the error message
  bool operator==(const end_told&) const = default;
};

using supervisor_told = std::variant<line_told, status_line_told, still_there, end_told>;

/// Maximum bytes of a shown line; the rest of a longer line is cut off.
constexpr std::size_t longest_told_line = std::size_t{1} << 17;

/// JSON. Bytes that are not UTF-8 become U+FFFD.
std::string text_of(const front_request& x);
std::string text_of(const supervisor_told& x);

/// Throw input_error with a reason.
front_request read_front_request(std::string_view text);
supervisor_told read_supervisor_told(std::string_view text);

}  // namespace troupe::runtime
