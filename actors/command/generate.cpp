#include "actors/command/commands.hpp"
#include "actors/command/model_flags.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/inference/text_stream.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <cctype>
#include <cstdio>
#include <memory>

namespace troupe::command {
namespace {

struct generate_flags {
  model_flags model;
  std::string prompt;
  std::int64_t tokens = 100;
  double temperature = 1, top_p = 0;
  std::int64_t top_k = 0, seed = 1234;
  bool greedy = false, cached = true;
};

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

runtime::sampling sampling_of(const generate_flags& flags) {
  if (flags.greedy && (flags.top_k > 1 || flags.top_p > 0))
    throw usage_error(
        "--greedy always takes the most probable token: leave out --top-k and --top-p");
  if (flags.top_k > 0 && flags.top_p > 0)
    throw usage_error("--top-k and --top-p exclude each other: give one");
  if (!(flags.temperature > 0))
    throw usage_error(
        "--temperature {}: give a positive number; for the most probable token use --greedy",
        flags.temperature);
  if (flags.greedy)
    return runtime::greedy();
  return {.temperature = float(flags.temperature),
          .top_k = flags.top_k,
          .top_p = float(flags.top_p),
          .seed = std::uint64_t(flags.seed)};
}

int generate_text(const generate_flags& flags) {
  runtime::generation_request what;
  what.tokens = flags.tokens;
  what.how = sampling_of(flags);
  what.cached = flags.cached;
  const auto model = load(flags.model);
  const auto& text = model->text();
  what.prompt = text.encode(flags.prompt, runtime::special_tokens::recognised);
  what.end_of_document = text.end_of_document();
  if (what.prompt.empty())
    what.prompt.push_back(what.end_of_document);
  show(flags.prompt);
  if (text.kind() == runtime::null_tokenizer::type_name && !flags.prompt.empty()
      && !std::isspace(static_cast<unsigned char>(flags.prompt.back())))
    show(" ");  // ids are words
  runtime::text_stream out(text);
  const auto end = runtime::generate(
      model->whole(), model->store(), model->on(), what, [&](std::int32_t token) {
        show(out.push(token));
      });
  show(out.finish() + "\n");
  if (end == runtime::generation_end::end_of_document)
    std::fputs("[the model ended the document]\n", stderr);
  else if (end == runtime::generation_end::end_of_positions)
    std::fputs(fmt::format("[stopped after {} tokens, prompt included: the model has learned "
                           "positions for no more]\n",
                           model->config().sequence)
                   .c_str(),
               stderr);
  return 0;
}

}  // namespace

void add_generate(command_line& program) {
  auto& line = program.command("generate", "continues a text with a trained model.");
  const auto flags = std::make_shared<generate_flags>();
  auto& f = *flags;
  line.group("Text");
  line.value("--prompt",
             "TEXT",
             "What to continue; <|endoftext|> in it ends a document. Default: a new document.",
             text(f.prompt));
  line.value("--tokens", "N", "How many to add, at most. Default 100.", whole(f.tokens, 1));
  line.group("Sampling");
  line.value("--temperature",
             "X",
             "Divides the logits: below 1 bolder, above 1 more varied. Default 1.",
             real(f.temperature, 0, 1e6));
  line.value("--top-k", "N", "Only among the N most probable tokens; 0: all.", whole(f.top_k));
  line.value("--top-p",
             "P",
             "Only among the most probable tokens that together reach P; 0: all.",
             real(f.top_p, 0, 1));
  line.toggle("--greedy", "Always the most probable token.", [&f] { f.greedy = true; });
  line.value("--seed",
             "N",
             "The same seed, the same text. Default 1234.",
             whole(f.seed, 0, std::numeric_limits<std::int64_t>::max()));
  line.toggle(
      "--no-cache",
      "Computes every token from the beginning, instead of keeping keys and values: slower, "
      "the same text.",
      [&f] { f.cached = false; });
  declare(line, f.model);
  line.runs([flags] { return generate_text(*flags); });
}

}  // namespace troupe::command
