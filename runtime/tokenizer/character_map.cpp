#include "runtime/tokenizer/character_map.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/expression.hpp"

#include <utf8proc.h>

namespace troupe::runtime {
namespace {

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t out = 0;
  for (int i = 3; i >= 0; --i)
    out = out << 8 | static_cast<unsigned char>(bytes[std::size_t(i)]);
  return out;
}

// Fields of a unit of the trie, as in Darts-clone.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
std::uint32_t value(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
std::uint32_t label(std::uint32_t unit) {
  return unit & 0x800000FF;
}
std::uint32_t offset(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

utf8proc_int32_t code_point(std::string_view text, std::size_t at) {
  utf8proc_int32_t out = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                   utf8proc_ssize_t(text.size() - at),
                   &out);
  return out;
}

/// Returns the end of the grapheme cluster that begins at `at`.
std::size_t cluster_end(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  auto before = code_point(text, at);
  auto end = next_character(text, at);
  while (end < text.size()) {
    const auto next = code_point(text, end);
    if (utf8proc_grapheme_break_stateful(before, next, &state))
      break;
    before = next;
    end = next_character(text, end);
  }
  return end;
}

}  // namespace

character_map::character_map(std::string_view bytes) {
  const std::size_t size = bytes.size() < 4 ? 0 : little_endian(bytes);
  if (size < 4 || size % 4 != 0 || size > bytes.size() - 4)
    throw input_error("the character table has {} bytes, but {}",
                      bytes.size(),
                      bytes.size() < 4 ? "4 are needed for its size"
                                       : fmt::format("names {} for its trie", size));
  for (std::size_t at = 4; at < 4 + size; at += 4)
    units_.push_back(little_endian(bytes.substr(at, 4)));
  texts_ = bytes.substr(4 + size);
}

/// Returns the replacement of the shortest entry that is a prefix of `text`.
std::optional<std::string_view> character_map::find(std::string_view text) const {
  std::size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0)
      return std::nullopt;
    at ^= byte;
    if (at >= units_.size() || label(units_[at]) != byte)
      return std::nullopt;
    const auto unit = units_[at];
    at ^= offset(unit);
    if (!has_leaf(unit))
      continue;
    if (at >= units_.size() || value(units_[at]) > texts_.size())
      return std::nullopt;
    const auto found = std::string_view(texts_).substr(value(units_[at]));
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

std::string character_map::apply(std::string_view text) const {
  const auto most = 100 * text.size() + 10000;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (out.size() > most)
      throw input_error(
          "the tokenizer's character table maps a text of {} bytes to more than {} bytes",
          text.size(),
          most);
    const auto end = cluster_end(text, at);
    const auto cluster = text.substr(at, end - at);
    if (cluster.size() < 6)
      if (const auto found = find(cluster)) {
        out += *found;
        at = end;
        continue;
      }
    while (at < end) {
      const auto after = next_character(text, at);
      const auto character = text.substr(at, after - at);
      out += find(character).value_or(character);
      at = after;
    }
  }
  return out;
}

}  // namespace troupe::runtime
