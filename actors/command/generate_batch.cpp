#include "actors/command/generate.hpp"
#include "actors/command/standard_input.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/inflating_file.hpp"
#include "runtime/data/record_reader.hpp"
#include "runtime/file/file.hpp"
#include "runtime/inference/text_stream.hpp"

#include <nlohmann/json.hpp>

namespace troupe::command {
namespace {

using runtime::generation_end;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    out.emplace_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  }
  return out;
}

/// A prompt, and the fields of its object, which the answer repeats.
struct asked_text {
  std::string prompt;
  nlohmann::ordered_json fields;
};

std::vector<asked_text> objects_of(const std::filesystem::path& from) {
  constexpr auto format = runtime::text_format::jsonl;
  runtime::record_reader reader(from, format);
  runtime::record_parser parser(from, format, {"prompt"});
  std::vector<asked_text> out;
  for (runtime::text_record record; reader.next(record);)
    out.push_back({std::string(parser.parse(record, false).front().front()),
                   runtime::ordered_json_value_of_record(record.text)});
  return out;
}

std::vector<asked_text> read_prompts(const std::filesystem::path& from) {
  std::vector<asked_text> out;
  if (runtime::without_compression(from).extension() == ".jsonl")
    out = objects_of(from);
  else
    for (auto& line : lines_of(from == "-" ? read_standard_input() : runtime::inflated_text(from)))
      out.push_back({line, {{"prompt", line}}});
  if (out.empty())
    throw runtime::input_error("--prompts '{}' has no prompts: give one per line", from.string());
  return out;
}

const char* name_of(generation_end end) {
  switch (end) {
    case generation_end::enough:
      return "length";
    case generation_end::end_of_document:
      return "end_of_document";
    case generation_end::end_of_positions:
      return "positions";
    case generation_end::stopped:
      return "stop";
  }
  return "";
}

/// The growing text of one prompt of a batch.
struct growing {
  growing(const runtime::tokenizer& with, const std::vector<std::string>& stop)
      : characters(with), words(stop) {}

  bool add(std::int32_t token) {
    text += words.push(characters.push(token));
    ++tokens;
    return !words.found();
  }
  std::string finished() {
    text += words.push(characters.finish());
    return text += words.finish();
  }

  runtime::text_stream characters;
  runtime::stop_words words;
  std::string text;
  std::int64_t tokens = 0;
};

/// The requests of all prompts. Throws for a prompt that is too long, before any is answered.
std::vector<runtime::generation_request> requests_for(const std::vector<asked_text>& prompts,
                                                      const generate_flags& flags,
                                                      const runtime::loaded_model& model) {
  std::vector<runtime::generation_request> out;
  for (const auto& prompt : prompts) {
    out.push_back(request_for(prompt.prompt, out.size(), flags, model));
    require_fitting(out.back(), model.whole().model());
  }
  return out;
}

using json_line = nlohmann::ordered_json;

/// Adds the text, without fields of the same names that the prompt's object has.
void add_text(json_line& to, growing& text, generation_end end) {
  for (const auto* own : {"text", "tokens", "finish_reason", "score", "beams"})
    to.erase(own);
  to["text"] = text.finished();
  to["tokens"] = text.tokens;
  to["finish_reason"] = name_of(text.words.found() ? generation_end::stopped : end);
}

json_line line_of(const runtime::beam_text& found,
                  const runtime::generation_request& request,
                  const generate_flags& flags,
                  const runtime::loaded_model& model,
                  json_line out) {
  growing text(model.text(), flags.stop);
  for (const auto token : found.tokens)
    if (!text.add(token))
      break;
  add_text(out, text, end_of(found, request, model.whole().model()));
  out["score"] = found.score;
  return out;
}

/// Continues each prompt by beam search.
void search_some(runtime::loaded_model& model,
                 const generate_flags& flags,
                 const runtime::beam_settings& settings,
                 std::span<const asked_text> prompts,
                 std::span<const runtime::generation_request> requests) {
  const auto all = search_texts(model, flags, settings, requests);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto line = line_of(all[i].front(), requests[i], flags, model, prompts[i].fields);
    if (settings.returned > 1)
      for (const auto& found : all[i])
        line["beams"].push_back(line_of(found, requests[i], flags, model, json_line::object()));
    show(runtime::json_text_replacing(line) + "\n");
  }
}

void continue_some(runtime::loaded_model& model,
                   const generate_flags& flags,
                   std::span<const asked_text> prompts,
                   std::span<const runtime::generation_request> requests,
                   runtime::choice_text_writer* recorder) {
  std::vector<growing> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    texts.emplace_back(model.text(), flags.stop);
  const auto ends = continue_texts(
      model,
      flags,
      requests,
      [&](std::size_t which, std::int32_t token) { return texts[which].add(token); },
      recorder);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto line = prompts[i].fields;
    add_text(line, texts[i], ends[i]);
    show(runtime::json_text_replacing(line) + "\n");
  }
}

}  // namespace

int generate_batch(const generate_flags& flags) {
  const auto prompts = read_prompts(flags.prompts);
  const auto model = load(flags.model, runtime::model_use::generates);
  runtime::progress_bar bar("generating", prompts.size(), "texts");
  const auto requests = requests_for(prompts, flags, *model);
  const auto recorder = recorder_of(flags, *model, requests);
  const auto size = std::size_t(flags.batch);
  for (std::size_t first = 0; first < prompts.size(); first += size) {
    const auto some = std::span(prompts).subspan(first, std::min(size, prompts.size() - first));
    const auto their = std::span(requests).subspan(first, some.size());
    if (const auto beams = beams_of(flags))
      search_some(*model, flags, *beams, some, their);
    else
      continue_some(*model, flags, some, their, recorder.get());
    bar.advance_to(first + some.size());
  }
  return 0;
}

}  // namespace troupe::command
