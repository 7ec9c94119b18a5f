#include "runtime/data/preprocess.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/other_names.hpp"
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
          ? fmt::format("; resumed after {}", runtime::human_bytes(double(made.resumed_bytes)))
          : "");
}

int preprocess_files(preprocess_flags& flags, const runtime::cancel_token& stop) {
  auto& what = flags.what;
  what.stop = stop;
  if (what.inputs.empty())
    throw usage_error("--input FILE... is missing: the text to tokenize");
  if (what.output_prefix.empty())
    throw usage_error("--output-prefix PREFIX is missing: the first part of the output's names");
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
      "preprocess", "converts text to the indexed data set that training reads (.bin and .idx).");
  const auto flags = std::make_shared<preprocess_flags>();
  auto& what = flags->what;
  line.values({.name = "--input",
               .field = "preprocess.input",
               .type = "FILE...",
               .help = "Text files, read in this order; gzip and Zstandard are decompressed.",
               .least = 1,
               .most = 1 << 20},
              all(what.inputs));
  line.value("--output-prefix",
             "PREFIX",
             "Writes PREFIX_<key>_document.bin and .idx (_sentence with --split-sentences); <key> "
             "is text unless --json-keys is given.",
             text(what.output_prefix));
  line.value({.name = "--input-format",
              .type = "FORMAT",
              .default_value = "jsonl for .jsonl and .json, else paragraphs",
              .help = "Documents of the input. jsonl: an object per line. paragraphs: text between "
                      "blank lines. lines: each line. whole: each file."},
             text(flags->format));
  line.values({.name = "--json-keys",
               .field = "preprocess.json_keys",
               .type = "KEY...",
               .default_value = "text",
               .help = "With jsonl: the fields to tokenize; each becomes a data set.",
               .least = 1,
               .most = 1 << 10},
              all(what.json_keys));
  line.toggle("--tokenizer-hf-no-include-special-tokens",
              "Omits the special tokens that the tokenizer's file puts around a text, e.g. "
              "<|begin_of_text|> of Llama 3. Without this flag they are added, as in Megatron-LM.",
              [flags] { flags->what.framed = false; });
  line.toggle(
      "--append-eod",
      "Ends each document with <|endoftext|>, so that the model learns where documents end.",
      [&what] { what.append_eod = true; });
  line.value({.name = "--workers",
              .type = "N",
              .default_value = "the number of cores",
              .help = "Threads; the output does not depend on their number."},
             whole(flags->workers, 1, runtime::most_preprocess_workers));
  line.toggle(
      "--split-sentences",
      "Writes a sequence for each sentence, as BERT's data need; the sentences of a document stay "
      "together. No special tokens are put around a sentence: training adds them. A list of "
      "strings in jsonl is read as sentences even without this flag.",
      [&what] { what.split_sentences = true; });
  line.toggle("--keep-newlines",
              "With --split-sentences: keeps the white space after a sentence.",
              [&what] { what.keep_newlines = true; });
  line.value({.name = "--lang",
              .type = "LANGUAGE",
              .default_value = "english",
              .help = "Language of the sentences. English knows abbreviations, the others only "
                      "Unicode's rules."},
             text(what.language));
  line.toggle("--no-resume",
              "Starts over after a killed run. Without this flag, the same command resumes it and "
              "another command is refused.",
              [&what] { what.resume = false; });
  declare(line, flags->tokenizer);
  declare_other_names(line, other_names_of_preparing());
  line.accepted("--dataset-impl", 1, "mmap is the only format");
  line.accepted("--log-interval", 1, "a progress bar shows the progress");
  line.refused("--partitions", "--workers N distributes the work over threads; leave it out");
  line.note(
      "Example, which writes data/corpus_text_document.bin and .idx, for --data-path "
      "data/corpus_text_document:");
  line.note(
      "troupe preprocess --input corpus.txt --output-prefix data/corpus --tokenizer tok "
      "--append-eod");
  line.note(
      "Memory: 2 MB of text per worker, its tokens, and a few times the largest document, which "
      "may have 1 GB. It does not grow with the number of documents.");
  line.note(
      "If it is killed, even by SIGKILL, it leaves .partial files and PREFIX.journal, with its "
      "progress every 64 MB of text: run the same command again. Wrong input leaves no files.");
  line.runs([flags] {
    return interruptible(
        [&](const runtime::cancel_token& stop) { return preprocess_files(*flags, stop); });
  });
}

}  // namespace troupe::command
