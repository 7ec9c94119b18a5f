#define PCRE2_CODE_UNIT_WIDTH 8

#include "runtime/tokenizer/expression.hpp"

#include "runtime/core/error.hpp"

#include <new>
#include <pcre2.h>

namespace troupe::runtime {
namespace {

// PCRE2's own \s also holds U+180E, which Unicode took out of White_Space.
constexpr std::string_view spaces
    = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view word_characters = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";

/// The pattern with its classes spelt out.
std::string spelt_out(std::string_view pattern) {
  std::string out;
  int classes = 0;  // that are open: one within another adds its characters
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      const auto follows
          = [&](std::string_view what) { return pattern.substr(i + 1).starts_with(what); };
      if (classes > 0
          && ((c == '[' && (follows("^") || follows(":"))) || (c == '&' && follows("&"))))
        throw input_error("'{}{}' within a class, which stands at byte {}, is not supported",
                          c,
                          pattern[i + 1],
                          i);
      const bool inner = classes > (c == '[' ? 0 : 1);
      classes += c == '[' ? 1 : c == ']' && classes > 0 ? -1 : 0;
      if ((c != '[' && c != ']') || !inner)
        out += c;
      if (c == '[') {
        if (follows("^"))
          out += pattern[++i];
        if (follows("]"))  // that comes first in a class is one of its characters
          out.append("\\") += pattern[++i];
      }
      continue;
    }
    const char kind = pattern[++i];
    const auto set = kind == 's' || kind == 'S'   ? spaces
                     : kind == 'w' || kind == 'W' ? word_characters
                     : kind == 'd' || kind == 'D' ? std::string_view(R"(\p{Nd})")
                                                  : std::string_view();
    const bool all_but = kind == 'S' || kind == 'W' || kind == 'D';
    if (set.empty())
      out.append({c, kind});
    else if (classes == 0)
      out.append(all_but ? "[^" : "[").append(set).append("]");
    else if (!all_but)
      out.append(set);
    else
      throw input_error(
          "\\{} within a class, which stands at byte {}, is not supported", kind, i - 1);
  }
  return out;
}

std::string reason_of(int failure) {
  unsigned char text[200] = {};
  pcre2_get_error_message(failure, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

std::string pattern_of(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view(R"(\^$.[|()?*+{}-)").find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

std::size_t next_character(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;)
    ++at;
  return at;
}

expression::expression(std::string_view pattern) : pattern_(pattern) {
  try {
    const auto all = spelt_out(pattern);
    int failure = 0;
    PCRE2_SIZE where = 0;
    auto* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(all.data()),
                                     all.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                                     &failure,
                                     &where,
                                     nullptr);
    if (!code)
      throw input_error("{}, before '{}'",
                        reason_of(failure),
                        std::string_view(all).substr(std::min<std::size_t>(where, all.size())));
    code_ = {code, [](const void* x) {
               pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(x)));
             }};
    // Where the system forbids generated code, the interpreter finds the same.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  } catch (const input_error& failure) {
    throw input_error("the expression '{}': {}", pattern.substr(0, 500), failure.what());
  }
}

expression_search::expression_search(const expression& what)
    : what_(&what),
      match_(pcre2_match_data_create(1, nullptr),
             [](void* x) { pcre2_match_data_free(static_cast<pcre2_match_data*>(x)); }),
      context_(pcre2_match_context_create(nullptr),
               [](void* x) { pcre2_match_context_free(static_cast<pcre2_match_context*>(x)); }) {
  if (!match_ || !context_)
    throw std::bad_alloc();
  pcre2_set_match_limit(static_cast<pcre2_match_context*>(context_.get()), 10'000'000);
}

std::optional<expression_search::span> expression_search::find(std::string_view text,
                                                               std::size_t from) {
  auto* const match = static_cast<pcre2_match_data*>(match_.get());
  auto* const context = static_cast<pcre2_match_context*>(context_.get());
  const auto* const code = static_cast<const pcre2_code*>(what_->code_.get());
  const auto search = [&](std::uint32_t how) {
    return pcre2_match(code,
                       reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(),
                       from,
                       PCRE2_NO_UTF_CHECK | how,
                       match,
                       context);
  };
  int found = search(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps what it needs on the heap
    found = search(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH)
    return std::nullopt;
  if (found < 0)
    throw input_error("the expression '{}' cannot be searched in a text of {} bytes: {}",
                      what_->pattern().substr(0, 200),
                      text.size(),
                      reason_of(found));
  const auto* const at = pcre2_get_ovector_pointer(match);
  return span{at[0], at[1]};
}

}  // namespace troupe::runtime
