#include "runtime/tokenizer/gguf_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/gguf_words.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <set>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;

constexpr const char* blank = "\u2581";

std::string known_words() {
  std::vector<std::string_view> all;
  for (const auto& x : all_gguf_words())
    all.insert(all.end(), x.names.begin(), x.names.end());
  return fmt::format("{}", fmt::join(all, ", "));
}

/// The keys below "tokenizer.", with checks.
class gguf_tokenizer_reader {
 public:
  gguf_tokenizer_reader(const json& metadata, const std::string& where)
      : metadata_(metadata), where_(where) {}

  const json* find(const std::string& key) const {
    const auto found = metadata_.find("tokenizer." + key);
    return found == metadata_.end() ? nullptr : &*found;
  }

  template <class... Arguments>
  [[noreturn]] void refuse(const std::string& key,
                           fmt::format_string<Arguments...> why,
                           Arguments&&... arguments) const {
    throw input_error("{}: metadata \"tokenizer.{}\" {}",
                      where_,
                      key,
                      fmt::format(why, std::forward<Arguments>(arguments)...));
  }

  std::string text(const std::string& key) const {
    const auto* const x = find(key);
    if (x != nullptr && !x->is_string())
      refuse(key, "should be a text, but is {}", shown(*x));
    return x == nullptr ? std::string() : x->get<std::string>();
  }

  bool flag(const std::string& key, bool otherwise) const {
    const auto* const x = find(key);
    if (x != nullptr && !x->is_boolean())
      refuse(key, "should be true or false, but is {}", shown(*x));
    return x == nullptr ? otherwise : x->get<bool>();
  }

  /// Empty if the list is missing. `size`: of the list, unless 0.
  const json& list(const std::string& key,
                   bool (json::*is)() const noexcept,
                   std::size_t size) const {
    static const auto none = json::array();
    const auto* const x = find(key);
    if (x == nullptr)
      return none;
    if (!x->is_array() || !std::ranges::all_of(*x, [is](const json& one) { return (one.*is)(); }))
      refuse(key, "has elements of another type than expected");
    if (size > 0 && x->size() != size)
      refuse(key, "has {} elements, but there are {} tokens", x->size(), size);
    return *x;
  }

  /// The number of a token; nothing if the key is missing.
  std::optional<std::size_t> token(const std::string& key, std::size_t tokens) const {
    const auto* const x = find(key);
    if (x == nullptr)
      return {};
    if (!x->is_number_unsigned() || x->get<std::uint64_t>() >= tokens)
      refuse(key, "should be a token from 0 to {}, but is {}", tokens - 1, shown(*x));
    return x->get<std::size_t>();
  }

 private:
  const json& metadata_;
  const std::string& where_;
};

/// The lists of a file.
struct gguf_tokens {
  std::vector<std::string> text;
  std::vector<gguf_token> type;
};

gguf_tokens tokens_of(const gguf_tokenizer_reader& in) {
  gguf_tokens out;
  for (const auto& x : in.list("ggml.tokens", &json::is_string, 0))
    out.text.push_back(x.get<std::string>());
  if (out.text.empty())
    in.refuse("ggml.tokens", "is missing or empty; the file is damaged");
  std::set<std::string_view> seen;
  for (const auto& x : out.text)
    if (!seen.insert(x).second)
      in.refuse("ggml.tokens", "has {} twice", shown(json(x)));
  for (const auto& x : in.list("ggml.token_type", &json::is_number_integer, out.text.size())) {
    const auto type = whole_number_in(x).value_or(0);
    if (type < 1 || type > 6)
      in.refuse("ggml.token_type", "has the type {}, but types are 1 to 6", shown(x));
    out.type.push_back(gguf_token(type));
  }
  out.type.resize(out.text.size(), gguf_token::normal);
  return out;
}

json vocabulary_of(const gguf_tokens& tokens) {
  auto out = json::object();
  for (std::size_t i = 0; i < tokens.text.size(); ++i)
    out[tokens.text[i]] = i;
  return out;
}

json added_of(const gguf_tokens& tokens) {
  auto out = json::array();
  for (std::size_t i = 0; i < tokens.text.size(); ++i) {
    const auto type = tokens.type[i];
    const bool special = type == gguf_token::control || type == gguf_token::unknown;
    if (special || type == gguf_token::user_defined)
      out.push_back({{"id", i},
                     {"content", tokens.text[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return out;
}

/// Adds the tokens around a text.
json frame_of(const gguf_tokenizer_reader& in, const gguf_tokens& tokens, bool adds_beginning) {
  const auto begin = in.token("ggml.bos_token_id", tokens.text.size());
  const auto end = in.token("ggml.eos_token_id", tokens.text.size());
  auto single = json::array(), known = json::object();
  const auto add = [&](std::optional<std::size_t> id) {
    const auto& text = tokens.text[*id];
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    known[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  if (begin && in.flag("ggml.add_bos_token", adds_beginning))
    add(begin);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (end && in.flag("ggml.add_eos_token", false))
    add(end);
  if (known.empty())
    return nullptr;
  auto pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(known)}};
}

json bpe_model() {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false}};
}

json byte_level_of(const gguf_tokenizer_reader& in, const gguf_tokens& tokens) {
  const auto name = in.text("ggml.pre");
  const auto& all = all_gguf_words();
  const auto words = std::ranges::find_if(
      all, [&](const gguf_words& x) { return std::ranges::count(x.names, name) > 0; });
  if (words == all.end())
    in.refuse("ggml.pre",
              "is {}, whose word expression is not known ({} are): use the tokenizer.json of the "
              "original model, from its folder of Hugging Face",
              shown(json(name)),
              known_words());
  json out;
  out["normalizer"] = normalizer_of(*words);
  out["pre_tokenizer"] = pre_tokenizer_of(*words);
  out["post_processor"] = frame_of(in, tokens, words->adds_beginning);
  out["decoder"] = pre_tokenizer_of(all.front());
  auto& model = out["model"] = bpe_model();
  model["ignore_merges"] = words->whole_words;
  model["merges"] = in.list("ggml.merges", &json::is_string, 0);
  return out;
}

json sentence_piece_of(const gguf_tokenizer_reader& in, const gguf_tokens& tokens) {
  std::vector<float> scores;
  for (const auto& x : in.list("ggml.scores", &json::is_number, tokens.text.size()))
    if (scores.emplace_back(x.get<float>()); !std::isfinite(scores.back()))
      in.refuse("ggml.scores", "has a score that is not a finite number; the file is damaged");
  if (scores.empty())
    in.refuse("ggml.scores", "is missing; the file is damaged");
  if (in.flag("ggml.remove_extra_whitespaces", false))
    in.refuse("ggml.remove_extra_whitespaces",
              "is true, which is not supported: use the tokenizer.json of the original model, from "
              "its folder of Hugging Face");
  const bool prefix = in.flag("ggml.add_space_prefix", true);
  json out;
  auto steps = json::array();
  if (prefix)
    steps.push_back({{"type", "Prepend"}, {"prepend", blank}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", blank}});
  out["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  out["pre_tokenizer"] = nullptr;
  out["post_processor"] = frame_of(in, tokens, true);
  auto decoders
      = json::array({{{"type", "Replace"}, {"pattern", {{"String", blank}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}}});
  if (prefix)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  out["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  auto& model = out["model"] = bpe_model();
  model["fuse_unk"] = true;
  model["byte_fallback"] = std::ranges::count(tokens.type, gguf_token::byte) > 0;
  if (const auto unknown = std::ranges::find(tokens.type, gguf_token::unknown);
      unknown != tokens.type.end())
    model["unk_token"] = tokens.text[std::size_t(unknown - tokens.type.begin())];
  auto& merges = model["merges"] = json::array();
  for (const auto& [left, right] : merges_of_scores(tokens.text, scores))
    merges.push_back({left, right});
  return out;
}

}  // namespace

gguf_tokenizer_texts tokenizer_of_gguf(const json& metadata, const std::string& where) {
  const gguf_tokenizer_reader in(metadata, where);
  const auto kind = in.text("ggml.model");
  if (kind.empty() || kind == "none" || kind == "no_vocab")
    return {};
  if (kind != "gpt2" && kind != "llama")
    in.refuse("ggml.model",
              "is {}, which is not supported (gpt2 and llama are): use the tokenizer.json of the "
              "original model, from its folder of Hugging Face",
              shown(json(kind)));
  const auto tokens = tokens_of(in);
  auto out = kind == "gpt2" ? byte_level_of(in, tokens) : sentence_piece_of(in, tokens);
  out["version"] = "1.0";
  out["truncation"] = out["padding"] = nullptr;
  out["added_tokens"] = added_of(tokens);
  out["model"]["vocab"] = vocabulary_of(tokens);
  json configuration
      = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [key, name] : {std::pair("ggml.bos_token_id", "bos_token"),
                                  std::pair("ggml.eos_token_id", "eos_token"),
                                  std::pair("ggml.padding_token_id", "pad_token")})
    if (const auto id = in.token(key, tokens.text.size()))
      configuration[name] = tokens.text[*id];
  if (const auto chat = in.text("chat_template"); !chat.empty())
    configuration["chat_template"] = chat;
  return {json_text(out) + "\n", json_text(configuration, 2) + "\n"};
}

}  // namespace troupe::runtime
