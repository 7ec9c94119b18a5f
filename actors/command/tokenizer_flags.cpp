#include "actors/command/tokenizer_flags.hpp"

#include "actors/command/hub_models.hpp"
#include "actors/command/setting_flags.hpp"
#include "runtime/tokenizer/tiktoken.hpp"

#include <algorithm>
#include <utility>

namespace troupe::command {
namespace {

using runtime::tokenizer_family;

constexpr const char* null = "NullTokenizer";

/// The file of --tokenizer-model. Throws usage_error if it is missing; `what` describes it.
std::filesystem::path model_file(const tokenizer_flags& flags, const char* what) {
  if (flags.model.empty())
    throw usage_error("--tokenizer-type {} needs --tokenizer-model FILE: {}", flags.type, what);
  return flags.model;
}

/// The tokenizer of a Hugging Face folder, in any of its files, or of a tokenizer.json.
runtime::tokenizer_choice of_hub(const tokenizer_flags& flags) {
  auto file = model_file(flags, "a tokenizer.json, or its folder");
  if (names_hub_model(file))
    file = hub_or_local_folder("--tokenizer-model", file, runtime::hub_files::tokenizer);
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure))
    return runtime::tokenizer_in(file);
  return {.type = flags.type, .model = file};
}

runtime::tokenizer_choice of_tiktoken(const tokenizer_flags& flags) {
  const auto file = model_file(flags, "a tiktoken file (tokens by rank)");
  return {.type = flags.type,
          .vocabulary_size = std::int32_t(flags.vocabulary_size.value_or(0)),
          .model = file,
          .pattern = flags.pattern.empty() ? runtime::tiktoken_pattern_of(file) : flags.pattern,
          .special_tokens = std::int32_t(flags.special_tokens)};
}

void refuse_other_files(const tokenizer_flags& flags, tokenizer_family family) {
  const bool vocabulary = family == tokenizer_family::gpt2 || family == tokenizer_family::bert;
  const auto belongs = [&](const char* flag, bool given, bool right, const char* types) {
    if (given && !right)
      throw usage_error("{} does not belong to a {}: leave it out, or give --tokenizer-type {}",
                        flag,
                        flags.type,
                        types);
  };
  belongs("--vocab-file",
          !flags.vocab_file.empty(),
          vocabulary,
          "GPT2BPETokenizer or BertWordPieceLowerCase");
  belongs("--merge-file",
          !flags.merge_file.empty(),
          family == tokenizer_family::gpt2,
          "GPT2BPETokenizer");
  belongs("--tokenizer-model",
          !flags.model.empty(),
          !vocabulary,
          "HuggingFaceTokenizer, TikTokenizer or SentencePieceTokenizer");
  if (!flags.pattern.empty() && family != tokenizer_family::tiktoken)
    throw usage_error("--tiktoken-pattern needs --tokenizer-type TikTokenizer");
}

}  // namespace

std::vector<runtime::bound_setting> bind(tokenizer_flags& to) {
  auto out = runtime::bind_settings(to);
  std::ranges::find(out, "tokenizer.type", &runtime::bound_setting::name)->choices
      = runtime::tokenizer_types();
  return out;
}

void declare(command_line& line, tokenizer_flags& to) {
  line.group("Tokenizer");
  for (auto& x : bind(to))
    declare_setting(line, std::move(x));
}

runtime::tokenizer_choice choice_of(const tokenizer_flags& flags) {
  if (flags.type == null) {
    if (!flags.vocabulary_size)
      throw usage_error(
          "--tokenizer-type NullTokenizer needs --vocab-size N: the number of its ids");
    return {.type = flags.type, .vocabulary_size = std::int32_t(*flags.vocabulary_size)};
  }
  if (!flags.folder.empty()) {
    if (!flags.vocab_file.empty() || !flags.merge_file.empty() || !flags.model.empty())
      throw usage_error(
          "--tokenizer and --vocab-file, --merge-file or --tokenizer-model exclude each other: "
          "give one");
    return runtime::tokenizer_in(
        hub_or_local_folder("--tokenizer", flags.folder, runtime::hub_files::tokenizer));
  }
  const auto family = runtime::family_of(flags.type).value();
  refuse_other_files(flags, family);
  switch (family) {
    case tokenizer_family::null:
    case tokenizer_family::gpt2:
      break;
    case tokenizer_family::hub:
      return of_hub(flags);
    case tokenizer_family::tiktoken:
      return of_tiktoken(flags);
    case tokenizer_family::sentence_piece:
      return {.type = flags.type, .model = model_file(flags, "a SentencePiece model")};
    case tokenizer_family::bert:
      if (flags.vocab_file.empty())
        throw usage_error("--tokenizer-type {} needs --vocab-file FILE: BERT's vocab.txt",
                          flags.type);
      return {.type = flags.type, .vocab_file = flags.vocab_file};
  }
  if (flags.vocab_file.empty() || flags.merge_file.empty())
    throw usage_error(
        "the tokenizer needs {}: give --vocab-file and --merge-file (or --tokenizer DIR, or "
        "--tokenizer-type HuggingFaceTokenizer --tokenizer-model FILE, or --tokenizer-type "
        "NullTokenizer --vocab-size N)",
        flags.vocab_file.empty() ? "its vocabulary" : "its merges");
  return {.type = flags.type, .vocab_file = flags.vocab_file, .merge_file = flags.merge_file};
}

std::unique_ptr<const runtime::tokenizer> make(const tokenizer_flags& flags) {
  auto out = runtime::make_tokenizer(choice_of(flags));
  if (flags.vocabulary_size && *flags.vocabulary_size != out->vocabulary_size())
    throw usage_error(
        "--vocab-size {} contradicts the tokenizer, which has {} tokens: leave it out",
        *flags.vocabulary_size,
        out->vocabulary_size());
  return out;
}

}  // namespace troupe::command
