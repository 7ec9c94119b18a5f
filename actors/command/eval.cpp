#include "actors/command/commands.hpp"
#include "actors/command/model_flags.hpp"
#include "actors/command/other_names.hpp"
#include "actors/command/print.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/text_reader.hpp"
#include "runtime/data/trigram.hpp"
#include "runtime/file/same_file.hpp"
#include "runtime/inference/score.hpp"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

struct eval_flags {
  model_flags model;
  std::filesystem::path input, trigram_from, logits, record_choices, replay_choices;
  std::string format, json_key = "text";
  std::optional<std::int64_t> stride;
  bool json = false, framed = true;
};

struct evaluation {
  std::size_t documents = 0;
  std::size_t bytes = 0;  ///< includes one byte for the end of each document
  std::size_t tokens = 0;
  std::int64_t iteration = 0;
  runtime::dtype precision = runtime::dtype::f32;
  double nats = 0;
  std::optional<double> trigram_bits;
  std::vector<double> of_texts = {};  ///< nats of each recorded text

  double loss() const { return nats / double(tokens); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / double(bytes); }
};

std::vector<std::string> documents_of(const std::filesystem::path& path, const eval_flags& flags) {
  const auto format = flags.format.empty() ? runtime::text_format_of(path)
                                           : runtime::parse_text_format(flags.format);
  std::vector<std::string> out;
  runtime::for_each_document(
      path, {format, flags.json_key}, [&](std::string_view text, auto) { out.emplace_back(text); });
  if (out.empty())
    throw runtime::input_error("'{}' has no documents: name a file with text", path.string());
  return out;
}

void write_logits(runtime::loaded_model& model,
                  std::span<const std::int32_t> tokens,
                  runtime::choice_reader* replay,
                  const std::filesystem::path& to) {
  const auto T = std::min<std::int64_t>(std::int64_t(tokens.size()), model.config().sequence());
  const auto window = tokens.first(std::size_t(T));
  const auto logits = logits_of(model.whole(), model.store(), model.stream(), window, replay);
  using runtime::stored_type, runtime::whole_tensor;
  const runtime::shard_to_write tensors[]
      = {whole_tensor("tokens", stored_type::i32, {T}, window.data()),
         whole_tensor("logits", stored_type::f32, {T, model.config().vocabulary()}, logits.data())};
  runtime::write_safetensors(to, tensors);
}

/// The folders of the flags, opened.
struct recorded_choices {
  recorded_choices(const eval_flags& flags,
                   const runtime::loaded_model& model,
                   std::int64_t positions) {
    if (!flags.replay_choices.empty()) {
      require_experts(model, "--replay-expert-choices");
      if (!runtime::choice_texts::are_in(flags.replay_choices))
        throw usage_error(
            "--replay-expert-choices '{}' has no texts, as that of a training run: name a folder "
            "of `troupe eval` or `troupe generate --record-expert-choices`",
            flags.replay_choices.string());
      use.replay = &reader.emplace(flags.replay_choices);
    }
    if (!flags.record_choices.empty()) {
      require_experts(model, "--record-expert-choices");
      use.record = &writer.emplace(flags.record_choices, positions);
    }
  }
  recorded_choices(const recorded_choices&) = delete;

  std::optional<runtime::choice_reader> reader;
  std::optional<runtime::choice_text_writer> writer;
  runtime::scored_choices use;
};

void measure(const std::vector<std::string>& documents, const eval_flags& flags, evaluation& out) {
  const auto model = load(flags.model);
  const auto longest = model->config().sequence();
  const auto stride = flags.stride.value_or(longest);
  if (stride > longest)
    throw usage_error(
        "--overlapping-eval {} is more than the model's sequence length {}: give less",
        stride,
        longest);
  const auto tokens = runtime::ids_of_documents(documents, model->text(), flags.framed);
  recorded_choices choices(flags, *model, longest + 1);
  if (!flags.logits.empty())
    write_logits(*model, tokens, choices.use.replay, flags.logits);
  runtime::progress_bar bar("evaluating", tokens.size() - 1, "tokens");
  out.iteration = model->manifest().iteration;
  out.precision = model->store().type();
  out.tokens = tokens.size() - 1;
  out.nats = runtime::surprise(
      model->whole(),
      model->store(),
      model->stream(),
      tokens,
      stride,
      [&](auto done, auto) { bar.advance_to(done); },
      &choices.use);
}

/// Measures the texts of `--replay-expert-choices`, each from its beginning.
void measure_recorded(const eval_flags& flags, evaluation& out) {
  const auto& folder = flags.replay_choices;
  if (!runtime::choice_texts::are_in(folder))
    throw usage_error(
        "--replay-expert-choices '{}' has no texts: name a folder of `troupe generate "
        "--record-expert-choices`, or give --input",
        folder.string());
  const runtime::choice_texts texts(folder);
  const auto model = load(flags.model);
  const auto longest = model->config().sequence();
  recorded_choices choices(flags, *model, longest + 1);
  out.iteration = model->manifest().iteration;
  out.precision = model->store().type();
  runtime::progress_bar bar("evaluating", texts.size(), "texts");
  for (std::uint64_t text = 0; text < texts.size(); ++text) {
    const auto tokens = texts.tokens(text);
    if (std::int64_t(tokens.size()) > longest + 1)
      throw runtime::input_error(
          "text {} of '{}' has {} tokens, and the model takes {}: generate shorter texts with "
          "--tokens",
          text + 1,
          folder.string(),
          tokens.size(),
          longest + 1);
    out.bytes += model->text().decode(tokens).size();  // refuses ids beyond the vocabulary
    if (tokens.size() < 2)
      continue;
    out.of_texts.push_back(runtime::surprise(
        model->whole(), model->store(), model->stream(), tokens, longest, {}, &choices.use));
    out.nats += out.of_texts.back();
    out.tokens += tokens.size() - 1;
    ++out.documents;
    bar.advance_to(text + 1);
  }
  if (out.documents == 0)
    throw runtime::input_error("'{}' has no text of two tokens: record texts", folder.string());
}

/// Throws usage_error if --logits would overwrite a file that has no logits, such as weights.
void require_logits(const std::filesystem::path& path) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::is_regular_file(path, failure)
      || std::filesystem::file_size(path, failure) == 0)
    return;
  const auto has_logits = [&] {
    try {
      const runtime::safetensors_file file(path);
      return file.find("tokens") != nullptr && file.find("logits") != nullptr;
    } catch (const runtime::input_error&) {
      return false;
    }
  };
  if (!has_logits())
    throw usage_error(
        "--logits '{}': this file exists and has no logits; it would be overwritten: name "
        "another one",
        path.string());
}

double trigram_bits(const std::vector<std::string>& documents, const eval_flags& flags) {
  const auto judge = std::make_unique<runtime::trigram_model>();
  for (const auto& text : documents_of(flags.trigram_from, flags))
    judge->add(text);
  double bits = 0;
  for (const auto& text : documents)
    bits += judge->bits(text);
  return bits;
}

std::string json_of(const evaluation& x, const eval_flags& flags) {
  const auto& from = flags.input.empty() ? flags.replay_choices : flags.input;
  nlohmann::ordered_json out = {{"input", from.string()},
                                {"documents", x.documents},
                                {"bytes", x.bytes},
                                {"iteration", x.iteration},
                                {"precision", to_string(x.precision)},
                                {"tokens", x.tokens},
                                {"loss", x.loss()},
                                {"perplexity", std::exp(x.loss())},
                                {"bits_per_byte", x.bits_per_byte()}};
  if (!x.of_texts.empty())
    out["text_nats"] = x.of_texts;
  if (x.trigram_bits)
    out["trigram_bits_per_byte"] = *x.trigram_bits / double(x.bytes);
  return runtime::json_text_replacing(out, 1);
}

std::string page_of(const evaluation& x, const eval_flags& flags) {
  auto out = fmt::format(
      "text        '{}': {}, {} bytes{}\n"
      "model       iteration {} in {}, {} tokens, loss {:.4f} nats per token, perplexity {:.2f}\n"
      "model       {:.4f} bits per byte\n",
      (flags.input.empty() ? flags.replay_choices : flags.input).string(),
      runtime::counted(x.documents, flags.input.empty() ? "text" : "document"),
      x.bytes,
      flags.input.empty() ? "" : " with one for each end",
      x.iteration,
      to_string(x.precision),
      x.tokens,
      x.loss(),
      std::exp(x.loss()),
      x.bits_per_byte());
  if (!x.trigram_bits)
    return out;
  const auto trigram = *x.trigram_bits / double(x.bytes);
  return out
         + fmt::format(
             "trigram     {:.4f} bits per byte (each byte from the two before, learnt from '{}')\n"
             "the model needs {:.1f} % {} bits\n",
             trigram,
             flags.trigram_from.string(),
             100 * std::abs(1 - x.bits_per_byte() / trigram),
             x.bits_per_byte() < trigram ? "fewer" : "more");
}

int print(const evaluation& found, const eval_flags& flags) {
  if (flags.json)
    print_json(json_of(found, flags));
  else
    print_page(page_of(found, flags));
  return 0;
}

int evaluate_recorded(const eval_flags& flags) {
  if (!flags.trigram_from.empty() || !flags.logits.empty() || flags.stride)
    throw usage_error(
        "--replay-expert-choices without --input evaluates its own texts, each whole: leave out "
        "--trigram-from, --logits and --overlapping-eval, or give --input");
  evaluation found;
  measure_recorded(flags, found);
  return print(found, flags);
}

int evaluate(const eval_flags& flags) {
  if (flags.input.empty() && !flags.replay_choices.empty())
    return evaluate_recorded(flags);
  if (flags.input.empty())
    throw usage_error("--input FILE is missing: the text to evaluate on");
  const std::filesystem::path read[] = {flags.input, flags.trigram_from};
  runtime::require_no_input("--logits", flags.logits, read);
  require_logits(flags.logits);
  const auto documents = documents_of(flags.input, flags);
  evaluation found{.documents = documents.size(), .bytes = documents.size()};
  for (const auto& text : documents)
    found.bytes += text.size();
  measure(documents, flags, found);
  if (!flags.trigram_from.empty())
    found.trigram_bits = trigram_bits(documents, flags);
  return print(found, flags);
}

}  // namespace

void add_eval(command_line& program) {
  auto& line = program.command(
      "eval", "measures a trained model on a text: loss, perplexity, bits per byte.");
  const auto flags = std::make_shared<eval_flags>();
  line.group("Text");
  line.value("--input", "FILE", "Text to evaluate on, held out from training.", text(flags->input));
  line.value({.name = "--input-format",
              .type = "FORMAT",
              .default_value = "by the name",
              .help = "jsonl, paragraphs, lines or whole: as in `troupe preprocess`."},
             text(flags->format));
  line.value({.name = "--json-key", .type = "KEY", .help = "For jsonl: the field with the text."},
             text(flags->json_key));
  line.toggle("--tokenizer-hf-no-include-special-tokens",
              "Omits the special tokens that the tokenizer's file puts around a text. Set it if "
              "`troupe preprocess` was called with it for the training data.",
              [flags] { flags->framed = false; });
  line.value("--trigram-from",
             "FILE",
             "Also evaluates a baseline: a model of bytes that predicts each from the two before, "
             "learnt from this text.",
             text(flags->trigram_from));
  line.value(
      {.name = "--overlapping-eval",
       .type = "N",
       .default_value = "the model's sequence length",
       .help
       = "Number of tokens predicted by each window. Fewer tokens have more context, but take "
         "longer."},
      whole(flags->stride, 1));
  line.group("Output");
  line.toggle("--json", "Prints JSON, for programs.", [flags] { flags->json = true; });
  line.value("--logits",
             "FILE",
             "Also writes the logits of the first window, for comparison with another system: a "
             "safetensors file with `tokens` (T) I32 and `logits` (T, vocabulary) F32.",
             text(flags->logits));
  line.group("Choices of experts");
  line.value("--record-expert-choices",
             "DIR",
             "Writes the tokens of each window and the experts that routers choose for them to "
             "files in a new folder DIR, for --replay-expert-choices.",
             text(flags->record_choices));
  line.value("--replay-expert-choices",
             "DIR",
             "Takes the experts of each window from files of --record-expert-choices instead of "
             "choosing them. Without --input evaluates the texts that they were recorded for, as "
             "those of `troupe generate`.",
             text(flags->replay_choices));
  declare(line, flags->model);
  declare_other_names(line, other_names_of_evaluating());
  line.note(
      "Loss and perplexity are per token: compare them only between models with the same "
      "tokenizer. "
      "Bits per byte compare all models.");
  line.note("Example: troupe eval --load runs/a/checkpoints --input held_out.txt");
  line.runs([flags] { return evaluate(*flags); });
}

}  // namespace troupe::command
