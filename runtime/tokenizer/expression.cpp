#define PCRE2_CODE_UNIT_WIDTH 8

#include "runtime/tokenizer/expression.hpp"

#include "runtime/core/error.hpp"

#include <new>
#include <pcre2.h>

namespace troupe::runtime {
namespace {

// Unicode's White_Space. PCRE2's own \s also contains U+180E.
constexpr std::string_view spaces
    = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Oniguruma's \w: alphabetic, marks, digits, connectors, numbers of Latin-1, and alphabetic
// symbols.
constexpr std::string_view word_characters
    = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\xB2\xB3\xB9\xBC-\xBE\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

/// Translates an Oniguruma pattern to PCRE2. Syntax with another meaning in PCRE2 is written out or
/// rejected.
class translation {
 public:
  explicit translation(std::string_view pattern) : in_(pattern) {}

  std::string result() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (c == '[')
        open_class();
      else if (classes_ > 0)
        within_class();
      else if (c == '(')
        open_group();
      else if (c == '{')
        interval();
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  bool follows(std::string_view what) const { return in_.substr(at_).starts_with(what); }
  void copy(std::size_t n) {
    out_.append(in_.substr(at_, n));
    at_ += n;
  }
  [[noreturn]] void refuse(std::size_t n) const {
    throw input_error("'{}' at byte {}{} is not supported",
                      in_.substr(at_, n),
                      at_,
                      classes_ > 0 ? ", within a class," : "");
  }

  void escape() {
    const char kind = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    const auto set = kind == 's' || kind == 'S'   ? spaces
                     : kind == 'w' || kind == 'W' ? word_characters
                     : kind == 'd' || kind == 'D' ? std::string_view(R"(\p{Nd})")
                                                  : std::string_view();
    const bool all_but = kind == 'S' || kind == 'W' || kind == 'D';
    if (!set.empty()) {
      if (classes_ > 0 && all_but)
        refuse(2);
      if (classes_ == 0)
        out_ += all_but ? "[^" : "[";
      out_ += set;
      if (classes_ == 0)
        out_ += ']';
      at_ += 2;
    } else if (kind == 'p' || kind == 'P') {
      property();
    } else if (std::string_view("nrtfxAzZ").find(kind) != std::string_view::npos || kind < '0'
               || std::string_view(":;<=>?@[\\]^_`{|}~").find(kind) != std::string_view::npos) {
      if (kind == '\0')
        refuse(1);
      copy(2);
    } else {
      refuse(2);
    }
  }

  /// A general category or a script. The prefix "sc:" excludes characters that several scripts
  /// share, which PCRE2 includes by default.
  void property() {
    const auto end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == in_.npos)
      refuse(3);
    const bool negated = in_[at_ + 3] == '^';
    const auto name = in_.substr(at_ + 3 + negated, end - at_ - 3 - negated);
    out_.append(in_.substr(at_, 3)).append(negated ? "^" : "");
    out_.append(name.size() > 2 ? "sc:" : "").append(name).append("}");
    at_ = end + 1;
  }

  /// Merges a nested class into the outer one.
  void open_class() {
    if (classes_ > 0 && (follows("[^") || follows("[:")))
      refuse(2);
    if (classes_++ == 0)
      out_ += '[';
    ++at_;
    if (follows("^"))
      copy(1);
    if (follows("]")) {  // a leading ] is a member of the class
      out_ += '\\';
      copy(1);
    }
  }
  void within_class() {
    if (follows("&&"))
      refuse(2);
    if (in_[at_] == ']' && --classes_ > 0)
      ++at_;
    else
      copy(1);
  }

  void open_group() {
    if (follows("(*"))
      refuse(2);
    if (follows("(?")) {
      for (const std::string_view known : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
        if (follows(known))
          return copy(known.size());
      refuse(3);
    }
    copy(1);
  }

  /// Copies {n}, {n,} and {n,m}. A following + repeats the interval in Oniguruma but is possessive
  /// in PCRE2. A ? after {n} makes it optional in Oniguruma but has no effect in PCRE2. Both are
  /// rejected.
  void interval() {
    const auto end = in_.find('}', at_);
    const auto inside = in_.substr(at_ + 1, end == in_.npos ? 0 : end - at_ - 1);
    const bool counts = !inside.empty() && inside.find_first_not_of("0123456789,") == inside.npos;
    const auto behind = counts ? in_.substr(end + 1) : std::string_view();
    const bool optional = behind.starts_with('?') && inside.find(',') == inside.npos;
    if (!counts || inside.front() == ',' || behind.starts_with('+') || optional)
      refuse(counts ? end + 2 - at_ : 1);
    copy(end + 1 - at_);
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  int classes_ = 0;  ///< number of open classes
};

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
    const auto all = translation(pattern).result();
    int failure = 0;
    PCRE2_SIZE where = 0;
    auto* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(all.data()),
                                     all.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
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
    // JIT compilation fails on systems that forbid generated code. The interpreter then finds the
    // same matches.
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
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter uses the heap instead of the stack
    found = search(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH)
    return std::nullopt;
  if (found < 0)
    throw input_error(
        "cannot search the expression '{}' in a text of {} bytes: {}; split the text into smaller "
        "ones",
        what_->pattern().substr(0, 200),
        text.size(),
        reason_of(found));
  const auto* const at = pcre2_get_ovector_pointer(match);
  return span{at[0], at[1]};
}

}  // namespace troupe::runtime
