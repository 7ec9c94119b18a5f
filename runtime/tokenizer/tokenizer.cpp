#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/bert_vocabulary.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"
#include "runtime/tokenizer/pipeline_tokenizer.hpp"
#include "runtime/tokenizer/sentencepiece_tokenizer.hpp"
#include "runtime/tokenizer/tiktoken.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::pair<const char*, tokenizer_family> families[]
    = {{"GPT2BPETokenizer", tokenizer_family::gpt2},
       {"HuggingFaceTokenizer", tokenizer_family::hub},
       {"SentencePieceTokenizer", tokenizer_family::sentence_piece},
       {"GPTSentencePieceTokenizer", tokenizer_family::sentence_piece},
       {"Llama2Tokenizer", tokenizer_family::sentence_piece},
       {"TikTokenizer", tokenizer_family::tiktoken},
       {"BertWordPieceLowerCase", tokenizer_family::bert},
       {"BertWordPieceCase", tokenizer_family::bert},
       {"NullTokenizer", tokenizer_family::null}};

bool is_there(const fs::path& file) {
  std::error_code failure;
  return fs::exists(file, failure);
}

/// Reads a JSON object beside a tokenizer; empty if the file does not exist.
nlohmann::json beside(const fs::path& file) {
  if (!is_there(file))
    return nlohmann::json::object();
  const auto content = json_value_or_discarded(read_text(file));
  if (!content.is_object())
    throw input_error("cannot use '{}': it is not a JSON object; was it downloaded whole?",
                      file.string());
  return content;
}

std::string text_of(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[noreturn]] void refuse_folder(const fs::path& folder, const std::string& why) {
  throw input_error(
      "cannot use the tokenizer in '{}': {}; put its tokenizer.json there (transformers' "
      "save_pretrained writes it)",
      folder.string(),
      why);
}

/// vocab.json and merges.txt do not define how a text is split into words, so the files beside them
/// must not contradict GPT-2's rule.
void require_gpt2_words(const fs::path& folder) {
  const auto of = [&](const std::string& what) {
    refuse_folder(
        folder,
        fmt::format("it is {}, which may split texts into words differently from GPT-2, and its "
                    "vocab.json does not define how (if GPT-2's rule is right, give both files "
                    "with `tokenizer.vocab_file` and `tokenizer.merge_file`)",
                    what));
  };
  const auto tokenizer = beside(folder / "tokenizer_config.json");
  const auto by = text_of(tokenizer, "tokenizer_class");
  if (!by.empty() && by != "GPT2Tokenizer" && by != "GPT2TokenizerFast")
    of("of '" + by + "'");
  if (const auto model = text_of(beside(folder / "config.json"), "model_type");
      !model.empty() && model != "gpt2")
    of("of '" + model + "'");
  if (const auto prefix = tokenizer.find("add_prefix_space");
      prefix != tokenizer.end() && *prefix != false)
    of("one with \"add_prefix_space\"");
  if (is_there(folder / "added_tokens.json"))
    of("one with an added_tokens.json");
}

/// Returns the pattern of a Llama 3. Version 3.1 and later have other special tokens and scaled
/// RoPE, as config.json or Meta's params.json shows.
const char* llama3_pattern(const fs::path& folder) {
  const auto config = beside(folder / "config.json"), meta = beside(folder / "params.json");
  const auto stretched = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_object() && text_of(*found, "rope_type") == "llama3";
  };
  const auto scaled = meta.find("use_scaled_rope");
  const bool later = stretched("rope_scaling") || stretched("rope_parameters")
                     || (scaled != meta.end() && *scaled == true);
  return later ? "llama3.1" : "llama3";
}

/// A tokenizer.model is a SentencePiece model or, in Llama 3, a tiktoken file.
tokenizer_choice of_model(const fs::path& folder, const fs::path& file) {
  if (is_there(folder / "added_tokens.json"))
    refuse_folder(folder, "its added_tokens.json has tokens that its tokenizer.model does not");
  const auto text = read_text(file).substr(0, 200);
  const auto space = text.find(' ');
  const auto is_lines = space != text.npos && space > 0
                        && text.find_first_not_of(
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
                               "xyz0123456789+/=")
                               == space;
  if (!is_lines)
    return {.type = "SentencePieceTokenizer", .model = file};
  // The file does not name its pattern, but only Llama 3 uses this file name.
  return {.type = "TikTokenizer", .model = file, .pattern = llama3_pattern(folder)};
}

/// A tiktoken.model does not name its pattern. The code beside it in the Hub does.
tokenizer_choice of_kimi_model(const fs::path& folder, const fs::path& file) {
  const auto by = text_of(beside(folder / "tokenizer_config.json"), "tokenizer_class");
  if (by != "TikTokenTokenizer" && by != "Kimi2_6Tokenizer")
    refuse_folder(
        folder,
        fmt::format("its tokenizer_config.json has the \"tokenizer_class\" '{}', and a "
                    "tiktoken.model is read with TikTokenTokenizer, that of Moonlight and "
                    "Kimi",
                    by));
  return {.type = "TikTokenizer", .model = file, .pattern = kimi_pattern};
}

tokenizer_choice of_bert(const fs::path& folder, const fs::path& file) {
  const auto settings = beside(folder / "tokenizer_config.json");
  const auto by = text_of(settings, "tokenizer_class");
  if (!by.empty() && by != "BertTokenizer" && by != "BertTokenizerFast")
    refuse_folder(folder, "its vocab.txt is of '" + by + "', not of BERT");
  const auto sets = [&](const char* key, const nlohmann::json& otherwise) {
    const auto found = settings.find(key);
    if (found != settings.end() && *found != otherwise)
      refuse_folder(folder, fmt::format("its tokenizer_config.json sets \"{}\"", key));
  };
  sets("strip_accents", nullptr);
  sets("tokenize_chinese_chars", true);
  sets("never_split", nullptr);
  const auto lower = settings.find("do_lower_case");
  const bool kept = lower != settings.end() && *lower == false;
  return {.type = kept ? "BertWordPieceCase" : "BertWordPieceLowerCase", .vocab_file = file};
}

std::unique_ptr<const tokenizer> make_tiktoken(const tokenizer_choice& choice) {
  tiktoken_choice how{.pattern = choice.pattern, .special_tokens = choice.special_tokens};
  if (choice.vocabulary_size > 0)
    how.vocabulary_size = choice.vocabulary_size;
  auto loaded = load_tiktoken(choice.model, how);
  return std::make_unique<pipeline_tokenizer>(
      std::move(loaded.parts), loaded.end_of_document, choice.type);
}

}  // namespace

std::string joined(std::span<const std::int32_t> ids, const std::vector<std::string>& text) {
  std::string out;
  for (const auto id : ids) {
    if (id < 0 || std::size_t(id) >= text.size())
      throw input_error("cannot decode id {}: the vocabulary ends at {}", id, text.size() - 1);
    out += text[std::size_t(id)];
  }
  return out;
}

std::string tokenizer::piece(std::int32_t id, std::optional<std::int32_t> before) const {
  if (!before)
    return decode({&id, 1});
  const std::int32_t both[] = {*before, id};
  const auto all = decode(both);
  return all.substr(std::min(decode({both, 1}).size(), all.size()));
}

std::optional<tokenizer_family> family_of(const std::string& type) {
  for (const auto& [name, family] : families)
    if (name == type)
      return family;
  return std::nullopt;
}

const std::vector<std::string>& tokenizer_types() {
  static const auto all = [] {
    std::vector<std::string> out;
    for (const auto& one : families)
      out.emplace_back(one.first);
    return out;
  }();
  return all;
}

std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice) {
  const auto family = family_of(choice.type);
  if (!family)
    throw input_error("cannot make a tokenizer of type '{}': choose one of {}",
                      choice.type,
                      fmt::join(tokenizer_types(), ", "));
  const auto required = [&](const fs::path& file, const char* what) {
    if (file.empty())
      throw input_error("cannot make a {}: {} is not given", choice.type, what);
  };
  switch (*family) {
    case tokenizer_family::null:
      return std::make_unique<null_tokenizer>(choice.vocabulary_size);
    case tokenizer_family::gpt2:
      required(choice.vocab_file, "its vocabulary, a vocab.json,");
      required(choice.merge_file, "its merges, a merges.txt,");
      return std::make_unique<bpe_tokenizer>(
          load_bpe_vocabulary(choice.vocab_file, choice.merge_file));
    case tokenizer_family::hub:
      required(choice.model, "its tokenizer.json");
      return make_json_tokenizer(choice.model);
    case tokenizer_family::bert:
      required(choice.vocab_file, "its vocabulary, a vocab.txt,");
      return std::make_unique<pipeline_tokenizer>(
          load_bert_vocabulary(
              choice.vocab_file,
              choice.type == "BertWordPieceCase" ? bert_case::kept : bert_case::lowered),
          bert_end_of_document,
          choice.type);
    case tokenizer_family::tiktoken:
      required(choice.model, "its file of tokens and ranks");
      return make_tiktoken(choice);
    case tokenizer_family::sentence_piece:
      break;
  }
  required(choice.model, "its model");
  return std::make_unique<sentencepiece_tokenizer>(choice.model, choice.type);
}

bool has_tokenizer(const fs::path& folder) {
  for (const auto* name :
       {"tokenizer.json", "vocab.json", "tokenizer.model", "tiktoken.model", "vocab.txt"})
    if (is_there(folder / name))
      return true;
  return false;
}

tokenizer_choice tokenizer_in(const fs::path& folder) {
  if (const auto file = folder / "tokenizer.json"; is_there(file))
    return {.type = "HuggingFaceTokenizer", .model = file};
  const auto vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (is_there(vocabulary) || is_there(merges)) {
    require_gpt2_words(folder);
    return {.type = bpe_tokenizer::type_name, .vocab_file = vocabulary, .merge_file = merges};
  }
  if (const auto file = folder / "tokenizer.model"; is_there(file))
    return of_model(folder, file);
  if (const auto file = folder / "tiktoken.model"; is_there(file))
    return of_kimi_model(folder, file);
  if (const auto file = folder / "vocab.txt"; is_there(file))
    return of_bert(folder, file);
  const auto kept = kept_tokenizer_folder(folder);
  throw input_error(
      "there is no tokenizer in '{}': neither tokenizer.json, nor vocab.json with merges.txt, nor "
      "tokenizer.model, nor tiktoken.model, nor vocab.txt{}",
      folder.string(),
      has_tokenizer(kept) ? fmt::format("; did you mean '{}'?", kept.string()) : "");
}

tokenizer_choice tokenizer_of_model(const fs::path& folder, std::int64_t vocabulary_size) {
  if (has_tokenizer(folder))
    return tokenizer_in(folder);
  return {.type = null_tokenizer::type_name, .vocabulary_size = std::int32_t(vocabulary_size)};
}

}  // namespace troupe::runtime
