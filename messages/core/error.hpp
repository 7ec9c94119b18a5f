// Error codes: why an actor refused a request or ended.

#pragma once

#include <caf/error.hpp>
#include <caf/make_message.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

/// The numbers are on the wire: only append new codes.
enum class ec : std::uint8_t {
  none = 0,
  /// The user's input is wrong or the system refused; the text says what to do.
  refused,
  /// The generation was ended from outside; not a fault.
  cancelled,
  /// A peer or a child died.
  peer_lost,
  /// Internal error: an invariant of this repository is broken. A retry does not help.
  protocol_violated,
  /// A later incarnation of the supervisor's process has taken over the run.
  superseded,
};

inline caf::error make_error(ec code, std::string what) {
  return {static_cast<std::uint8_t>(code), caf::atom("troupe"), caf::make_message(std::move(what))};
}

/// Use it instead of code(): CAF 0.17 dereferences null for an empty caf::error.
inline bool is(const caf::error& e, ec code) {
  return e && e.category() == caf::atom("troupe") && e.code() == static_cast<std::uint8_t>(code);
}

/// The text of an error of ours, or CAF's text for any other error.
std::string text_of(const caf::error& e);

}  // namespace troupe::messages
