#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/gguf_tokenizer.hpp"
#include "runtime/tokenizer/gguf_words.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;

[[noreturn]] void refuse(const gguf_tokenizer_source& from, const std::string& why) {
  throw input_error(
      "cannot write the tokenizer of {} into a GGUF file: {}; export the model as a folder of "
      "Hugging Face",
      from.where,
      why);
}

struct numbered_tokens {
  std::vector<std::string> text;
  std::vector<int> type;
};

numbered_tokens tokens_of_json(const gguf_tokenizer_source& from) {
  numbered_tokens out;
  const auto size = std::size_t(from.vocabulary);
  out.text.resize(size);
  out.type.assign(size, int(gguf_token::unused));
  const auto put = [&](const std::string& text, const json& id, gguf_token type) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= size)
      refuse(from,
             fmt::format("the model has {} tokens, but one has the number {}", size, shown(id)));
    out.text[id.get<std::size_t>()] = text;
    out.type[id.get<std::size_t>()] = int(type);
  };
  const auto& model = from.tokenizer.at("model");
  const bool bytes = model.value("byte_fallback", false);
  for (const auto& [text, id] : model.at("vocab").items()) {
    const bool byte = bytes && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
    put(text, id, byte ? gguf_token::byte : gguf_token::normal);
  }
  if (const auto added = from.tokenizer.find("added_tokens"); added != from.tokenizer.end())
    for (const auto& x : *added)
      put(x.at("content").get<std::string>(),
          x.at("id"),
          x.value("special", false) ? gguf_token::control : gguf_token::user_defined);
  if (const auto unknown = model.find("unk_token"); unknown != model.end() && unknown->is_string())
    if (const auto found = std::ranges::find(out.text, unknown->get<std::string>());
        found != out.text.end())
      out.type[std::size_t(found - out.text.begin())] = int(gguf_token::unknown);
  for (std::size_t i = 0; i < size; ++i)
    if (out.type[i] == int(gguf_token::unused))
      out.text[i] = fmt::format("[PAD{}]", i);
  return out;
}

std::vector<token_pair> merges_of_json(const gguf_tokenizer_source& from) {
  std::vector<token_pair> out;
  for (const auto& x : from.tokenizer.at("model").at("merges"))
    if (x.is_array()) {
      out.emplace_back(x.at(0).get<std::string>(), x.at(1).get<std::string>());
    } else {
      const auto both = x.get<std::string>();
      const auto border = both.find(' ');
      out.emplace_back(both.substr(0, border), both.substr(border + 1));
    }
  return out;
}

/// True for a tokenizer that writes blanks as U+2581.
bool is_sentence_piece(const json& tokenizer) {
  return tokenizer.at("model").value("byte_fallback", false);
}

void add_byte_level(nlohmann::ordered_json& out,
                    const gguf_tokenizer_source& from,
                    const std::vector<token_pair>& merges) {
  const auto& all = all_gguf_words();
  const auto words
      = std::ranges::find_if(all, [&](const gguf_words& x) { return cuts_as(x, from.tokenizer); });
  if (words == all.end())
    refuse(from,
           "GGUF has a name for its rules of words only if they are GPT-2's, Llama 3's, Qwen 2's, "
           "OLMo's or SmolLM's");
  out["tokenizer.ggml.pre"] = words->names.front();
  auto& to = out["tokenizer.ggml.merges"] = nlohmann::ordered_json::array();
  for (const auto& [left, right] : merges)
    to.push_back(left + " " + right);
}

/// The normalizer and pre-tokenizer of a Llama 2. Returns whether a blank comes before a text.
bool puts_blank(const gguf_tokenizer_source& from) {
  const auto text = [&](const char* key) {
    const auto found = from.tokenizer.find(key);
    return found == from.tokenizer.end() ? std::string("null") : json_text(*found);
  };
  const auto normal = text("normalizer"), pre = text("pre_tokenizer");
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const auto sequence = [](json steps) {
    return json_text(json{{"type", "Sequence"}, {"normalizers", std::move(steps)}});
  };
  if (pre == "null" && normal == sequence({{{"type", "Prepend"}, {"prepend", "\u2581"}}, replace}))
    return true;
  if (pre == "null" && (normal == sequence(json::array({replace})) || normal == json_text(replace)))
    return false;
  refuse(from,
         "its model falls back to bytes, but its normalizer and pre-tokenizer are not those of "
         "Llama 2");
}

void add_sentence_piece(nlohmann::ordered_json& out,
                        const gguf_tokenizer_source& from,
                        const std::vector<std::string>& tokens,
                        const std::vector<token_pair>& merges) {
  const auto scores = scores_of_merges(tokens, merges);
  const auto again = merges_of_scores(tokens, scores);
  if (!std::ranges::is_permutation(again, merges) || again != merges)
    refuse(from, "scores of tokens, which GGUF has, do not give its merges");
  out["tokenizer.ggml.add_space_prefix"] = puts_blank(from);
  auto& to = out["tokenizer.ggml.scores"] = nlohmann::ordered_json::array();
  for (const auto x : scores)
    to.push_back(double(x));
}

/// The number of a token that tokenizer_config.json names.
std::optional<std::int64_t> named(const gguf_tokenizer_source& from,
                                  const char* key,
                                  const std::vector<std::string>& tokens) {
  const auto found = from.configuration.find(key);
  if (found == from.configuration.end())
    return {};
  const auto text = found->is_object()   ? found->value("content", "")
                    : found->is_string() ? found->get<std::string>()
                                         : std::string();
  const auto at = std::ranges::find(tokens, text);
  return at == tokens.end() ? std::nullopt : std::optional<std::int64_t>(at - tokens.begin());
}

}  // namespace

nlohmann::ordered_json gguf_of_tokenizer(const gguf_tokenizer_source& from) try {
  if (from.tokenizer.at("model").value("type", "BPE") != "BPE")
    refuse(from, "only BPE is written, on bytes or with a fallback to bytes");
  const auto tokens = tokens_of_json(from);
  const auto merges = merges_of_json(from);
  const bool pieces = is_sentence_piece(from.tokenizer);
  nlohmann::ordered_json out;
  out["tokenizer.ggml.model"] = pieces ? "llama" : "gpt2";
  out["tokenizer.ggml.tokens"] = tokens.text;
  out["tokenizer.ggml.token_type"] = tokens.type;
  if (pieces)
    add_sentence_piece(out, from, tokens.text, merges);
  else
    add_byte_level(out, from, merges);
  const bool begins = !from.frame.before.empty(), ends = !from.frame.after.empty();
  if (from.frame.before.size() > 1 || from.frame.after.size() > 1)
    refuse(from, "it puts several tokens around a text");
  const auto begin = begins ? std::optional<std::int64_t>(from.frame.before.front())
                            : named(from, "bos_token", tokens.text);
  const auto end = ends                   ? std::optional<std::int64_t>(from.frame.after.front())
                   : from.end_of_document ? std::optional<std::int64_t>(*from.end_of_document)
                                          : named(from, "eos_token", tokens.text);
  for (const auto& [key, id] :
       {std::pair("tokenizer.ggml.bos_token_id", begin),
        std::pair("tokenizer.ggml.eos_token_id", end),
        std::pair("tokenizer.ggml.padding_token_id", named(from, "pad_token", tokens.text))})
    if (id)
      out[key] = std::uint64_t(*id);
  out["tokenizer.ggml.add_bos_token"] = begins;
  out["tokenizer.ggml.add_eos_token"] = ends;
  const auto chat = from.configuration.value("chat_template", json());
  if (!from.chat_template.empty())
    out["tokenizer.chat_template"] = from.chat_template;
  else if (chat.is_string())
    out["tokenizer.chat_template"] = chat;
  else if (chat.is_array())
    for (const auto& one : chat)
      if (one.at("name") == "default")
        out["tokenizer.chat_template"] = one.at("template").get<std::string>();
  return out;
} catch (const json::exception& failure) {
  refuse(from, "its tokenizer.json lacks a part: " + json_complaint(failure));
}

}  // namespace troupe::runtime
