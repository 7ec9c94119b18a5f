#include "runtime/data/preprocess.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
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

void tell(const runtime::preprocess_result& made) {
  print_page(
      "wrote '{}.bin' and '.idx': {}{}, {} from {} ({:.2f} bytes a token) in {:.1f} s{}\n",
      made.prefix.string(),
      runtime::counted(made.documents, "document"),
      made.empty_documents > 0 ? fmt::format(" ({} of them empty)", made.empty_documents) : "",
      runtime::counted(made.tokens, "token"),
      runtime::human_bytes(double(made.bytes)),
      double(made.bytes) / double(std::max<std::int64_t>(made.tokens, 1)),
      made.seconds,
      made.resumed_bytes > 0
          ? fmt::format("; went on after {}", runtime::human_bytes(double(made.resumed_bytes)))
          : "");
}

int preprocess_files(preprocess_flags& flags, const runtime::cancel_token& stop) {
  auto& what = flags.what;
  what.stop = stop;
  if (what.inputs.empty())
    throw usage_error("--input FILE... is missing: the text to tokenize");
  if (what.output_prefix.empty())
    throw usage_error("--output-prefix PREFIX is missing: the beginning of the output's names");
  if (!flags.format.empty())
    what.format = runtime::parse_text_format(flags.format);
  what.workers = unsigned(flags.workers.value_or(
      std::clamp(std::thread::hardware_concurrency(), 1U, runtime::most_preprocess_workers)));
  const auto with = make(flags.tokenizer);
  for (const auto& made : runtime::preprocess(*with, what))
    tell(made);
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
               .help = "Texts, read in this order; gzip and Zstandard are inflated.",
               .least = 1,
               .most = 1 << 20},
              all(what.inputs));
  line.value(
      "--output-prefix",
      "PREFIX",
      "Writes PREFIX_<key>_document.bin and .idx (_sentence with --split-sentences); <key> is "
      "text unless --json-keys.",
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
             whole(flags->workers, 1, runtime::most_preprocess_workers));
  line.toggle(
      "--split-sentences",
      "A sequence for each sentence, as BERT's data want it; documents are kept together. A "
      "list of strings in jsonl is taken as sentences without it.",
      [&what] { what.split_sentences = true; });
  line.toggle("--keep-newlines",
              "With --split-sentences: white space after a sentence stays with it.",
              [&what] { what.keep_newlines = true; });
  line.value(
      {.name = "--lang",
       .type = "LANGUAGE",
       .default_value = "english",
       .help = "Of the sentences. English has its abbreviations, others Unicode's rules alone."},
      text(what.language));
  line.toggle(
      "--no-resume",
      "Begins anew where a run before was killed; else the same command goes on from there, "
      "and another one is refused.",
      [&what] { what.resume = false; });
  declare(line, flags->tokenizer);
  line.accepted("--dataset-impl", 1, "the one format is mmap");
  line.accepted("--log-interval", 1, "a progress bar says how far it is");
  line.refused("--partitions", "--workers N shares the work among threads; leave it out");
  line.note(
      "Example, which writes data/corpus_text_document.bin and .idx, for --data-path "
      "data/corpus_text_document:");
  line.note(
      "troupe preprocess --input corpus.txt --output-prefix data/corpus --tokenizer tok "
      "--append-eod");
  line.note(
      "Memory: 2 MB of text a worker, its tokens, and a few times the largest document, which may "
      "have 1 GB; not more for more documents.");
  line.note(
      "Killed, even by SIGKILL, it leaves .partial files and PREFIX.journal, noted every 64 MB of "
      "text: run the same command again. Wrong input leaves nothing.");
  line.runs([flags] {
    return interruptible(
        [&](const runtime::cancel_token& stop) { return preprocess_files(*flags, stop); });
  });
}

}  // namespace troupe::command
