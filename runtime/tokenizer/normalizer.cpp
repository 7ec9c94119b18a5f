#include "runtime/tokenizer/normalizer.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace troupe::runtime {
namespace {

bool ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x80; });
}

/// Else replacements of replacements would fill the memory.
void require_bounded(std::size_t size, std::size_t before) {
  if (size > 100 * before + 10000)
    throw input_error(
        "a text of {} bytes has more than {} when it is normalized: the tokenizer's "
        "normalizer replaces what it has replaced",
        before,
        100 * before + 10000);
}

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 utf8proc_ssize_t(text.size()),
                                 &out,
                                 utf8proc_option_t(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (size < 0)
    throw input_error(
        "a text of {} bytes cannot be normalized: {}", text.size(), utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(out), std::size_t(size)};
}

std::string done(unicode_form form, std::string text) {
  if (ascii(text))
    return text;
  const bool composed = form == unicode_form::nfc || form == unicode_form::nfkc;
  const bool compatible = form == unicode_form::nfkc || form == unicode_form::nfkd;
  return mapped(text,
                UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE)
                    | (compatible ? UTF8PROC_COMPAT : 0));
}

std::string done(const lowercase&, const std::string& text) {
  std::string out;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t left = text.size(); left > 0;) {
    utf8proc_int32_t c = 0;
    const auto size = utf8proc_iterate(at, utf8proc_ssize_t(left), &c);
    ensure(size > 0, "NORMAL-1: a normalizer is given valid UTF-8");
    at += size;
    left -= std::size_t(size);
    if (c == 0x130) {  // the one character whose lower case is two
      out += "i\xCC\x87";
      continue;
    }
    utf8proc_uint8_t small[4];
    out.append(reinterpret_cast<const char*>(small),
               std::size_t(utf8proc_encode_char(utf8proc_tolower(c), small)));
  }
  return out;
}

std::string done(const replaced& step, const std::string& text) {
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
      continue;  // nothing matches right behind a match
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
    out = std::visit([&](const auto& step) { return done(step, std::move(out)); }, one);
    require_bounded(out.size(), text.size());
  }
  return out;
}

}  // namespace troupe::runtime
