#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "actors/command/standard_input.hpp"
#include "actors/command/tokenizer_chat.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/text_reader.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"

#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace troupe::command {
namespace {

using runtime::progress_bar;

struct training_options {
  std::vector<std::filesystem::path> inputs;
  std::string format, json_key = "text";
  std::optional<std::int64_t> vocabulary_size;
  std::filesystem::path output;
  std::int64_t minimum_count = 2;
};

void count_words(const training_options& options,
                 runtime::bpe_trainer& trainer,
                 const runtime::cancel_token& stop) {
  std::uint64_t total = 0, before = 0;
  for (const auto& path : options.inputs)
    total += runtime::mapped_file(path).bytes().size();
  progress_bar bar("reading", total, "B");
  bool blank = true;
  for (const auto& path : options.inputs) {
    const runtime::text_options format{options.format.empty()
                                           ? runtime::text_format_of(path)
                                           : runtime::parse_text_format(options.format),
                                       options.json_key};
    runtime::for_each_document(path, format, [&](std::string_view text, std::uint64_t done) {
      stop.throw_if_cancelled();
      trainer.add(text);
      blank = blank && text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
      bar.advance_to(before + done);
    });
    before += runtime::mapped_file(path).bytes().size();
    bar.advance_to(before);
  }
  if (blank)
    throw runtime::input_error(
        "nothing to learn from in '{}'{}: it is empty or blank; give --input a text",
        options.inputs.front().string(),
        options.inputs.size() > 1 ? fmt::format(" and {} others", options.inputs.size() - 1) : "");
}

int train_tokenizer(const training_options& options, const runtime::cancel_token& stop) {
  if (options.inputs.empty())
    throw usage_error("--input FILE... is missing: the text to learn from");
  if (!options.vocabulary_size)
    throw usage_error("--vocab-size N is missing: the number of tokens to learn, at least 257");
  if (options.output.empty())
    throw usage_error("--output DIR is missing: the folder for vocab.json and merges.txt");
  if (const auto obstacle = runtime::write_obstacle(options.output / "vocab.json"))
    throw runtime::io_error("cannot write into --output '{}': {}; choose another folder",
                            options.output.string(),
                            *obstacle);
  for (const auto* name : {"vocab.json", "merges.txt"})
    runtime::require_no_input("--output", options.output / name, options.inputs);
  // The lock file is beside the folder.
  runtime::make_folder(std::filesystem::absolute(options.output).parent_path());
  const runtime::file_lock lock(options.output, "write the tokenizer");
  for (const auto* name : {"vocab.json", "merges.txt"})
    lock.remove_parts(options.output / name);
  runtime::bpe_trainer trainer;
  count_words(options, trainer, stop);
  const auto wanted = std::uint64_t(*options.vocabulary_size);
  runtime::bpe_vocabulary learnt;
  {
    progress_bar bar("merging", wanted, "tokens");
    learnt = trainer.train({.vocabulary_size = std::int32_t(*options.vocabulary_size),
                            .minimum_count = std::uint64_t(options.minimum_count),
                            .progress = [&](std::uint64_t done, std::uint64_t) {
                              stop.throw_if_cancelled();
                              bar.advance_to(done);
                            }});
  }
  runtime::make_folder(options.output);
  runtime::save_bpe_vocabulary(learnt, options.output);
  print_page("learnt {} tokens from {} distinct words; wrote '{}' and '{}'\n",
             learnt.tokens.size(),
             trainer.distinct_words(),
             (options.output / "vocab.json").string(),
             (options.output / "merges.txt").string());
  if (learnt.tokens.size() < wanted)
    print_page(
        "{} were requested, but no other pair occurs {} times\n", wanted, options.minimum_count);
  return 0;
}

void add_training(command_line& tokenizer) {
  auto& train = tokenizer.command("train", "learns a byte-level BPE from text.");
  const auto options = std::make_shared<training_options>();
  train.values("--input", "FILE...", 1, 1 << 20, "Text files to learn from.", all(options->inputs));
  train.value("--vocab-size",
              "N",
              "Tokens to learn: 256 bytes, N - 257 merges and <|endoftext|>.",
              whole(options->vocabulary_size, 257));
  train.value("--output", "DIR", "Folder for vocab.json and merges.txt.", text(options->output));
  train.value(
      {.name = "--input-format",
       .type = "FORMAT",
       .default_value = "jsonl for .jsonl and .json, else paragraphs",
       .help
       = "Documents of the input: jsonl, paragraphs, lines or whole, as in `troupe preprocess`."},
      text(options->format));
  train.value({.name = "--json-key", .type = "KEY", .help = "With jsonl: the field with the text."},
              text(options->json_key));
  train.value({.name = "--min-count", .type = "N", .help = "Minimum count of a pair to be merged."},
              whole(options->minimum_count, 1));
  train.note("Example: troupe tokenizer train --input corpus.txt --vocab-size 8192 --output tok");
  train.runs([options] {
    return interruptible(
        [&](const runtime::cancel_token& stop) { return train_tokenizer(*options, stop); });
  });
}

struct encoding_options {
  tokenizer_flags tokenizer;
  std::optional<std::string> text;
  bool specials = false;
};

void add_encoding(command_line& tokenizer) {
  auto& encode = tokenizer.command("encode", "converts a text to token ids, on one line.");
  const auto options = std::make_shared<encoding_options>();
  encode.value({.name = "--text",
                .type = "TEXT",
                .default_value = "standard input, to its last byte, line end included",
                .help = "Text to encode."},
               text(options->text));
  encode.toggle("--special-tokens",
                "Reads <|endoftext|> and other special tokens in the text as tokens instead of "
                "characters, and adds those that the tokenizer puts around a text.",
                [options] { options->specials = true; });
  declare(encode, options->tokenizer);
  encode.note("Example: troupe tokenizer encode --tokenizer tok --text \"In the beginning\"");
  encode.runs([options] {
    const auto with = make(options->tokenizer);
    const auto frame = options->specials ? with->frame() : runtime::text_frame();
    auto ids = frame.before;
    with->append(
        options->text ? *options->text : read_standard_input(),
        ids,
        options->specials ? runtime::special_tokens::recognised : runtime::special_tokens::as_text);
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
    print_page("{}\n", fmt::join(ids, " "));
    return 0;
  });
}

struct decoding_options {
  tokenizer_flags tokenizer;
  bool specials = false;
  std::vector<std::string> ids;
};

void add_decoding(command_line& tokenizer) {
  auto& decode = tokenizer.command("decode", "converts token ids to text.");
  const auto options = std::make_shared<decoding_options>();
  decode.words("ID...", "Token ids. Default: standard input.", options->ids);
  decode.toggle("--special-tokens",
                "Writes special tokens, too (SentencePiece never writes its control symbols).",
                [options] { options->specials = true; });
  declare(decode, options->tokenizer);
  decode.note("Example: troupe tokenizer decode --tokenizer tok 1142 258 1795");
  decode.runs([options] {
    const auto with = make(options->tokenizer);
    if (options->ids.empty()) {
      std::istringstream in(read_standard_input());
      for (std::string word; in >> word;)
        options->ids.push_back(word);
    }
    std::vector<std::int32_t> ids;
    for (const auto& word : options->ids)
      ids.push_back(std::int32_t(parse_whole("token id", word, {0, with->vocabulary_size() - 1})));
    if (!options->specials)
      std::erase_if(ids, [&](auto id) { return with->is_special(id); });
    print_data(with->decode(ids));
    return 0;
  });
}

}  // namespace

void add_tokenizer(command_line& program) {
  auto& tokenizer = program.command("tokenizer", "trains a tokenizer, or applies one.");
  add_training(tokenizer);
  add_encoding(tokenizer);
  add_decoding(tokenizer);
  add_chat(tokenizer);
}

}  // namespace troupe::command
