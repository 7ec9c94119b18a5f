#include "actors/command/tokenizer_flags.hpp"

#include <utility>

namespace troupe::command {
namespace {

constexpr const char* bpe = "GPT2BPETokenizer";
constexpr const char* null = "NullTokenizer";

}  // namespace

void declare(command_line& line, tokenizer_flags& to) {
  line.group("Tokenizer");
  line.value(
      {.name = "--tokenizer-type",
       .field = "tokenizer.type",
       .type = "TYPE",
       .help = "GPT2BPETokenizer: byte-level BPE from two files. NullTokenizer: the text is token "
               "ids already, of a tokenizer that Troupe does not have, or of mock data.",
       .megatron = "GPT2BPETokenizer (default) and NullTokenizer",
       .resume = at_resume::told},
      one_of(to.type, {bpe, null}));
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
  line.value({.name = "--tokenizer",
              .field = "tokenizer.folder",
              .type = "DIR",
              .help = "Short for --vocab-file DIR/vocab.json --merge-file DIR/merges.txt, as "
                      "`troupe tokenizer train` writes them.",
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
    if (!out.vocab_file.empty() || !out.merge_file.empty())
      throw usage_error("--tokenizer and --vocab-file or --merge-file say it twice: give one");
    out.vocab_file = flags.folder / "vocab.json";
    out.merge_file = flags.folder / "merges.txt";
  }
  if (out.vocab_file.empty() || out.merge_file.empty())
    throw usage_error(
        "the tokenizer needs {}: give --vocab-file and --merge-file (or --tokenizer DIR, or "
        "--tokenizer-type NullTokenizer --vocab-size N)",
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
