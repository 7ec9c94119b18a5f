#include "runtime/transport/wire_message.hpp"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace troupe::runtime {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 4> magic = {'T', 'R', 'P', 'W'};
constexpr std::uint16_t version = 2;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

struct layout {
  std::array<char, 4> magic;
  std::uint16_t version;
  std::uint8_t verb, reason;
  std::uint64_t holder, slot, generation, fetch, begin, end;
  std::array<std::int64_t, 4> extents;
  std::uint8_t rank, type;
  std::array<std::uint8_t, 6> zero;
  std::uint64_t asker, reads_on;
  std::int64_t pid;
  std::uint64_t at, guard, serial;
};
static_assert(sizeof(layout) == wire_message_bytes && std::is_trivially_copyable_v<layout>);

}  // namespace

std::vector<std::byte> bytes_of(const wire_message& x) {
  layout to{.magic = magic,
            .version = version,
            .verb = std::uint8_t(x.verb),
            .reason = std::uint8_t(x.reason),
            .holder = x.what.holder,
            .slot = x.what.slot,
            .generation = value(x.what.generation),
            .fetch = x.fetch,
            .begin = x.begin,
            .end = x.end,
            .extents = {},
            .rank = std::uint8_t(x.what.extents.rank()),
            .type = std::uint8_t(x.what.type),
            .zero = {},
            .asker = x.asker,
            .reads_on = x.reads_on,
            .pid = x.place.pid,
            .at = x.place.at,
            .guard = x.place.guard,
            .serial = x.place.serial};
  for (int i = 0; i < x.what.extents.rank(); ++i)
    to.extents[std::size_t(i)] = x.what.extents[i];
  std::vector<std::byte> out(sizeof to);
  std::memcpy(out.data(), &to, sizeof to);
  return out;
}

std::optional<std::uint64_t> bytes_of(const ticket& x) {
  if (x.type > dtype::f64 || x.extents.rank() < 0 || x.extents.rank() > 4)
    return std::nullopt;
  std::uint64_t n = size_of(x.type);
  bool empty = false;
  for (const auto extent : x.extents) {
    if (extent < 0)
      return std::nullopt;
    empty = empty || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(n, std::uint64_t(extent), &n))
      return std::nullopt;
    if (n > most_bytes)
      return std::nullopt;
  }
  return empty ? 0 : n;
}

std::variant<wire_message, std::string> read_message(std::span<const std::byte> header) {
  if (header.size() != wire_message_bytes)
    return fmt::format("a header of {} bytes, not {}", header.size(), wire_message_bytes);
  layout from;
  std::memcpy(&from, header.data(), sizeof from);
  if (from.magic != magic)
    return std::string("a header that does not begin with TRPW");
  if (from.version != version)
    return fmt::format("version {} of the protocol, not {}", from.version, version);
  if (from.verb < 1 || from.verb > std::uint8_t(wire_verb::unread)
      || from.reason > std::uint8_t(wire_reason::failed)
      || (from.reason != 0) != (from.verb == std::uint8_t(wire_verb::refusal)))
    return fmt::format("verb {} with reason {}", from.verb, from.reason);
  if (from.rank > from.extents.size() || from.type > std::uint8_t(dtype::f64)
      || from.zero != decltype(from.zero){})
    return fmt::format("rank {} and type {}", from.rank, from.type);
  wire_message out{
      .verb = wire_verb(from.verb),
      .reason = wire_reason(from.reason),
      .what = {.holder = from.holder,
               .slot = from.slot,
               .generation = generation_id(from.generation),
               .type = dtype(from.type)},
      .fetch = from.fetch,
      .begin = from.begin,
      .end = from.end,
      .asker = from.asker,
      .reads_on = from.reads_on,
      .place = {.pid = from.pid, .at = from.at, .guard = from.guard, .serial = from.serial}};
  for (std::size_t i = 0; i < from.extents.size(); ++i)
    if (i < from.rank)
      out.what.extents.push_back(from.extents[i]);
    else if (from.extents[i] != 0)
      return fmt::format("extents beyond rank {}", from.rank);
  const auto bytes = bytes_of(out.what);
  if (!bytes)
    return fmt::format("extents {}", to_string(out.what.extents));
  if (from.begin > from.end || from.end > *bytes || (from.begin == from.end && *bytes > 0))
    return fmt::format("bytes [{}, {}) of {}", from.begin, from.end, *bytes);
  const bool is_loan = out.verb == wire_verb::loan;
  if ((out.verb != wire_verb::ask && out.reads_on != 0) || (!is_loan && out.place != lent_place{}))
    return std::string(
        "a memory address in a message that is not a loan, or a host in one that is not an ask");
  if (is_loan
      && (out.place.pid <= 0 || out.place.at == 0 || out.place.guard == 0 || out.place.serial == 0))
    return std::string("a loan that names no place");
  return out;
}

}  // namespace troupe::runtime
