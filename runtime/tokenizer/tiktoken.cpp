#include "runtime/tokenizer/tiktoken.hpp"

#include "runtime/core/base64.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"
#include "runtime/tokenizer/tokenizer_json_parts.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int32_t most_tokens = 1 << 24;
constexpr std::size_t longest_token = 1024;  // limits work: each token is split at every byte

// Word patterns in the syntax of expression.hpp; `\z` is the end of the text.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
constexpr const char* cl100k_words = CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* llama3_words = CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* o200k_words
    = UPPER "*" LOWER "+" CONTRACTIONS "?|" UPPER "+" LOWER "*" CONTRACTIONS
            R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)"
            R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words of Chinese characters have no other letters.
#define OTHER(CLASS) R"((?:(?!\p{Han})[)" CLASS "])"
constexpr const char* kimi_words
    = R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" OTHER(R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})") "*" OTHER(
        R"(\p{Ll}\p{Lm}\p{Lo}\p{M})") "+" CONTRACTIONS R"(?|[^\r\n\p{L}\p{N}]?)"
          OTHER(R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})") "+" OTHER(R"(\p{Ll}\p{Lm}\p{Lo}\p{M})") "*" CONTRACTIONS
              R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
              R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef OTHER
constexpr const char* v1_words
    = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* v2_words
    = UPPER "*" LOWER "+|" UPPER "+" LOWER R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)"
            R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef CONTRACTIONS
#undef UPPER
#undef LOWER

struct special {
  std::int32_t id;
  std::string content;
};

struct encoding {
  const char* name;
  bool json;  ///< format: JSON or lines
  const char* words;
  std::int32_t tokens;  ///< upper bound of ranks in a file of lines
  std::vector<special> specials;
  const char* end;
};

/// The special tokens of the first release, from Meta's tokenizer.py.
std::vector<special> llama3_specials() {
  std::vector<special> out;
  const auto add = [&out](const std::string& name) {
    out.push_back({128000 + std::int32_t(out.size()), "<|" + name + "|>"});
  };
  int reserved = 0;
  const auto reserve = [&](int until) {
    while (reserved < until)
      add(fmt::format("reserved_special_token_{}", reserved++));
  };
  add("begin_of_text");
  add("end_of_text");
  reserve(4);
  add("start_header_id");
  add("end_header_id");
  reserve(5);
  add("eot_id");
  reserve(251);
  return out;
}

/// The special tokens of Llama 3.1 and later, from models/llama3/tokenizer.py of llama-models
/// 0.3.0.
std::vector<special> llama3_1_specials() {
  std::vector<special> out;
  for (const auto* name : {"begin_of_text",
                           "end_of_text",
                           "reserved_special_token_0",
                           "reserved_special_token_1",
                           "finetune_right_pad_id",
                           "step_id",
                           "start_header_id",
                           "end_header_id",
                           "eom_id",
                           "eot_id",
                           "python_tag",
                           "image"})
    out.push_back({128000 + std::int32_t(out.size()), fmt::format("<|{}|>", name)});
  for (int reserved = 2; out.size() < 256; ++reserved)
    out.push_back({128000 + std::int32_t(out.size()),
                   fmt::format("<|reserved_special_token_{}|>", reserved)});
  return out;
}

const std::vector<encoding>& encodings() {
  constexpr auto end = end_of_document_text;
  static const std::vector<encoding> all = {
      {"r50k_base", false, gpt2_words, 50256, {{50256, end}}, end},
      {"p50k_base", false, gpt2_words, 50281, {{50256, end}}, end},
      {"cl100k_base",
       false,
       cl100k_words,
       100256,
       {{100257, end},
        {100258, "<|fim_prefix|>"},
        {100259, "<|fim_middle|>"},
        {100260, "<|fim_suffix|>"},
        {100276, "<|endofprompt|>"}},
       end},
      {"o200k_base", false, o200k_words, 199998, {{199999, end}, {200018, "<|endofprompt|>"}}, end},
      {"llama3", false, llama3_words, 128000, llama3_specials(), "<|end_of_text|>"},
      {"llama3.1", false, llama3_words, 128000, llama3_1_specials(), "<|end_of_text|>"},
      {kimi_pattern, false, kimi_words, most_tokens, {}, "[EOS]"},
      {"v1", true, v1_words, 0, {}, "</s>"},
      {"v2", true, v2_words, 0, {}, "</s>"}};
  return all;
}

const encoding& encoding_of(const std::filesystem::path& file, const std::string& name, bool json) {
  for (const auto& one : encodings())
    if (one.name == name && one.json == json)
      return one;
  throw input_error(
      "cannot use '{}': {}; its form {}, for which the pattern is {}",
      file.string(),
      name.empty() ? "no pattern is given to split a text"
                   : "the pattern '" + name + "' is for the other form",
      json ? "is JSON" : "is lines of a token and its rank",
      json ? "v1 or v2"
           : "r50k_base, p50k_base, cl100k_base, o200k_base, llama3, llama3.1 or kimi");
}

/// Token bytes by rank; unused ranks are empty.
using ranks = std::vector<std::string>;

void put_rank(ranks& to, std::uint64_t rank, std::string bytes) {
  if (bytes.empty())
    throw input_error("the token of rank {} is empty", rank);
  if (bytes.size() > longest_token)
    throw input_error(
        "the token of rank {} has {} bytes, more than {}", rank, bytes.size(), longest_token);
  if (rank >= to.size())
    to.resize(rank + 1);
  if (!to[rank].empty())
    throw input_error("the rank {} occurs twice", rank);
  to[rank] = std::move(bytes);
}

ranks read_ranked_lines(std::string_view text, const encoding& of) {
  ranks out;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const auto one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.empty())
      continue;
    const auto space = one.find(' ');
    std::uint64_t rank = 0;
    const auto* const last = one.data() + one.size();
    if (space == one.npos || std::from_chars(one.data() + space + 1, last, rank).ptr != last
        || rank >= std::uint64_t(of.tokens))
      throw input_error("line {} is not a token in base64, a space and a rank below {} ({})",
                        line,
                        of.tokens,
                        of.name);
    put_rank(out, rank, from_base64(one.substr(0, space)));
  }
  return out;
}

ranks read_json(const std::string& text, std::uint64_t wanted) {
  nlohmann::json content;
  try {
    if (json_depth(text) > deepest_json)
      throw input_error("its brackets are more than {} deep", deepest_json);
    content = json_value(text);
  } catch (const nlohmann::json::exception& failure) {
    throw input_error("it is not JSON: {}; was it downloaded whole?", json_complaint(failure));
  }
  const json_part file{content, "the list"};
  ranks out;
  for (const auto& one : file.elements()) {
    if (out.size() == wanted)
      break;
    if (one.at("rank").whole(std::uint64_t(most_tokens)) != out.size())
      one.at("rank").refuse(fmt::format("it is not {}: ranks ascend by one", out.size()));
    put_rank(out, out.size(), from_base64(one.at("token_bytes").text()));
  }
  if (out.size() < wanted)
    throw input_error(
        "it has {} tokens, but {} are needed: choose a smaller vocabulary size, which counts the "
        "special tokens as well",
        out.size(),
        wanted);
  return out;
}

/// Lists all pairs of tokens that form a token. Pairs with the same result are adjacent and share a
/// rank.
std::vector<bpe_merge> merges_of(const ranks& all, std::int32_t first_id) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty() && !ids.emplace(all[rank], first_id + std::int32_t(rank)).second)
      throw input_error("the token of rank {} occurs twice", rank);
  std::vector<bpe_merge> out;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string_view token = all[rank];
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left != ids.end() && right != ids.end())
        out.push_back({left->second, right->second, first_id + std::int32_t(rank)});
    }
  }
  return out;
}

tokenizer_parts parts_of(const ranks& all, std::int32_t first_id, const encoding& of) {
  tokenizer_parts out;
  auto& tokens = out.vocabulary.tokens;
  tokens.resize(std::size_t(first_id) + all.size());
  byte_bpe_parts model{.order = merge_order::by_result};
  std::vector<bool> byte_seen(256);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty())
      continue;
    const auto id = first_id + std::int32_t(rank);
    tokens[std::size_t(id)] = to_characters(all[rank]);
    model.whole_words.push_back(id);
    if (all[rank].size() == 1) {
      const auto byte = static_cast<std::uint8_t>(all[rank].front());
      byte_seen[byte] = true;
      out.vocabulary.byte_ids[byte] = id;
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!byte_seen[byte])
      throw input_error("it has no token for byte 0x{:02X}", byte);
  out.vocabulary.merges = merges_of(all, first_id);
  out.model = std::move(model);
  out.rules.emplace_back(split_rule{expression(of.words), split_behavior::isolated, false});
  out.decoding.emplace_back(byte_level_decoding());
  return out;
}

void add_special(const special& one, tokenizer_parts& to) {
  auto& tokens = to.vocabulary.tokens;
  const auto id = std::size_t(one.id);
  if (id < tokens.size() && !tokens[id].empty())
    throw input_error("the id {} of {} belongs to another token", one.id, one.content);
  tokens.resize(std::max(tokens.size(), id + 1));
  tokens[id] = one.content;
  to.added.push_back({.id = one.id, .content = one.content, .special = true});
}

tiktoken_parts of_json(const std::filesystem::path& file,
                       const std::string& text,
                       const tiktoken_choice& choice) {
  static const std::vector<std::string> named
      = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
  const auto& of = encoding_of(file, choice.pattern.empty() ? "v2" : choice.pattern, true);
  const auto specials = choice.special_tokens;
  if (specials < std::int32_t(named.size()) || specials >= choice.vocabulary_size)
    throw input_error(
        "{} special tokens are out of range: give {} to {}, less than the size of the vocabulary",
        specials,
        named.size(),
        choice.vocabulary_size - 1);
  const auto all = read_json(text, std::uint64_t(choice.vocabulary_size - specials));
  tiktoken_parts out{parts_of(all, specials, of), of.end};
  for (std::int32_t id = 0; id < specials; ++id)
    add_special(
        {id,
         std::size_t(id) < named.size() ? named[std::size_t(id)] : fmt::format("<SPECIAL_{}>", id)},
        out.parts);
  return out;
}

/// The 256 special tokens after `first` ranks: those that tokenizer_config.json names, and reserved
/// ones.
std::vector<special> kimi_specials(const std::filesystem::path& beside, std::int32_t first) {
  constexpr std::int32_t all = 256;
  std::map<std::int32_t, std::string> names;
  const auto config = json_value_or_discarded(read_text(beside));
  const json_part file{config, fmt::format("'{}' beside it", beside.filename().string())};
  const auto named = file.at("added_tokens_decoder");
  if (!named.value.is_object())
    named.refuse("it is not an object of tokens by id");
  for (const auto& [key, token] : named.value.items()) {
    std::int32_t id = -1;
    const auto* const end = key.data() + key.size();
    if (std::from_chars(key.data(), end, id).ptr != end || id < first || id - first >= all)
      named.refuse(fmt::format("it has the id {}; special tokens have the ids {} to {}",
                               key.substr(0, 80),
                               first,
                               first + all - 1));
    names[id] = named.at(key.c_str()).at("content").text();
  }
  std::vector<special> out;
  for (auto id = first; id < first + all; ++id) {
    const auto found = names.find(id);
    out.push_back(
        {id, found != names.end() ? found->second : fmt::format("<|reserved_token_{}|>", id)});
  }
  return out;
}

tiktoken_parts of_kimi(const std::filesystem::path& file, const ranks& all, const encoding& of) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].empty())
      throw input_error("no line has rank {}, and special tokens follow the last rank", rank);
  tiktoken_parts out{parts_of(all, 0, of), named_end_of_document(file).value_or(of.end)};
  for (const auto& one :
       kimi_specials(file.parent_path() / "tokenizer_config.json", std::int32_t(all.size())))
    add_special(one, out.parts);
  return out;
}

tiktoken_parts of_lines(const std::filesystem::path& file,
                        const std::string& text,
                        const tiktoken_choice& choice) {
  const auto& of = encoding_of(file, choice.pattern, false);
  const auto all = read_ranked_lines(text, of);
  if (choice.pattern == kimi_pattern)
    return of_kimi(file, all, of);
  tiktoken_parts out{parts_of(all, 0, of), of.end};
  for (const auto& one : of.specials)
    add_special(one, out.parts);
  return out;
}

}  // namespace

tiktoken_parts load_tiktoken(const std::filesystem::path& file, const tiktoken_choice& choice) {
  const auto text = read_text(file);
  try {
    const bool json = text.starts_with('[') || text.starts_with('{');
    return json ? of_json(file, text, choice) : of_lines(file, text, choice);
  } catch (const input_error& failure) {
    if (std::string_view(failure.what()).starts_with("cannot use"))
      throw;
    throw input_error("cannot use '{}' as a file of tiktoken: {}", file.string(), failure.what());
  }
}

std::string tiktoken_pattern_of(const std::filesystem::path& file) {
  const auto name = file.stem().string();
  const auto& all = encodings();
  return std::any_of(all.begin(), all.end(), [&](const auto& x) { return name == x.name; })
             ? name
             : std::string();
}

}  // namespace troupe::runtime
