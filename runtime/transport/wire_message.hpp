// The messages of a transport over a wire: docs/formats/wire.md has the bytes.

#pragma once

#include "runtime/tensor/ticket.hpp"
#include "runtime/transport/lent_memory.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace troupe::runtime {

enum class wire_verb : std::uint8_t {
  ask = 1,      ///< requests bytes [begin, end) of the ticket's tensor
  part = 2,     ///< the bytes, or the first part of them
  refusal = 3,  ///< no bytes will come
  loan = 4,     ///< where the bytes can be read; answer with `taken` or `unread`
  taken = 5,    ///< the lent bytes were read or are no longer wanted
  unread = 6,   ///< the system refuses to read the lent bytes; send them
};

enum class wire_reason : std::uint8_t {
  none = 0,
  ended = 1,     ///< its generation has ended
  redeemed = 2,  ///< not leased: redeemed before, or never deposited
  differs = 3,   ///< the leased tensor differs from the ticket
  stranger = 4,  ///< the process is not the ticket's holder
  failed = 5,    ///< the holder could not read the tensor
};

struct wire_message {
  wire_verb verb = wire_verb::ask;
  wire_reason reason = wire_reason::none;
  ticket what;
  std::uint64_t fetch = 0;  ///< the redeemer's number of this request
  std::uint64_t begin = 0, end = 0;
  std::uint64_t asker = 0;  ///< number of the redeemer's process
  /// In an ask: number of the redeemer's host when it can read memory there; else 0.
  std::uint64_t reads_on = 0;
  lent_place place = {};  ///< in a loan

  friend bool operator==(const wire_message&, const wire_message&) = default;
};

inline constexpr std::size_t wire_message_bytes = 144;

std::vector<std::byte> bytes_of(const wire_message& x);

/// Parses and validates a message from an untrusted peer: returns the message or what is wrong with
/// it.
std::variant<wire_message, std::string> read_message(std::span<const std::byte> header);

/// Bytes of the ticket's tensor; nothing when its extents are invalid or exceed memory.
std::optional<std::uint64_t> bytes_of(const ticket& x);

}  // namespace troupe::runtime
