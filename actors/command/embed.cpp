#include "actors/command/commands.hpp"
#include "actors/command/model_flags.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/record_reader.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/inference/embedder.hpp"
#include "runtime/inference/vector_file.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

struct embed_flags {
  model_flags model;
  std::vector<std::string> inputs;
  fs::path output;
  std::string format, json_key = "text", pooling = "mean";
  std::int64_t batch = 32;
  std::optional<std::int64_t> longest;
  bool resume = true;
};

constexpr std::int64_t batches_of_a_piece = 16;

runtime::text_format format_of(const fs::path& path, const embed_flags& flags) {
  if (!flags.format.empty())
    return runtime::parse_text_format(flags.format);
  const auto found = runtime::text_format_of(path);
  return found == runtime::text_format::jsonl ? found : runtime::text_format::lines;
}

std::int64_t texts_of(const embed_flags& flags, const runtime::cancel_token& stop) {
  std::int64_t out = 0;
  for (const auto& path : flags.inputs) {
    runtime::record_reader reader(path, format_of(path, flags), {}, stop);
    for (runtime::text_record record; reader.next(record);)
      ++out;
  }
  if (out == 0)
    throw runtime::input_error("--input has no texts: name files with some");
  return out;
}

/// Changes when a file changes.
nlohmann::json states_of(const embed_flags& flags) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& path : flags.inputs)
    out.push_back({runtime::text_or_bytes(path),
                   fs::file_size(path),
                   fs::last_write_time(path).time_since_epoch().count()});
  return out;
}

nlohmann::json identity_of(const embed_flags& flags,
                           runtime::loaded_model& model,
                           nlohmann::json inputs,
                           std::int64_t texts,
                           std::int64_t longest) {
  return {{"parameters", model.digest()},
          {"tokenizer", runtime::to_string(model.text().fingerprint())},
          {"backend", flags.model.backend},
          {"precision", runtime::to_string(model.store().type())},
          {"inputs", std::move(inputs)},
          {"texts", texts},
          {"format", flags.format},
          {"json_key", flags.json_key},
          {"pooling", flags.pooling},
          {"batch", flags.batch},
          {"longest", longest}};
}

/// Texts of one piece of the output, until they are written.
struct piece {
  std::vector<runtime::embedded_tokens> texts;
  std::string index;
};

void write_piece(piece& from,
                 const embed_flags& flags,
                 runtime::embedder& by,
                 runtime::vector_progress progress,
                 runtime::vector_file& to,
                 const runtime::cancel_token& stop) {
  std::vector<float> vectors;
  const std::span all(from.texts);
  for (std::size_t at = 0; at < all.size(); at += std::size_t(flags.batch)) {
    stop.throw_if_cancelled();
    const auto some
        = by.vectors(all.subspan(at, std::min(std::size_t(flags.batch), all.size() - at)));
    vectors.insert(vectors.end(), some.begin(), some.end());
  }
  progress.rows += std::int64_t(from.texts.size());
  for (const auto& x : from.texts)
    progress.cut += x.cut ? 1 : 0;
  to.add(vectors, from.index, progress);
  from = {};
}

[[noreturn]] void refuse_change(const std::string& files) {
  throw runtime::input_error(
      "cannot embed {}: it changed while it was read; wait until it is complete, and run the same "
      "command with --no-resume",
      files);
}

void embed_files(const embed_flags& flags,
                 runtime::embedder& by,
                 std::int64_t texts,
                 runtime::vector_file& to,
                 const runtime::cancel_token& stop) {
  runtime::progress_bar bar(
      "embedding", std::uint64_t(texts), "texts", std::uint64_t(to.progress().rows));
  const auto begin = to.progress();
  for (auto input = begin.input; input < flags.inputs.size(); ++input) {
    const fs::path path = flags.inputs[input];
    const auto format = format_of(path, flags);
    runtime::record_reader reader(
        path, format, input == begin.input ? begin.at : runtime::record_position(), stop);
    runtime::record_parser parser(path, format, {flags.json_key});
    piece now;
    const auto write = [&] {
      if (to.progress().rows + std::int64_t(now.texts.size()) > texts)
        refuse_change("'" + path.string() + "'");
      auto progress = to.progress();
      progress.input = input;
      progress.at = reader.position();
      write_piece(now, flags, by, progress, to, stop);
      bar.advance_to(std::uint64_t(to.progress().rows));
    };
    for (runtime::text_record record; reader.next(record);) {
      const auto& x
          = now.texts.emplace_back(by.encode(parser.parse(record, false).front().front()));
      now.index += runtime::json_text_replacing(nlohmann::ordered_json{
                       {"row", to.progress().rows + std::int64_t(now.texts.size()) - 1},
                       {"file", path.string()},
                       {"line", record.line},
                       {"tokens", x.tokens},
                       {"cut", x.cut}})
                   + "\n";
      if (std::int64_t(now.texts.size()) == batches_of_a_piece * flags.batch)
        write();
    }
    if (!now.texts.empty())
      write();
  }
}

int embed(const embed_flags& flags, const runtime::cancel_token& stop) {
  if (flags.inputs.empty())
    throw usage_error("--input FILE... is missing: the texts");
  if (flags.output.extension() != ".npy")
    throw usage_error("--output '{}' must end in .npy: name the file of the vectors",
                      flags.output.string());
  const std::vector<fs::path> read(flags.inputs.begin(), flags.inputs.end());
  auto index = flags.output;
  runtime::require_no_input("--output", flags.output, read);
  runtime::require_no_input("--output", index.replace_extension(".jsonl"), read);
  const auto texts = texts_of(flags, stop);
  const auto inputs = states_of(flags);
  const auto model = load(flags.model, runtime::model_use::embeds);
  const auto longest = flags.longest.value_or(model->whole().model().sequence);
  runtime::embedder by(
      *model,
      flags.pooling == "first" ? runtime::text_vector::first : runtime::text_vector::mean,
      longest);
  runtime::vector_file to(flags.output,
                          texts,
                          by.width(),
                          identity_of(flags, *model, inputs, texts, longest),
                          flags.resume);
  const auto before = to.progress().rows;
  embed_files(flags, by, texts, to, stop);
  if (to.progress().rows != texts || states_of(flags) != inputs)
    refuse_change("--input");
  const auto cut = to.progress().cut;
  to.finish();
  print_page("wrote '{}': {} of {}, and '{}'{}{}\n",
             flags.output.string(),
             runtime::counted(texts, "vector"),
             runtime::counted(by.width(), "number"),
             index.string(),
             before > 0 ? fmt::format("; resumed after {}", runtime::counted(before, "text")) : "",
             cut > 0 ? fmt::format("; {} longer than {} and cut there",
                                   runtime::counted(cut, "text is", "texts are"),
                                   runtime::counted(longest, "token"))
                     : "");
  return 0;
}

}  // namespace

void add_embed(command_line& program) {
  auto& line = program.command("embed", "turns texts into vectors by an encoder such as a BERT.");
  const auto flags = std::make_shared<embed_flags>();
  line.group("Text");
  line.values(
      {.name = "--input",
       .field = "embed.input",
       .type = "FILE...",
       .help = "Files with texts, read in this order; also compressed. Blank lines are left out.",
       .least = 1,
       .most = 1 << 20},
      all(flags->inputs));
  line.value({.name = "--input-format",
              .type = "FORMAT",
              .default_value = "jsonl for .jsonl and .json, else lines",
              .help = "jsonl, paragraphs, lines or whole: as in `troupe preprocess`."},
             text(flags->format));
  line.value({.name = "--json-key", .type = "KEY", .help = "For jsonl: the field with the text."},
             text(flags->json_key));
  line.value({.name = "--seq-length",
              .type = "N",
              .unit = "tokens",
              .default_value = "the model's",
              .help = "Tokens of a text, with [CLS] and [SEP]; longer texts are cut."},
             whole(flags->longest, 3));
  line.group("Output");
  line.value(
      "--output",
      "FILE",
      "Vectors: a .npy file of float32 with a row for each text. The .jsonl file of the same "
      "name has the file and the line of each row.",
      text(flags->output));
  line.value({.name = "--pooling",
              .type = "KIND",
              .help = "mean over the tokens of a text, or the vector of the first token, [CLS]."},
             one_of(flags->pooling, {"mean", "first"}));
  line.value({.name = "--batch-size",
              .type = "N",
              .unit = "texts",
              .help = "Texts that are computed at once."},
             whole(flags->batch, 1, 65536));
  line.toggle("--no-resume",
              "Starts over after a killed run. Without this flag, the same command resumes it and "
              "another command is refused.",
              [flags] { flags->resume = false; });
  declare(line, flags->model);
  line.note(
      "Example: troupe embed --load google-bert/bert-base-uncased --input texts.jsonl "
      "--output vectors.npy");
  line.runs([flags] {
    return interruptible([&](const runtime::cancel_token& stop) { return embed(*flags, stop); });
  });
}

}  // namespace troupe::command
