#include "runtime/tokenizer/added_tokens.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

std::string_view last_character(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0 && (static_cast<unsigned char>(text[--at]) & 0xC0) == 0x80) {
  }
  return text.substr(at);
}

bool is_space(std::string_view character) {
  static const std::string_view all[]
      = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085", "\u00a0", "\u1680",
         "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
         "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::find(std::begin(all), std::end(all), character) != std::end(all);
}

bool is_word(std::string_view character) {
  static const expression word("[" TROUPE_RUST_WORD_CHARACTERS "]");
  return !character.empty() && expression_search(word).find(character, 0).has_value();
}

std::size_t without_trailing_space(std::string_view text) {
  for (auto last = last_character(text); !text.empty() && is_space(last);
       last = last_character(text))
    text.remove_suffix(last.size());
  return text.size();
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto next = next_character(text, at);
    if (!is_space(text.substr(at, next - at)))
      break;
    at = next;
  }
  return at;
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, text.empty() ? 0 : next_character(text, 0));
}

}  // namespace

added_tokens::added_tokens(std::vector<added_token> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& x) { return x.content.empty(); });
  std::reverse(tokens_.begin(), tokens_.end());
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) {
    return a.content < b.content;
  });
  tokens_.erase(std::unique(tokens_.begin(),
                            tokens_.end(),
                            [](const auto& a, const auto& b) { return a.content == b.content; }),
                tokens_.end());
  for (const auto& one : tokens_)
    begins_[static_cast<unsigned char>(one.content.front())] = true;
}

const added_token* added_tokens::longest_at(std::string_view text) const {
  if (!begins_[static_cast<unsigned char>(text.front())])
    return nullptr;
  // The tokens in [first, last) start with the first `n` bytes of the text, shortest first.
  auto first = tokens_.begin(), last = tokens_.end();
  const added_token* longest = nullptr;
  for (std::size_t n = 0; n < text.size() && first != last; ++n) {
    const auto byte = static_cast<unsigned char>(text[n]);
    const auto at = [n](const added_token& x) {
      return n < x.content.size() ? int(static_cast<unsigned char>(x.content[n])) : -1;
    };
    first = std::partition_point(first, last, [&](const auto& x) { return at(x) < byte; });
    last = std::partition_point(first, last, [&](const auto& x) { return at(x) == byte; });
    if (first != last && first->content.size() == n + 1)
      longest = &*first;
  }
  return longest;
}

void added_tokens::split(std::string_view text,
                         bool with_special,
                         const std::function<void(std::string_view)>& between,
                         const std::function<void(std::int32_t)>& token) const {
  std::size_t done = 0, space_end = 0;  // space_end: end of the last white space that was searched
  for (std::size_t at = 0; at < text.size();) {
    const auto* const found = longest_at(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + found->content.size();
    at = end;
    if (found->special && !with_special)
      continue;
    if (found->single_word
        && (is_word(last_character(text.substr(0, begin)))
            || is_word(first_character(text.substr(end)))))
      continue;
    if (found->lstrip && begin > done)
      begin = done + without_trailing_space(text.substr(done, begin - done));
    if (found->rstrip) {
      if (end >= space_end)
        space_end = end + leading_space(text.substr(end));
      end = space_end;
    }
    if (begin > done)
      between(text.substr(done, begin - done));
    token(found->id);
    done = end;  // an added token may begin inside white space that rstrip took
  }
  if (done < text.size())
    between(text.substr(done));
}

}  // namespace troupe::runtime
