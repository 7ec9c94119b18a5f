#include "actors/command/generate.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/other_names.hpp"
#include "actors/command/print.hpp"
#include "runtime/inference/text_stream.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

namespace troupe::command {

void show(const std::string& text) {
  print_data(text);
  std::fflush(stdout);
}

runtime::sampling_settings sampling_of(const generate_flags& flags) {
  if (flags.greedy && (flags.top_k > 1 || flags.top_p > 0))
    throw usage_error(
        "--greedy always takes the most probable token: leave out --top-k and --top-p");
  if (flags.top_k > 0 && flags.top_p > 0)
    throw usage_error("--top-k and --top-p exclude each other: give one");
  if (flags.greedy)
    return runtime::greedy();
  return {.temperature = float(flags.temperature),
          .top_k = flags.top_k,
          .top_p = float(flags.top_p),
          .seed = std::uint64_t(flags.seed)};
}

runtime::generation_request request_for(const std::string& prompt,
                                        std::uint64_t number,
                                        const generate_flags& flags,
                                        const runtime::tokenizer& text) {
  runtime::generation_request out;
  out.prompt = text.encode(prompt, runtime::special_tokens::recognised);
  const auto before = text.frame().before;
  const bool there = out.prompt.size() >= before.size()
                     && std::equal(before.begin(), before.end(), out.prompt.begin());
  if (flags.framed && !there)
    out.prompt.insert(out.prompt.begin(), before.begin(), before.end());
  out.end_of_document = text.names_end_of_document() ? text.end_of_document() : -1;
  out.ids = text.vocabulary_size();
  if (out.prompt.empty())
    out.prompt.push_back(text.end_of_document());
  out.tokens = flags.tokens;
  out.sampling = sampling_of(flags);
  out.number = number;
  return out;
}

shown_text stream_text(runtime::loaded_model& model,
                       const generate_flags& flags,
                       const std::string& prompt,
                       const std::function<bool()>& wanted) {
  const auto& text = model.text();
  const auto what = request_for(prompt, 0, flags, text);
  runtime::text_stream characters(text);
  runtime::stop_words stop(flags.stop);
  shown_text out;
  const auto give = [&](const std::string& piece) {
    show(piece);
    out.text += piece;
  };
  if (text.kind() == runtime::null_tokenizer::type_name && !prompt.empty()
      && !std::isspace(static_cast<unsigned char>(prompt.back())))
    give(" ");  // ids are words
  const auto visit = [&](std::size_t, std::int32_t token) {
    if (std::find(flags.end_tokens.begin(), flags.end_tokens.end(), token)
        != flags.end_tokens.end())
      return false;
    give(stop.push(characters.push(token)));
    return !stop.found() && wanted();
  };
  out.end = runtime::generate(
                model.whole(), model.store(), model.stream(), {&what, 1}, visit, flags.cached)
                .front();
  give(stop.push(characters.finish()));
  give(stop.finish());
  return out;
}

std::string end_note(runtime::generation_end end, const runtime::gpt_config& config) {
  if (end == runtime::generation_end::end_of_document)
    return "[the model ended the document]\n";
  if (end == runtime::generation_end::end_of_positions)
    return fmt::format(
        "[stopped after {} tokens, prompt included: the model has no more learned positions{}]\n",
        config.positions,
        config.positions > config.sequence
            ? fmt::format("; samples of its training had {}", config.sequence)
            : "");
  return "";
}

namespace {

constexpr double lowest_temperature = 1e-6, highest_temperature = 1e6;

}  // namespace

double parse_temperature(const std::string& flag, const std::string& word) {
  if (number_in(real_range{.least = 0, .most = lowest_temperature, .below = true}, word))
    throw usage_error("{} {}: give {} or more; --greedy always takes the most probable token",
                      flag,
                      word,
                      lowest_temperature);
  return parse_real(flag, word, {.least = lowest_temperature, .most = highest_temperature});
}

namespace {

int generate_text(const generate_flags& flags) {
  if (int(flags.interactive) + int(!flags.prompts.empty()) + int(flags.prompt.has_value())
          + int(flags.chat)
      > 1)
    throw usage_error("--prompt, --prompts, --interactive and --chat exclude each other: give one");
  if (!flags.chat && !(flags.messages.empty() && flags.chat_template.empty() && flags.set.empty()))
    throw usage_error("--messages, --template and --set belong to a conversation: add --chat");
  sampling_of(flags);  // before the model is read
  if (flags.interactive)
    return generate_interactively(flags);
  if (flags.chat)
    return generate_chat(flags);
  if (!flags.prompts.empty())
    return generate_batch(flags);
  const auto model = load(flags.model);
  const auto prompt = flags.prompt.value_or("");
  require_fitting(request_for(prompt, 0, flags, model->text()), model->whole().model());
  show(prompt);
  const auto end = stream_text(*model, flags, prompt).end;
  show("\n");
  std::fputs(end_note(end, model->config()).c_str(), stderr);
  return 0;
}

void declare_chat(command_line& line, generate_flags& f) {
  line.toggle(
      "--chat",
      "A conversation by the chat template of --tokenizer, or that which the run kept with its "
      "tokenizer: each line is a turn that the "
      "model answers, up to the end of its turn; earlier turns are kept.",
      [&f] { f.chat = true; });
  line.value("--messages",
             "FILE",
             "With --chat: a JSON list of messages, [{\"role\": \"user\", \"content\": "
             "\"Hello\"}], to which the answer is printed; - is standard input.",
             text(f.messages));
  line.value({.name = "--template",
              .type = "NAME",
              .default_value = "default",
              .help = "With --chat: which template of a folder with several; or a file, by a name "
                      "with / or .jinja."},
             text(f.chat_template));
  line.values("--set",
              "NAME=VALUE",
              1,
              64,
              "With --chat: a variable that the template reads, as JSON or else as text: "
              "enable_thinking=false. Several: NAME=VALUE NAME=VALUE, or the flag again.",
              all(f.set));
}

void declare_sampling(command_line& line, generate_flags& f) {
  line.group("Sampling");
  auto temperature = real(f.temperature, lowest_temperature, highest_temperature);
  temperature.range = {};  // what is wrong is told with more than the range
  temperature.take = [&f](const std::string& flag, const std::string& word) {
    f.temperature = parse_temperature(flag, word);
  };
  line.value(
      {.name = "--temperature",
       .type = "X",
       .help = "Divides the logits: below 1 more predictable, above 1 more varied. From 1e-06 to "
               "1000000; for 0 there is --greedy."},
      temperature);
  line.value("--top-k", "N", "Only among the N most probable tokens; 0: all.", whole(f.top_k));
  line.value("--top-p",
             "P",
             "Only among the most probable tokens that together reach P; 0: all.",
             real(f.top_p, 0, 1));
  line.toggle("--tokenizer-hf-no-include-special-tokens",
              "Without what the tokenizer's file puts before a text: <|begin_of_text|> of Llama 3, "
              "say.",
              [&f] { f.framed = false; });
  line.toggle("--greedy", "Always the most probable token.", [&f] { f.greedy = true; });
  line.value({.name = "--seed", .type = "N", .help = "The same seed, the same text."},
             whole(f.seed, 0, std::numeric_limits<std::int64_t>::max()));
  line.toggle(
      "--no-cache",
      "Computes every token from the beginning, instead of keeping keys and values: slower, "
      "the same text.",
      [&f] { f.cached = false; });
}

}  // namespace

void add_generate(command_line& program) {
  auto& line = program.command("generate", "continues texts with a trained model.");
  const auto flags = std::make_shared<generate_flags>();
  auto& f = *flags;
  line.group("Text");
  line.value(
      {.name = "--prompt",
       .type = "TEXT",
       .default_value = "a new document",
       .help
       = "What to continue; <|endoftext|> in it ends a document. The text is shown as it comes."},
      [&f](const std::string&, const std::string& word) { f.prompt = word; });
  line.value(
      "--prompts",
      "FILE",
      "Many prompts: a line each, or of a .jsonl file the field `prompt` of each object; - "
      "is standard input, a line each. Prints a JSON object a line, in their order, with the "
      "other fields of its prompt.",
      text(f.prompts));
  line.toggle("--interactive", "Asks for prompts, one after another, and answers each.", [&f] {
    f.interactive = true;
  });
  declare_chat(line, f);
  line.value(
      {.name = "--tokens", .type = "N", .unit = "tokens", .help = "How many to add, at most."},
      whole(f.tokens, 1));
  line.values(
      "--stop",
      "TEXT",
      1,
      16,
      "Ends a text before this one, which is not shown. Several: TEXT TEXT, or the flag again.",
      all(f.stop));
  line.value({.name = "--batch-size",
              .type = "N",
              .unit = "prompts",
              .help = "With --prompts: how many are continued together. What runs beside a prompt "
                      "can change the last bits of its logits."},
             whole(f.batch, 1, 4096));
  declare_sampling(line, f);
  declare(line, f.model);
  declare_other_names(line, other_names_of_generating());
  line.note(
      "Example: troupe generate --load runs/a/checkpoints --prompt \"Once\" --temperature 0.8");
  line.runs([flags] { return generate_text(*flags); });
}

}  // namespace troupe::command
