#define PCRE2_CODE_UNIT_WIDTH 8

#include "runtime/tokenizer/pre_tokenizer.hpp"

#include "runtime/core/error.hpp"

#include <cstdint>
#include <cstring>
#include <new>
#include <pcre2.h>

namespace troupe::runtime {
namespace {

// PCRE2's own \s also holds U+180E, which Unicode took out of White_Space after GPT-2's expression
// was written for engines that follow Unicode. So the set is spelt out.
#define TROUPE_SPACE \
  R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr const char* expression
    = "'s|'t|'re|'ve|'m|'ll|'d"
      R"(| ?\p{L}+| ?\p{N}+)"
      "| ?[^" TROUPE_SPACE R"(\p{L}\p{N}]+)"
      "|[" TROUPE_SPACE "]+(?![^" TROUPE_SPACE
      "])"
      "|[" TROUPE_SPACE "]+";
#undef TROUPE_SPACE

/// Length of the character at `at`, 0 if it is not valid. Table 3-7 of the Unicode standard.
std::size_t valid_character(const unsigned char* at, std::size_t left) {
  const unsigned char first = at[0];
  if (first < 0x80)
    return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || size > left)
    return 0;
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at[1] < low || at[1] > high)
    return 0;
  for (std::size_t i = 2; i < size; ++i)
    if ((at[i] & 0xC0) != 0x80)
      return 0;
  return size;
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

pre_tokenizer::pre_tokenizer() {
  int failure = 0;
  PCRE2_SIZE where = 0;
  auto* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression),
                                   PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_ANCHORED,
                                   &failure,
                                   &where,
                                   nullptr);
  ensure(code != nullptr, "WORDS-1: the expression that cuts words compiles");
  code_ = {code,
           [](const void* x) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(x))); }};
  // Where the system forbids generated code, matching falls back to the interpreter: same words.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

word_cursor::word_cursor(const pre_tokenizer& cut, std::string_view text)
    : cut_(cut),
      match_(pcre2_match_data_create(1, nullptr),
             [](void* x) { pcre2_match_data_free(static_cast<pcre2_match_data*>(x)); }),
      valid_(text.substr(0, valid_utf8_prefix(text))),
      rest_(text.substr(valid_.size())) {
  if (!match_)
    throw std::bad_alloc();
}

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
  auto* const match = static_cast<pcre2_match_data*>(match_.get());
  const int found = pcre2_match(static_cast<const pcre2_code*>(cut_.code_.get()),
                                reinterpret_cast<PCRE2_SPTR>(valid_.data()),
                                valid_.size(),
                                at_,
                                PCRE2_NO_UTF_CHECK,
                                match,
                                nullptr);
  const auto end = found < 0 ? at_ : pcre2_get_ovector_pointer(match)[1];
  ensure(end > at_, "WORDS-2: some word begins at every character of valid UTF-8");
  const auto word = valid_.substr(at_, end - at_);
  at_ = end;
  return word;
}

}  // namespace troupe::runtime
