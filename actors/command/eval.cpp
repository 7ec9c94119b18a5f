#include "actors/command/commands.hpp"
#include "actors/command/model_flags.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/text_reader.hpp"
#include "runtime/data/trigram.hpp"
#include "runtime/inference/score.hpp"

#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

struct eval_flags {
  model_flags model;
  std::filesystem::path input, trigram_from;
  std::string format, json_key = "text";
  std::optional<std::int64_t> stride;
};

std::vector<std::string> documents_of(const std::filesystem::path& path, const eval_flags& flags) {
  const auto format = flags.format.empty() ? runtime::text_format_of(path)
                                           : runtime::parse_text_format(flags.format);
  std::vector<std::string> out;
  runtime::for_each_document(
      path, {format, flags.json_key}, [&](std::string_view text, auto) { out.emplace_back(text); });
  if (out.empty())
    throw runtime::input_error("'{}' has no documents: there is nothing to evaluate on",
                               path.string());
  return out;
}

/// As in training: documents one after the other, each followed by its end.
double model_bits(const std::vector<std::string>& documents, const eval_flags& flags) {
  const auto model = load(flags.model);
  const auto longest = model->config().sequence;
  const auto stride = flags.stride.value_or(longest);
  if (stride > longest)
    throw usage_error(
        "--overlapping-eval {} is more than the model's sequence length {}: give less",
        stride,
        longest);
  std::vector<std::int32_t> tokens = {model->text().end_of_document()};
  for (const auto& text : documents) {
    model->text().append(text, tokens);
    tokens.push_back(model->text().end_of_document());
  }
  runtime::progress_bar bar("evaluating", tokens.size() - 1, "tokens");
  const auto nats = runtime::surprise(
      model->whole(), model->store(), model->on(), tokens, stride, [&](auto done, auto) {
        bar.advance_to(done);
      });
  fmt::print("model       iteration {}, {} tokens, loss {:.4f} nats a token\n",
             model->manifest().iteration,
             tokens.size() - 1,
             nats / double(tokens.size() - 1));
  return nats / std::numbers::ln2;
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

int evaluate(const eval_flags& flags) {
  if (flags.input.empty())
    throw usage_error("--input FILE is missing: the text to evaluate on");
  const auto documents = documents_of(flags.input, flags);
  std::size_t bytes = documents.size();  // an end is what one byte, a line end, was in the text
  for (const auto& text : documents)
    bytes += text.size();
  fmt::print("text        '{}': {} documents, {} bytes with an end for each\n",
             flags.input.string(),
             documents.size(),
             bytes);
  const auto model = model_bits(documents, flags) / double(bytes);
  fmt::print("model       {:.4f} bits per byte\n", model);
  if (flags.trigram_from.empty())
    return 0;
  const auto trigram = trigram_bits(documents, flags) / double(bytes);
  fmt::print("trigram     {:.4f} bits per byte (bytes by the two before, learnt from '{}')\n",
             trigram,
             flags.trigram_from.string());
  fmt::print("the model needs {:.1f} % {} bits\n",
             100 * std::abs(1 - model / trigram),
             model < trigram ? "fewer" : "more");
  return 0;
}

}  // namespace

void add_eval(command_line& program) {
  auto& line = program.command("eval", "measures a trained model on a text: bits per byte.");
  const auto flags = std::make_shared<eval_flags>();
  line.group("Text");
  line.value("--input", "FILE", "A text that the model was not trained on.", text(flags->input));
  line.value("--input-format",
             "FORMAT",
             "jsonl, paragraphs, lines or whole: as in `troupe preprocess`. Default: by the name.",
             text(flags->format));
  line.value("--json-key",
             "KEY",
             "Of jsonl: the field with the text. Default text.",
             text(flags->json_key));
  line.value("--trigram-from",
             "FILE",
             "Shows beside it a model that knows only how often each byte follows two others in "
             "this text: what must be beaten.",
             text(flags->trigram_from));
  line.value("--overlapping-eval",
             "N",
             "Predicts N tokens with each window, so that they have more context; slower. Default: "
             "the model's sequence length.",
             whole(flags->stride, 1));
  declare(line, flags->model);
  line.runs([flags] { return evaluate(*flags); });
}

}  // namespace troupe::command
