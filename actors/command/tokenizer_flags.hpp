// Flags that choose a tokenizer, for training, preprocessing and `troupe tokenizer`.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/core/bound_setting.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::command {

struct tokenizer_flags {
  std::string type = "GPT2BPETokenizer";
  std::filesystem::path vocab_file, merge_file;
  std::filesystem::path model;   ///< a file or its folder
  std::filesystem::path folder;  ///< --tokenizer; read by runtime::tokenizer_in
  std::optional<std::int64_t> vocabulary_size;
  std::string pattern;  ///< only for a TikTokenizer
  std::int64_t special_tokens = 1000;

  static constexpr auto changed_at_resume = runtime::at_resume::told;
  static constexpr auto fields() {
    using runtime::row;
    using x = tokenizer_flags;
    return std::tuple(
        row("tokenizer.type", &x::type)
            .flag({.name = "--tokenizer-type",
                   .type = "TYPE",
                   .help = "Kind of tokenizer. GPT2BPETokenizer: byte-level BPE from --vocab-file "
                           "and --merge-file. HuggingFaceTokenizer: a tokenizer.json. "
                           "SentencePieceTokenizer, GPTSentencePieceTokenizer and Llama2Tokenizer: "
                           "a SentencePiece model. TikTokenizer: a tiktoken file. "
                           "BertWordPieceLowerCase and BertWordPieceCase: BERT's vocab.txt as "
                           "--vocab-file. NullTokenizer: the text consists of token ids already, "
                           "or mock data.",
                   .megatron = "those listed in --help; default GPT2BPETokenizer; no text, "
                               "multimodal and SFT tokenizers"}),
        row("tokenizer.vocab_file", &x::vocab_file)
            .flag({.name = "--vocab-file",
                   .type = "FILE",
                   .help = "vocab.json of a BPE, or BERT's vocab.txt."}),
        row("tokenizer.merge_file", &x::merge_file)
            .flag({.name = "--merge-file", .type = "FILE", .help = "merges.txt of a BPE."}),
        row("tokenizer.model", &x::model)
            .flag({.name = "--tokenizer-model",
                   .type = "FILE",
                   .help
                   = "tokenizer.json of a HuggingFaceTokenizer, or its folder or model of the Hub "
                     "(ORG/NAME); the file of a TikTokenizer or SentencePieceTokenizer."}),
        row("tokenizer.folder", &x::folder)
            .own_flag({.name = "--tokenizer",
                       .type = "DIR",
                       .help
                       = "Folder from the Hugging Face Hub or `troupe tokenizer train`. Uses "
                         "its tokenizer.json, or else its vocab.json and merges.txt, "
                         "tokenizer.model, tiktoken.model or vocab.txt. Downloads ORG/NAME or "
                         "ORG/NAME@REVISION from the Hub."}),
        row("tokenizer.pattern", &x::pattern)
            .flag({.name = "--tiktoken-pattern",
                   .type = "NAME",
                   .default_value = "by the file's name; v2 for a JSON file",
                   .help = "With a TikTokenizer: how it splits a text, and its special tokens. "
                           "llama3.1: Llama 3.1 and later. kimi: Moonlight and Kimi, with the "
                           "tokenizer_config.json beside the file. v1 and v2: Megatron-LM's JSON "
                           "files.",
                   .choices
                   = "r50k_base p50k_base cl100k_base o200k_base llama3 llama3.1 kimi v1 v2"}),
        row("tokenizer.special_tokens", &x::special_tokens)
            .flag({.name = "--tiktoken-num-special-tokens",
                   .unit = "tokens",
                   .help = "With a TikTokenizer's JSON file: number of ids before its own tokens.",
                   .range = whole_range{7, 1 << 20}}),
        row("model.vocabulary", &x::vocabulary_size)
            .flag({.name = "--vocab-size",
                   .unit = "tokens",
                   .help = "Number of token ids. Required for NullTokenizer; must agree with the "
                           "files of other tokenizers.",
                   .megatron = "ids are 0 to N - 1, and the last one ends a document; with another "
                               "tokenizer N must agree with its files",
                   .range = whole_range{1},
                   .resume = runtime::at_resume::refused}));
  }
};

/// The flags of its rows, which `to` outlives.
std::vector<runtime::bound_setting> bind(tokenizer_flags& to);

/// Declares them under a title of their own.
void declare(command_line& line, tokenizer_flags& to);

/// Throws usage_error for flags that are missing or do not belong together.
runtime::tokenizer_choice choice_of(const tokenizer_flags& flags);

/// The tokenizer of choice_of. Throws input_error if its files cannot be read.
std::unique_ptr<const runtime::tokenizer> make(const tokenizer_flags& flags);

}  // namespace troupe::command
