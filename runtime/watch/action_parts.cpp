#include "runtime/watch/action_parts.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace troupe::runtime {
namespace {

std::optional<std::uint64_t> take_number(std::string_view& from) {
  std::uint64_t out = 0;
  const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), out);
  if (failed != std::errc())
    return {};
  from.remove_prefix(std::size_t(end - from.data()));
  return out;
}

}  // namespace

action_parts action_parts_of(std::string_view name) {
  action_parts out;
  if (!name.empty() && name.front() >= 'a' && name.front() <= 'z') {
    out.copy = name.substr(0, 1);
    name.remove_prefix(1);
  }
  out.chunk = take_number(name);
  const auto kind = std::min(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), name.size());
  out.kind = name.substr(0, kind);
  name.remove_prefix(kind);
  out.microbatch = take_number(name);
  if (name.starts_with('.')) {
    name.remove_prefix(1);
    out.block = take_number(name);
  }
  return out;
}

}  // namespace troupe::runtime
