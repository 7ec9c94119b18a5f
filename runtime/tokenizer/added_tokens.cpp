#include "runtime/tokenizer/added_tokens.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

struct surroundings {
  expression word_before{R"(\w\z)"}, word_after{R"(\A\w)"};
  expression space_before{R"(\s+\z)"}, space_after{R"(\A\s+)"};
};

const surroundings& around() {
  static const surroundings all;
  return all;
}

/// The last character of a text, so that a search for it does not begin at the first.
std::string_view last_character(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0 && (static_cast<unsigned char>(text[--at]) & 0xC0) == 0x80) {
  }
  return text.substr(at);
}

bool matches(const expression& what, std::string_view text) {
  return expression_search(what).find(text, 0).has_value();
}

std::size_t without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const auto last = last_character(text);
    if (!matches(around().space_before, last))
      break;
    text.remove_suffix(last.size());
  }
  return text.size();
}

std::size_t leading_space(std::string_view text) {
  const auto found = expression_search(around().space_after).find(text, 0);
  return found ? found->end : 0;
}

}  // namespace

added_tokens::added_tokens(std::vector<added_token> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& x) { return x.content.empty(); });
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
  // Those in [first, last) begin with the first `n` bytes of the text; the shortest comes first.
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
  std::size_t done = 0;
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
        && (matches(around().word_before, last_character(text.substr(0, begin)))
            || matches(around().word_after, text.substr(end))))
      continue;
    if (found->lstrip)
      begin = std::max(done, without_trailing_space(text.substr(0, begin)));
    if (found->rstrip)
      end += leading_space(text.substr(end));
    if (begin > done)
      between(text.substr(done, begin - done));
    token(found->id);
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size())
    between(text.substr(done));
}

}  // namespace troupe::runtime
