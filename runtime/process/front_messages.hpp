// What the front of a run and the supervisor's process say to each other, over a pair of sockets
// (docs/protocol/front.md): values, and their JSON. Both are the same program.

#pragma once

#include "runtime/core/log.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace troupe::runtime {

// --- the front says -----------------------------------------------------------------------------

/// The run is to end in order; `why` as it is told: "SIGINT".
struct end_asked {
  std::string why;
  bool operator==(const end_asked&) const = default;
};

/// How wide the front's terminal is now (log_reader::status_line_columns).
struct terminal_resized {
  int columns = 0;
  bool operator==(const terminal_resized&) const = default;
};

using front_request = std::variant<end_asked, terminal_resized>;

// --- the supervisor's process tells -------------------------------------------------------------

/// A line of the log.
struct line_told {
  severity level = severity::info;
  std::string text;
  bool operator==(const line_told&) const = default;
};

/// What stands at the bottom of the terminal; empty: nothing does.
struct status_line_told {
  std::string text;
  bool operator==(const status_line_told&) const = default;
};

/// A sign of life, when there is nothing else to tell.
struct still_there {
  bool operator==(const still_there&) const = default;
};

/// What the program has to complain of.
enum class complaint { none, input, memory, fault };

/// The last message of one that ends by itself, but for signs of life.
struct end_told {
  int exit_code = 0;
  complaint kind = complaint::none;
  std::string text;  ///< of the complaint
  bool operator==(const end_told&) const = default;
};

using supervisor_told = std::variant<line_told, status_line_told, still_there, end_told>;

/// Bytes of a line that is shown: of a longer one only so much of its beginning is.
constexpr std::size_t longest_told_line = std::size_t{1} << 17;

/// JSON. What is not UTF-8 becomes U+FFFD.
std::string text_of(const front_request& x);
std::string text_of(const supervisor_told& x);

/// Throw input_error that says what is wrong.
front_request read_front_request(std::string_view text);
supervisor_told read_supervisor_told(std::string_view text);

}  // namespace troupe::runtime
