// What a transport's messages over a wire say: docs/formats/wire.md, byte by byte.

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
  ask = 1,      ///< give me bytes [begin, end) of what this ticket stands for
  part = 2,     ///< here are they; or the first of them, and the others follow
  refusal = 3,  ///< none of them will come
  loan = 4,     ///< here they stand: read them, and say so
  taken = 5,    ///< of a loan: they were read, or are not wanted any more
  unread = 6,   ///< of a loan: the system refuses; send them
};

enum class wire_reason : std::uint8_t {
  none = 0,
  ended = 1,     ///< its generation has ended
  redeemed = 2,  ///< nothing is leased there: it was redeemed before, or never deposited
  differs = 3,   ///< what is leased there is not what the ticket says
  stranger = 4,  ///< the process that was asked is not the ticket's holder
  failed = 5,    ///< the holder could not read it
};

struct wire_message {
  wire_verb verb = wire_verb::ask;
  wire_reason reason = wire_reason::none;
  ticket what;
  std::uint64_t fetch = 0;  ///< the redeemer's number for it
  std::uint64_t begin = 0, end = 0;
  std::uint64_t asker = 0;  ///< the redeemer's process
  /// Of an ask: a number of the redeemer's host, if it can read memory there; 0: it cannot.
  std::uint64_t reads_on = 0;
  lent_place place = {};  ///< of a loan

  friend bool operator==(const wire_message&, const wire_message&) = default;
};

inline constexpr std::size_t wire_message_bytes = 144;

std::vector<std::byte> bytes_of(const wire_message& x);

/// What a peer sent: a message whose numbers fit together, or what is wrong with it. Its sender
/// is a stranger: nothing of it is believed before.
std::variant<wire_message, std::string> read_message(std::span<const std::byte> header);

/// Of a ticket from elsewhere; nothing when its extents are none, or more than memory can have.
std::optional<std::uint64_t> bytes_of(const ticket& x);

}  // namespace troupe::runtime
