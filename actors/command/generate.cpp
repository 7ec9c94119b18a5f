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
#include <utility>

namespace troupe::command {

namespace {

/// Reads "ID=X".
std::pair<std::int32_t, float> parse_bias(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == word.npos)
    throw usage_error("--logit-bias {} has no =: write ID=X, such as 50256=-100", shown(word));
  return {std::int32_t(parse_whole(
              "--logit-bias", word.substr(0, equals), {.most = std::numeric_limits<int>::max()})),
          float(parse_real("--logit-bias", word.substr(equals + 1), {.least = -100, .most = 100}))};
}

}  // namespace

void show(const std::string& text) {
  print_data(text);
  std::fflush(stdout);
}

runtime::sampling_settings sampling_of(const generate_flags& flags) {
  const double top_p = flags.top_p > 0 ? flags.top_p : 1;  // 0, as in Megatron-LM: all
  if (flags.greedy && (flags.top_k > 1 || top_p < 1 || flags.min_p > 0))
    throw usage_error(
        "--greedy always chooses the most probable token: leave out --top-k, --top-p and --min-p");
  runtime::sampling_settings out{.temperature = flags.greedy ? 0 : float(flags.temperature),
                                 .top_k = flags.greedy ? 0 : flags.top_k,
                                 .top_p = float(top_p),
                                 .min_p = float(flags.min_p),
                                 .repetition_penalty = float(flags.repetition_penalty),
                                 .presence_penalty = float(flags.presence_penalty),
                                 .frequency_penalty = float(flags.frequency_penalty),
                                 .seed = std::uint64_t(flags.seed)};
  for (const auto& word : flags.bias)
    out.bias.push_back(parse_bias(word));
  return out;
}

runtime::generation_request request_for(const std::string& prompt,
                                        std::uint64_t number,
                                        const generate_flags& flags,
                                        const runtime::loaded_model& model) {
  const auto& text = model.text();
  runtime::generation_request out;
  out.prompt = text.encode(prompt, runtime::special_tokens::recognised);
  const auto before = text.frame().before;
  const bool there = out.prompt.size() >= before.size()
                     && std::equal(before.begin(), before.end(), out.prompt.begin());
  if (flags.framed && !there)
    out.prompt.insert(out.prompt.begin(), before.begin(), before.end());
  out.end_of_document = text.names_end_of_document() ? text.end_of_document() : -1;
  out.ids = text.vocabulary_size();
  out.other_ends = flags.end_tokens;
  out.other_ends.insert(out.other_ends.end(), model.ends().begin(), model.ends().end());
  if (const auto& roles = model.before()) {
    out.given = std::exchange(out.prompt, roles->first);
    out.given.insert(out.given.end(), roles->after.begin(), roles->after.end());
    out.end_of_document = roles->end;
  } else if (out.prompt.empty()) {
    out.prompt.push_back(text.end_of_document());
  }
  out.tokens = flags.tokens;
  out.sampling = sampling_of(flags);
  require_sampling(out.sampling, out.ids);
  out.number = number;
  return out;
}

std::unique_ptr<runtime::choice_text_writer> recorder_of(
    const generate_flags& flags,
    const runtime::loaded_model& model,
    std::span<const runtime::generation_request> requests) {
  if (flags.record_choices.empty())
    return nullptr;
  require_experts(model, "--record-expert-choices");
  std::int64_t longest = 0;
  for (const auto& x : requests)
    longest = std::max(longest, std::int64_t(x.prompt.size()) + x.tokens);
  return std::make_unique<runtime::choice_text_writer>(flags.record_choices, longest);
}

shown_text stream_text(runtime::loaded_model& model,
                       const generate_flags& flags,
                       const std::string& prompt,
                       const std::function<bool()>& wanted) {
  const auto& text = model.text();
  const auto what = request_for(prompt, 0, flags, model);
  runtime::text_stream characters(text);
  runtime::stop_words stop(flags.stop);
  shown_text out;
  const auto give = [&](const std::string& piece) {
    show(piece);
    out.text += piece;
  };
  if (text.kind() == runtime::null_tokenizer::type_name && !model.before() && !prompt.empty()
      && !std::isspace(static_cast<unsigned char>(prompt.back())))
    give(" ");  // ids are words, separated by spaces
  const auto visit = [&](std::size_t, std::int32_t token) {
    give(stop.push(characters.push(token)));
    return !stop.found() && wanted();
  };
  if (const auto beams = beams_of(flags)) {
    out.end = runtime::generation_end::stopped;
    for (const auto& found : search_texts(model, flags, *beams, {&what, 1}, wanted)) {
      out.end = runtime::end_of(found.front(), what, model.whole().model());
      for (const auto token : found.front().tokens)
        if (!visit(0, token))
          break;
    }
  } else {
    const auto recorder = recorder_of(flags, model, {&what, 1});
    out.end = continue_texts(model, flags, {&what, 1}, visit, recorder.get()).front();
  }
  give(stop.push(characters.finish()));
  give(stop.finish());
  return out;
}

std::string end_note(runtime::generation_end end, const runtime::model_spec& model) {
  if (end == runtime::generation_end::end_of_document)
    return "[the model ended the document]\n";
  if (end == runtime::generation_end::end_of_positions)
    return fmt::format(
        "[stopped after {} tokens, prompt included: the model has no more learned positions{}]\n",
        model.positions(),
        model.positions() > model.sequence
            ? fmt::format("; its training samples had {} tokens", model.sequence)
            : "");
  return "";
}

namespace {

constexpr double lowest_temperature = 1e-6, highest_temperature = 1e6;

}  // namespace

double parse_temperature(const std::string& flag, const std::string& word) {
  if (number_in(real_range{.least = 0, .most = lowest_temperature, .below = true}, word))
    throw usage_error("{} {}: give {} or more, or --greedy for the most probable token",
                      flag,
                      word,
                      lowest_temperature);
  return parse_real(flag, word, {.least = lowest_temperature, .most = highest_temperature});
}

namespace {

int generate_text(generate_flags& flags) {
  if (int(flags.interactive) + int(!flags.prompts.empty()) + int(flags.prompt.has_value())
          + int(flags.chat)
      > 1)
    throw usage_error("--prompt, --prompts, --interactive and --chat exclude each other: give one");
  if (!flags.chat && !(flags.messages.empty() && flags.chat_template.empty() && flags.set.empty()))
    throw usage_error("--messages, --template and --set need --chat: add it");
  if (!flags.record_choices.empty() && (flags.interactive || flags.chat))
    throw usage_error("--record-expert-choices needs --prompt or --prompts: give one");
  sampling_of(flags);  // reports errors before the model is read
  beams_of(flags);
  find_hub_models(flags.model);
  if (flags.interactive)
    return generate_interactively(flags);
  if (flags.chat)
    return generate_chat(flags);
  if (!flags.prompts.empty())
    return generate_batch(flags);
  const auto model = load(flags.model, runtime::model_use::generates);
  const auto prompt = flags.prompt.value_or("");
  require_fitting(request_for(prompt, 0, flags, *model), model->whole().model());
  if (!model->before())
    show(prompt);
  const auto end = stream_text(*model, flags, prompt).end;
  show("\n");
  std::fputs(end_note(end, model->whole().model()).c_str(), stderr);
  return 0;
}

void declare_chat(command_line& line, generate_flags& f) {
  line.toggle(
      "--chat",
      "Holds a conversation: each line of input is a turn, which the model answers; earlier turns "
      "are kept. Uses the chat template of --tokenizer, or else of the run's tokenizer.",
      [&f] { f.chat = true; });
  line.value("--messages",
             "FILE",
             "With --chat: answers this JSON list of messages, [{\"role\": \"user\", \"content\": "
             "\"Hello\"}]; - is standard input.",
             text(f.messages));
  line.value({.name = "--template",
              .type = "NAME",
              .default_value = "default",
              .help = "With --chat: the template to use if the folder has several; or a file: its "
                      "name has a / or ends in .jinja."},
             text(f.chat_template));
  line.values("--set",
              "NAME=VALUE",
              1,
              64,
              "With --chat: a variable for the template, as JSON or else as text: "
              "enable_thinking=false. Several: NAME=VALUE NAME=VALUE, or repeat the flag.",
              all(f.set));
}

void declare_sampling(command_line& line, generate_flags& f) {
  line.group("Sampling");
  auto temperature = real(f.temperature, lowest_temperature, highest_temperature);
  temperature.range = {};  // parse_temperature has a better message than the range
  temperature.take = [&f](const std::string& flag, const std::string& word) {
    f.temperature = parse_temperature(flag, word);
  };
  line.value(
      {.name = "--temperature",
       .type = "X",
       .help = "Divides the logits: below 1 more predictable, above 1 more varied. Range: 1e-06 to "
               "1000000. For 0 use --greedy."},
      temperature);
  line.value(
      "--top-k", "N", "Samples from the N most probable tokens; 0: from all.", whole(f.top_k));
  line.value("--top-p",
             "P",
             "Samples from the most probable tokens with a total probability of P, of those that "
             "--top-k keeps; 1 or 0: from all.",
             real(f.top_p, 0, 1));
  line.value("--min-p",
             "P",
             "Samples from the tokens with at least P times the probability of the most probable "
             "one; 0: from all.",
             real(f.min_p, 0, 1));
  line.value("--repetition-penalty",
             "X",
             "Divides the positive logits, and multiplies the negative ones, of the tokens of "
             "prompt and text; 1: no penalty.",
             real(f.repetition_penalty, 1e-3, 1e3));
  line.value("--presence-penalty",
             "X",
             "Lowers the logits of the tokens that the text already has, without its prompt.",
             real(f.presence_penalty, -2, 2));
  line.value("--frequency-penalty",
             "X",
             "Lowers the logit of a token by X for each time that the text already has it.",
             real(f.frequency_penalty, -2, 2));
  line.values(
      "--logit-bias",
      "ID=X",
      1,
      1024,
      "Adds X, from -100 to 100, to the logit of token ID. Several: ID=X ID=X, or repeat the "
      "flag.",
      all(f.bias));
  line.toggle("--tokenizer-hf-no-include-special-tokens",
              "Omits the special tokens that the tokenizer's file puts before a text, such as "
              "<|begin_of_text|> of Llama 3.",
              [&f] { f.framed = false; });
  line.toggle("--greedy", "Always chooses the most probable token.", [&f] { f.greedy = true; });
  line.value({.name = "--seed", .type = "N", .help = "Seed: equal seeds give equal texts."},
             whole(f.seed, 0, std::numeric_limits<std::int64_t>::max()));
  line.toggle(
      "--no-cache",
      "Computes every token from the beginning, without a cache of keys and values: slower, with "
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
       .help = "Text to continue, or that an encoder reads; <|endoftext|> in it ends a document. "
               "Prints each token as it is generated."},
      [&f](const std::string&, const std::string& word) { f.prompt = word; });
  line.value(
      "--prompts",
      "FILE",
      "File of prompts, one per line; in a .jsonl file the field `prompt` of each object; - is "
      "standard input. Prints one JSON object per prompt, in the same order, with the other fields "
      "of the prompt's object.",
      text(f.prompts));
  line.toggle("--interactive", "Reads prompts from the terminal and answers each.", [&f] {
    f.interactive = true;
  });
  declare_chat(line, f);
  line.value({.name = "--tokens", .type = "N", .unit = "tokens", .help = "Largest number to add."},
             whole(f.tokens, 1));
  line.values(
      "--stop",
      "TEXT",
      1,
      16,
      "Ends a text at this stop word, which is not printed. Several: TEXT TEXT, or repeat the "
      "flag.",
      all(f.stop));
  line.value({.name = "--batch-size",
              .type = "N",
              .unit = "prompts",
              .help = "With --prompts: number of prompts per batch. It can change the last bits of "
                      "logits."},
             whole(f.batch, 1, 4096));
  line.value(
      "--record-expert-choices",
      "DIR",
      "Writes the tokens of each text and the experts that routers choose for them to files "
      "in a new folder DIR, for --replay-expert-choices of `troupe train` and `troupe eval`. "
      "Needs --prompt or --prompts.",
      text(f.record_choices));
  declare_sampling(line, f);
  declare_beams(line, f);
  declare(line, f.model);
  declare_other_names(line, other_names_of_generating());
  line.note(
      "Example: troupe generate --load runs/a/checkpoints --prompt \"Once\" --temperature 0.8");
  line.runs([flags] { return generate_text(*flags); });
}

}  // namespace troupe::command
