#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/json_tokenizer.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code failure;
  return fs::exists(file, failure);
}

/// A JSON object beside a tokenizer; empty where there is none.
nlohmann::json beside(const fs::path& file) {
  if (!is_there(file))
    return nlohmann::json::object();
  const auto content = json_value_or_discarded(read_text(file));
  if (!content.is_object())
    throw input_error("cannot use '{}': it is no JSON object; was it downloaded whole?",
                      file.string());
  return content;
}

/// vocab.json and merges.txt do not say how a text is cut into words; what lies beside them may.
void require_gpt2_words(const fs::path& folder) {
  const auto of = [&](const std::string& what) {
    throw input_error(
        "cannot use the tokenizer in '{}': it is {}, which need not cut texts into words as "
        "GPT-2 does, and its vocab.json does not say how; put its tokenizer.json there "
        "(transformers' save_pretrained writes it), or, if GPT-2's cut is right, name both files "
        "by `tokenizer.vocab_file` and `tokenizer.merge_file`",
        folder.string(),
        what);
  };
  const auto text = [](const nlohmann::json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto tokenizer = beside(folder / "tokenizer_config.json");
  const auto by = text(tokenizer, "tokenizer_class");
  if (!by.empty() && by != "GPT2Tokenizer" && by != "GPT2TokenizerFast")
    of("of '" + by + "'");
  if (const auto model = text(beside(folder / "config.json"), "model_type");
      !model.empty() && model != "gpt2")
    of("of '" + model + "'");
  if (const auto prefix = tokenizer.find("add_prefix_space");
      prefix != tokenizer.end() && *prefix != false)
    of("one with \"add_prefix_space\"");
  if (is_there(folder / "added_tokens.json"))
    of("one with an added_tokens.json");
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

std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice) {
  if (choice.type == null_tokenizer::type_name)
    return std::make_unique<null_tokenizer>(choice.vocabulary_size);
  if (choice.type == bpe_tokenizer::type_name) {
    if (choice.vocab_file.empty() || choice.merge_file.empty())
      throw input_error(
          "cannot make a GPT2BPETokenizer: {} is not given; name both a vocab.json and a "
          "merges.txt",
          choice.vocab_file.empty() ? "the vocabulary file" : "the merge file");
    return std::make_unique<bpe_tokenizer>(
        load_bpe_vocabulary(choice.vocab_file, choice.merge_file));
  }
  if (choice.type == json_tokenizer::type_name) {
    if (choice.model.empty())
      throw input_error("cannot make a HuggingFaceTokenizer: no tokenizer.json is given");
    return make_json_tokenizer(choice.model);
  }
  throw input_error(
      "cannot make a tokenizer of type '{}': choose HuggingFaceTokenizer, GPT2BPETokenizer or "
      "NullTokenizer",
      choice.type);
}

tokenizer_choice tokenizer_in(const fs::path& folder) {
  if (const auto file = folder / "tokenizer.json"; is_there(file))
    return {.type = json_tokenizer::type_name, .model = file};
  const auto vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (!is_there(vocabulary) && !is_there(merges))
    throw input_error(
        "there is no tokenizer in '{}': neither tokenizer.json nor vocab.json with merges.txt",
        folder.string());
  require_gpt2_words(folder);
  return {.type = bpe_tokenizer::type_name, .vocab_file = vocabulary, .merge_file = merges};
}

}  // namespace troupe::runtime
