// Why an actor refused or ended.

#pragma once

#include <caf/error.hpp>
#include <caf/make_message.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

/// Numbers are on the wire: append only.
enum class ec : std::uint8_t {
  none = 0,
  /// The user's input is wrong, or the system refused: the text says what to do.
  refused,
  /// Somebody else ended the generation; nothing is wrong here.
  cancelled,
  /// A peer or a child died.
  peer_lost,
  /// We failed: a promise written in this repository was broken. Retrying will not help.
  protocol_violated,
  /// A later incarnation of the supervisor's process goes on with the run.
  superseded,
};

inline caf::error make_error(ec code, std::string what) {
  return {static_cast<std::uint8_t>(code), caf::atom("troupe"), caf::make_message(std::move(what))};
}

/// Never ask an empty caf::error for its code: CAF 0.17 dereferences null.
inline bool is(const caf::error& e, ec code) {
  return e && e.category() == caf::atom("troupe") && e.code() == static_cast<std::uint8_t>(code);
}

/// The text of one of ours; what CAF says of any other.
std::string text_of(const caf::error& e);

}  // namespace troupe::messages
