#include "runtime/tokenizer/gguf_words.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;

/// Adds the rules of a tokenizer.json for words, without settings that no id depends on.
void add_rules_of(const json& part, std::vector<std::string>& to) {
  if (!part.is_object())
    return;
  const auto type = part.value("type", "");
  for (const auto* list : {"pretokenizers", "normalizers"})
    if (const auto found = part.find(list); found != part.end() && found->is_array()) {
      for (const auto& one : *found)
        add_rules_of(one, to);
      return;
    }
  const auto setting = [&](const char* key, bool otherwise) {
    const auto found = part.find(key);
    return (found == part.end() ? otherwise : *found == true) ? "1" : "0";
  };
  auto rule = type;
  if (type == "ByteLevel")
    rule += std::string(setting("add_prefix_space", true)) + setting("use_regex", true);
  else if (type == "Digits")
    rule += setting("individual_digits", false);
  else if (type == "Split")
    rule += part.value("behavior", "") + setting("invert", false)
            + (part.contains("pattern") ? part["pattern"].value("Regex", "") : "");
  to.push_back(rule);
}

std::vector<std::string> rules_of(const json& normalizer, const json& pre_tokenizer) {
  std::vector<std::string> out;
  add_rules_of(normalizer, out);
  out.emplace_back("|");
  add_rules_of(pre_tokenizer, out);
  return out;
}

/// The starts of the characters of UTF-8 but the first.
std::vector<std::size_t> inner_borders(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 1; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      out.push_back(i);
  return out;
}

std::unordered_map<std::string_view, std::size_t> numbers_of(
    const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, std::size_t> out;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    out.emplace(tokens[i], i);
  return out;
}

}  // namespace

const std::vector<gguf_words>& all_gguf_words() {
  static const std::vector<gguf_words> all
      = {{.names = {"gpt-2"}},
         {.names = {"llama-bpe", "llama3", "llama-v3"},
          .expression = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                        R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          .whole_words = true,
          .adds_beginning = true},
         {.names = {"qwen2", "deepseek-r1-qwen"},
          .composed = true,
          .expression = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                        R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
         {.names = {"olmo"}, .composed = true},
         {.names = {"smollm"}, .digits = true}};
  return all;
}

json normalizer_of(const gguf_words& x) {
  return x.composed ? json{{"type", "NFC"}} : json();
}

json pre_tokenizer_of(const gguf_words& x) {
  json bytes = {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", x.expression.empty()}};
  if (!x.digits && x.expression.empty())
    return bytes;
  auto first = x.digits ? json{{"type", "Digits"}, {"individual_digits", true}}
                        : json{{"type", "Split"},
                               {"pattern", {{"Regex", x.expression}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {std::move(first), std::move(bytes)}}};
}

bool cuts_as(const gguf_words& x, const json& tokenizer) {
  const auto part = [&](const char* key) {
    const auto found = tokenizer.find(key);
    return found == tokenizer.end() ? json() : *found;
  };
  return rules_of(normalizer_of(x), pre_tokenizer_of(x))
             == rules_of(part("normalizer"), part("pre_tokenizer"))
         && tokenizer.at("model").value("ignore_merges", false) == x.whole_words;
}

std::vector<token_pair> merges_of_scores(const std::vector<std::string>& tokens,
                                         const std::vector<float>& scores) {
  struct found_merge {
    float score;
    std::size_t token, left, right;
  };
  const auto numbers = numbers_of(tokens);
  std::vector<found_merge> found;
  constexpr std::size_t longest = 256;  // bytes of a token that merges make
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    if (token.size() > longest)
      continue;
    for (const auto border : inner_borders(token)) {
      const auto left = numbers.find(token.substr(0, border));
      const auto right = numbers.find(token.substr(border));
      if (left != numbers.end() && right != numbers.end())
        found.push_back({scores[i], i, left->second, right->second});
    }
  }
  std::sort(found.begin(), found.end(), [](const found_merge& a, const found_merge& b) {
    return std::tuple(-a.score, a.token, a.left, a.right)
           < std::tuple(-b.score, b.token, b.left, b.right);
  });
  std::vector<token_pair> out;
  for (const auto& x : found)
    out.emplace_back(tokens[x.left], tokens[x.right]);
  return out;
}

std::vector<float> scores_of_merges(const std::vector<std::string>& tokens,
                                    const std::vector<token_pair>& merges) {
  const auto numbers = numbers_of(tokens);
  std::vector<float> out(tokens.size(), 0);
  float next = -1;
  for (const auto& [left, right] : merges) {
    const auto found = numbers.find(left + right);
    if (found != numbers.end() && out[found->second] == 0)
      out[found->second] = next--;
  }
  return out;
}

}  // namespace troupe::runtime
