#include "actors/command/tokenizer_flags.hpp"

#include "runtime/tokenizer/json_tokenizer.hpp"

#include <utility>

namespace troupe::command {
namespace {

constexpr const char* bpe = "GPT2BPETokenizer";
constexpr const char* null = "NullTokenizer";
constexpr const char* hub = "HuggingFaceTokenizer";

}  // namespace

void declare(command_line& line, tokenizer_flags& to) {
  line.group("Tokenizer");
  line.value(
      {.name = "--tokenizer-type",
       .field = "tokenizer.type",
       .type = "TYPE",
       .help
       = "GPT2BPETokenizer: byte-level BPE from two files. HuggingFaceTokenizer: byte-level BPE "
         "from a tokenizer.json. NullTokenizer: the text is token ids already, of a tokenizer "
         "that Troupe does not have, or of mock data.",
       .megatron = "GPT2BPETokenizer (default), HuggingFaceTokenizer of byte-level BPEs, and "
                   "NullTokenizer",
       .resume = at_resume::told},
      one_of(to.type, {bpe, hub, null}));
  line.value({.name = "--vocab-file",
              .field = "tokenizer.vocab_file",
              .type = "FILE",
              .help = "vocab.json of the BPE.",
              .megatron = "",
              .resume = at_resume::told},
             text(to.vocab_file));
  line.value({.name = "--merge-file",
              .field = "tokenizer.merge_file",
              .type = "FILE",
              .help = "merges.txt of the BPE.",
              .megatron = "",
              .resume = at_resume::told},
             text(to.merge_file));
  line.value({.name = "--tokenizer-model",
              .field = "tokenizer.model",
              .type = "FILE",
              .help = "Of a HuggingFaceTokenizer: its tokenizer.json, or the folder that has it.",
              .megatron = "",
              .resume = at_resume::told},
             text(to.model));
  line.value({.name = "--tokenizer",
              .field = "tokenizer.folder",
              .type = "DIR",
              .help = "A folder of the Hugging Face Hub or of `troupe tokenizer train`: its "
                      "tokenizer.json, or else its vocab.json and merges.txt.",
              .resume = at_resume::told},
             text(to.folder));
  line.value(
      {.name = "--vocab-size",
       .field = "model.vocabulary",
       .type = "N",
       .unit = "tokens",
       .help
       = "Number of token ids: needed for the NullTokenizer; must agree with the files of another.",
       .megatron = "the ids are 0 to N - 1, the last one ends a document; with another tokenizer N "
                   "must agree with its files",
       .resume = at_resume::refused},
      whole(to.vocabulary_size, 1));
}

runtime::tokenizer_choice choice_of(const tokenizer_flags& flags) {
  runtime::tokenizer_choice out{
      .type = flags.type, .vocab_file = flags.vocab_file, .merge_file = flags.merge_file};
  if (flags.type == null) {
    if (!flags.vocabulary_size)
      throw usage_error("--tokenizer-type NullTokenizer needs --vocab-size N: how many ids it has");
    out.vocabulary_size = std::int32_t(*flags.vocabulary_size);
    out.vocab_file.clear();
    out.merge_file.clear();
    return out;
  }
  if (!flags.folder.empty()) {
    if (!out.vocab_file.empty() || !out.merge_file.empty() || !flags.model.empty())
      throw usage_error(
          "--tokenizer and --vocab-file, --merge-file or --tokenizer-model say it twice: give one");
    return runtime::tokenizer_in(flags.folder);
  }
  if (flags.type == hub) {
    if (!out.vocab_file.empty() || !out.merge_file.empty())
      throw usage_error(
          "--vocab-file and --merge-file are of a GPT2BPETokenizer; a HuggingFaceTokenizer has "
          "--tokenizer-model");
    if (flags.model.empty())
      throw usage_error(
          "--tokenizer-type HuggingFaceTokenizer needs --tokenizer-model FILE: a tokenizer.json, "
          "or the folder that has it");
    out.model = runtime::tokenizer_json_in(flags.model);
    return out;
  }
  if (!flags.model.empty())
    throw usage_error(
        "--tokenizer-model is of a HuggingFaceTokenizer: give --tokenizer-type "
        "HuggingFaceTokenizer");
  if (out.vocab_file.empty() || out.merge_file.empty())
    throw usage_error(
        "the tokenizer needs {}: give --vocab-file and --merge-file (or --tokenizer DIR, or "
        "--tokenizer-type HuggingFaceTokenizer --tokenizer-model FILE, or --tokenizer-type "
        "NullTokenizer --vocab-size N)",
        out.vocab_file.empty() ? "its vocabulary" : "its merges");
  return out;
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
