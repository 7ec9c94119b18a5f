#include "runtime/tokenizer/pre_tokenizer.hpp"

#include "runtime/core/error.hpp"

#include <cstdint>
#include <cstring>

namespace troupe::runtime {
namespace {

/// Size of the character that starts with a given byte, and how many of its bytes are present and
/// valid. Table 3-7 of the Unicode Standard.
struct beginning {
  std::size_t size, valid;
};

beginning at_front(const unsigned char* at, std::size_t left) {
  const unsigned char first = at[0];
  if (first < 0x80)
    return {1, 1};
  if (first < 0xC2 || first > 0xF4)
    return {1, 0};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (left < 2 || at[1] < low || at[1] > high)
    return {size, 1};
  std::size_t valid = 2;
  while (valid < size && valid < left && (at[valid] & 0xC0) == 0x80)
    ++valid;
  return {size, valid};
}

/// Returns the length of the character at `at`, or 0 if it is invalid.
std::size_t valid_character(const unsigned char* at, std::size_t left) {
  const auto found = at_front(at, left);
  return found.valid == found.size ? found.size : 0;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, data + at, sizeof eight);
      if ((eight & 0x8080808080808080ULL) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const auto size = valid_character(data + at, text.size() - at);
    if (size == 0)
      break;
    at += size;
  }
  return at;
}

std::size_t invalid_utf8_prefix(std::string_view text) {
  const auto found = at_front(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return found.valid == 0 ? 1 : found.valid;
}

std::string with_replacements(std::string_view text) {
  std::string out;
  while (true) {
    const auto valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty())
      return out;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(invalid_utf8_prefix(text));
  }
}

word_cursor::word_cursor(const pre_tokenizer& cut, std::string_view text)
    : search_(cut.words_),
      valid_(text.substr(0, valid_utf8_prefix(text))),
      rest_(text.substr(valid_.size())) {}

std::string_view word_cursor::next() {
  if (at_ == valid_.size()) {
    if (rest_.empty())
      return {};
    const auto invalid = rest_.substr(0, 1);
    rest_.remove_prefix(1);
    valid_ = rest_.substr(0, valid_utf8_prefix(rest_));
    rest_.remove_prefix(valid_.size());
    at_ = 0;
    return invalid;
  }
  const auto found = search_.find(valid_, at_);
  ensure(found && found->begin == at_ && found->end > at_,
         "WORDS-1: some word begins at every character of valid UTF-8");
  const auto end = found->end;
  const auto word = valid_.substr(at_, end - at_);
  at_ = end;
  return word;
}

}  // namespace troupe::runtime
