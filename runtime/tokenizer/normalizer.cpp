#include "runtime/tokenizer/normalizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <array>
#include <utf8proc.h>
#include <vector>

namespace troupe::runtime {
namespace {

bool ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x80; });
}

/// Bounds memory: each replacement step can multiply the text.
void require_bounded(std::size_t size, std::size_t before) {
  if (size > 100 * before + 10000)
    throw input_error(
        "normalizing a text of {} bytes gives more than {}: the tokenizer's normalizer replaces "
        "its own replacements",
        before,
        100 * before + 10000);
}

[[noreturn]] void refuse(std::string_view text, utf8proc_ssize_t failure) {
  throw input_error(
      "cannot normalize a text of {} bytes: {}", text.size(), utf8proc_errmsg(failure));
}

/// Calls `take` with each code point of valid UTF-8 and its bytes.
template <class F>
void for_each_character(std::string_view text, F&& take) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t left = text.size(); left > 0;) {
    utf8proc_int32_t c = 0;
    const auto size = utf8proc_iterate(at, utf8proc_ssize_t(left), &c);
    ensure(size > 0, "NORMAL-1: a normalizer is given valid UTF-8");
    take(c, std::string_view(reinterpret_cast<const char*>(at), std::size_t(size)));
    at += size;
    left -= std::size_t(size);
  }
}

/// Calls `become` for each character; it appends the replacement to its first argument.
template <class F>
std::string each_character(std::string_view text, F&& become) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text,
                     [&](utf8proc_int32_t c, std::string_view bytes) { become(out, c, bytes); });
  return out;
}

void append(std::string& out, utf8proc_int32_t c) {
  utf8proc_uint8_t bytes[4];
  out.append(reinterpret_cast<const char*>(bytes), std::size_t(utf8proc_encode_char(c, bytes)));
}

std::vector<utf8proc_int32_t> decomposed(std::string_view text, utf8proc_option_t options) {
  std::array<utf8proc_int32_t, 64> parts;  // the longest decomposition in Unicode has 18
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  for_each_character(text, [&](utf8proc_int32_t c, std::string_view) {
    int boundary = 0;
    const auto count = utf8proc_decompose_char(
        c, parts.data(), utf8proc_ssize_t(parts.size()), options, &boundary);
    if (count < 0)
      refuse(text, count);
    ensure(std::size_t(count) <= parts.size(), "NORMAL-2: a character has no more than 64 parts");
    out.insert(out.end(), parts.begin(), parts.begin() + count);
  });
  return out;
}

/// Unicode's canonical ordering. utf8proc's own is quadratic in the length of a run of marks.
void put_in_order(std::vector<utf8proc_int32_t>& text) {
  const auto combining
      = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return combining(c) > 0; };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), is_mark);
    at = std::find_if_not(begin, text.end(), is_mark);
    if (!std::ranges::is_sorted(begin, at, {}, combining))
      std::ranges::stable_sort(begin, at, {}, combining);
  }
}

std::string done(unicode_form form, std::string text) {
  if (ascii(text))
    return text;
  const bool composed = form == unicode_form::nfc || form == unicode_form::nfkc;
  const bool compatible = form == unicode_form::nfkc || form == unicode_form::nfkd;
  const auto options
      = utf8proc_option_t(UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE)
                          | (compatible ? UTF8PROC_COMPAT : 0));
  auto characters = decomposed(text, options);
  put_in_order(characters);
  if (composed) {
    const auto size
        = utf8proc_normalize_utf32(characters.data(), utf8proc_ssize_t(characters.size()), options);
    if (size < 0)
      refuse(text, size);
    characters.resize(std::size_t(size));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto c : characters)
    append(out, c);
  return out;
}

std::string done(const lowercase&, const std::string& text) {
  return each_character(text, [](std::string& out, utf8proc_int32_t c, std::string_view) {
    if (c == 0x130) {  // the only character with a lower case of two characters
      out += "i\xCC\x87";
      return;
    }
    append(out, utf8proc_tolower(c));
  });
}

bool is_white_space(utf8proc_int32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680
         || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F
         || c == 0x3000;
}

/// Categories Cc, Cf, Co and Cs. Unassigned characters stay, as with the older Unicode tables of
/// Hugging Face's tokenizers.
bool is_other(utf8proc_int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF
         || category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS;
}

std::string done(const cleaned&, const std::string& text) {
  return each_character(text, [](std::string& out, utf8proc_int32_t c, std::string_view bytes) {
    const bool blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (!blank && is_other(c)))
      return;
    out += is_white_space(c) ? " " : bytes;
  });
}

bool is_ideograph(utf8proc_int32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF)
         || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F)
         || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF)
         || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string done(const spaced_ideographs&, std::string text) {
  if (ascii(text))
    return text;
  return each_character(text, [](std::string& out, utf8proc_int32_t c, std::string_view bytes) {
    if (is_ideograph(c))
      out.append(" ").append(bytes).append(" ");
    else
      out += bytes;
  });
}

std::string done(const without_marks& step, std::string text) {
  if (ascii(text))
    return text;
  return each_character(
      text, [&step](std::string& out, utf8proc_int32_t c, std::string_view bytes) {
        const auto category = utf8proc_category(c);
        const bool other_mark
            = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
        if (category != UTF8PROC_CATEGORY_MN && (step.nonspacing_only || !other_mark))
          out += bytes;
      });
}

std::string done(const nmt_cleaned&, const std::string& text) {
  return each_character(text, [](std::string& out, utf8proc_int32_t c, std::string_view bytes) {
    const bool gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F
                      || c == 0x8F || c == 0x9F;
    const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680
                       || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581
                       || c == 0xFEFF || c == 0xFFFD;
    if (!gone)
      out += blank ? " " : bytes;
  });
}

std::string done(const mapped_characters& step, const std::string& text) {
  return step.by->apply(text);
}

std::string done(const bytes_as_characters&, const std::string& text) {
  return to_characters(text);
}

std::string done(const replaced& step, const std::string& text) {
  if (text.empty())  // Hugging Face's tokenizers skip empty texts, even if the expression matches
                     // them
    return text;
  expression_search search(step.what);
  std::string out;
  std::size_t after = 0;
  bool replaced_before = false;
  for (std::size_t from = 0; from <= text.size();) {
    const auto found = search.find(text, from);
    if (!found)
      break;
    const bool empty = found->begin == found->end;
    from = empty ? next_character(text, found->end) : found->end;
    if (empty && replaced_before && found->begin == after)
      continue;  // an empty match directly after a match does not count
    out.append(text, after, found->begin - after).append(step.by);
    require_bounded(out.size(), text.size());
    after = found->end;
    replaced_before = true;
  }
  return out.append(text, after);
}

std::string done(const prepended& step, std::string text) {
  return text.empty() ? text : step.text + text;
}

std::string done(const stripped& step, const std::string& text) {
  static const expression front(R"(\A\s+)"), back(R"(\s+\z)");
  std::size_t begin = 0, end = text.size();
  if (step.left)
    if (const auto found = expression_search(front).find(text, 0))
      begin = found->end;
  if (step.right)
    if (const auto found = expression_search(back).find(text, begin))
      end = found->begin;
  return text.substr(begin, end - begin);
}

}  // namespace

std::string normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const auto& one : steps_) {
    out = std::visit([&](const auto& x) { return done(x, std::move(out)); }, one);
    require_bounded(out.size(), text.size());
  }
  return out;
}

}  // namespace troupe::runtime
