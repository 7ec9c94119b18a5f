#include "runtime/data/preprocess.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/signals.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/core/counted.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

namespace troupe::command {
namespace {

struct preprocess_flags {
  runtime::preprocess_options what;
  tokenizer_flags tokenizer;
  std::string format;
  std::optional<std::int64_t> workers;
};

int preprocess_files(preprocess_flags& flags, const runtime::cancel_token& stop) {
  auto& what = flags.what;
  what.stop = stop;
  if (what.inputs.empty())
    throw usage_error("--input FILE... is missing: the text to tokenize");
  if (what.output_prefix.empty())
    throw usage_error("--output-prefix PREFIX is missing: the beginning of the output's names");
  if (!flags.format.empty())
    what.format = runtime::parse_text_format(flags.format);
  what.workers
      = unsigned(flags.workers.value_or(std::max(1U, std::thread::hardware_concurrency())));
  const auto with = make(flags.tokenizer);
  for (const auto& made : runtime::preprocess(*with, what))
    fmt::print(
        "wrote '{}.bin' and '.idx': {}, {} from {} ({:.2f} bytes a token) "
        "in {:.1f} s\n",
        made.prefix.string(),
        runtime::counted(made.documents, "document"),
        runtime::counted(made.tokens, "token"),
        runtime::human_bytes(double(made.bytes)),
        double(made.bytes) / double(std::max<std::int64_t>(made.tokens, 1)),
        made.seconds);
  return 0;
}

}  // namespace

void add_preprocess(command_line& program) {
  auto& line = program.command(
      "preprocess", "turns text into the indexed data set that training reads (.bin and .idx).");
  const auto flags = std::make_shared<preprocess_flags>();
  auto& what = flags->what;
  line.values({.name = "--input",
               .field = "preprocess.input",
               .type = "FILE...",
               .help = "Texts, read in this order.",
               .least = 1,
               .most = 1 << 20},
              all(what.inputs));
  line.value("--output-prefix",
             "PREFIX",
             "Writes PREFIX_<key>_document.bin and .idx; <key> is text unless --json-keys.",
             text(what.output_prefix));
  line.value({.name = "--input-format",
              .type = "FORMAT",
              .default_value = "jsonl for .jsonl and .json, else paragraphs",
              .help = "jsonl: an object a line. paragraphs: documents between blank lines. lines: "
                      "each line. whole: each file."},
             text(flags->format));
  line.values({.name = "--json-keys",
               .field = "preprocess.json_keys",
               .type = "KEY...",
               .default_value = "text",
               .help = "Of jsonl: the fields to tokenize, a data set for each.",
               .least = 1,
               .most = 1 << 10},
              all(what.json_keys));
  line.toggle("--tokenizer-hf-no-include-special-tokens",
              "Without what the tokenizer's file puts around a text, <|begin_of_text|> of Llama 3, "
              "say; else it is put, as Megatron-LM does.",
              [flags] { flags->what.framed = false; });
  line.toggle("--append-eod",
              "Ends each document with <|endoftext|>, so that the model learns where they end.",
              [&what] { what.append_eod = true; });
  line.value({.name = "--workers",
              .type = "N",
              .default_value = "the cores",
              .help = "Threads; the output does not depend on them."},
             whole(flags->workers, 1, 4096));
  declare(line, flags->tokenizer);
  line.accepted("--dataset-impl", 1, "the one format is mmap");
  line.accepted("--log-interval", 1, "a progress bar says how far it is");
  line.refused("--split-sentences", "documents are not cut into sentences; leave it out");
  line.refused("--keep-newlines", "nothing inside a document is changed; leave it out");
  line.refused("--partitions", "--workers N shares the work among threads; leave it out");
  line.note(
      "Example, which writes data/corpus_text_document.bin and .idx, for --data-path "
      "data/corpus_text_document:");
  line.note(
      "troupe preprocess --input corpus.txt --output-prefix data/corpus --tokenizer tok "
      "--append-eod");
  line.runs([flags] {
    return interruptible(
        [&](const runtime::cancel_token& stop) { return preprocess_files(*flags, stop); });
  });
}

}  // namespace troupe::command
