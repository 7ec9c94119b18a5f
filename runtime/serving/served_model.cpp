#include "runtime/serving/served_model.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime::serving {

served_model::served_model(served_facts facts,
                           const tokenizer& text,
                           std::optional<chat_template> chat,
                           std::optional<chat_template> chat_with_tools)
    : facts_(std::move(facts)),
      text_(text),
      chat_(std::move(chat)),
      with_tools_(std::move(chat_with_tools)) {
  if (chat_)
    find_end_of_turn();
}

/// The first token after an answer if it is special, else the text.
void served_model::find_end_of_turn() {
  const std::string said = "an answer";
  const auto all = chat_
                       ->render({.messages = {{{"role", "user"}, {"content", "a question"}},
                                              {{"role", "assistant"}, {"content", said}}}})
                       .text;
  const auto at = all.rfind(said);
  auto after = at == std::string::npos ? std::string() : all.substr(at + said.size());
  const auto ids = text_.encode(after, special_tokens::recognised);
  if (!ids.empty() && text_.is_special(ids.front())) {
    ends_of_turn_.push_back(ids.front());
    return;
  }
  after.erase(after.find_last_not_of(" \t\r\n") + 1);
  stop_of_turn_ = after;
}

std::string served_model::rendered(const text_request& x, std::time_t now) const {
  if (!chat_)
    throw refusal(400,
                  "this model has no chat template: use /v1/completions, or serve a folder of a "
                  "tokenizer that has one",
                  "messages");
  auto messages = x.messages;
  for (auto& message : messages) {  // templates expect the arguments as an object
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array())
      continue;
    for (auto& call : *calls)
      if (call.is_object() && call.contains("function") && call["function"].is_object()
          && call["function"].contains("arguments") && call["function"]["arguments"].is_string())
        call["function"]["arguments"]
            = parsed_body(call["function"]["arguments"].get_ref<const std::string&>());
  }
  try {
    const auto& with = x.tools.is_null() || !with_tools_ ? *chat_ : *with_tools_;
    return with
        .render(
            {.messages = std::move(messages),
             .tools = x.tools,
             .variables = x.template_variables.is_object() ? x.template_variables : json::object(),
             .add_generation_prompt = x.generation_prompt,
             .now = now})
        .text;
  } catch (const refusal&) {
    throw;
  } catch (const input_error& failure) {
    throw refusal(400, failure.what(), "messages");
  }
}

std::vector<std::int32_t> served_model::ids_of(const std::string& text, bool framed) const {
  std::vector<std::int32_t> out;
  try {
    out = text_.encode(text, special_tokens::recognised);
  } catch (const input_error& failure) {
    throw refusal(400, failure.what(), "prompt");
  }
  const auto before = text_.frame().before;
  const bool there
      = out.size() >= before.size() && std::equal(before.begin(), before.end(), out.begin());
  if (framed && !there)
    out.insert(out.begin(), before.begin(), before.end());
  return out;
}

std::vector<std::vector<std::int32_t>> served_model::prompts_of(const text_request& x,
                                                                std::time_t now) const {
  std::vector<std::vector<std::int32_t>> out;
  if (x.chat)
    out.push_back(ids_of(rendered(x, now), false));
  for (const auto& one : x.prompts)
    if (const auto* const words = std::get_if<std::string>(&one))
      out.push_back(ids_of(*words, true));
    else
      out.push_back(std::get<std::vector<std::int32_t>>(one));
  for (auto& ids : out) {
    if (ids.empty() && !text_.names_end_of_document())
      throw refusal(400, "the prompt is empty: give at least one character", "prompt");
    if (ids.empty())
      ids.push_back(text_.end_of_document());
    const auto asked = x.chat ? x.most_tokens.value_or(1) : x.most_tokens.value_or(16);
    const auto size = std::int64_t(ids.size());
    if (size + asked > facts_.context)
      throw refusal(400,
                    fmt::format("the context of this model is {} tokens, but the prompt has {} and "
                                "{} are asked for: shorten the prompt or ask for fewer",
                                facts_.context,
                                size,
                                asked),
                    x.chat ? "messages" : "prompt",
                    "context_length_exceeded");
  }
  return out;
}

std::vector<served_request> served_model::texts_of(
    const text_request& x,
    const std::vector<std::vector<std::int32_t>>& prompts,
    std::uint64_t fresh) const {
  std::vector<served_request> out;
  for (std::size_t p = 0; p < prompts.size(); ++p)
    for (std::int64_t copy = 0; copy < x.copies; ++copy) {
      const auto room = facts_.context - std::int64_t(prompts[p].size());
      served_request one{.prompt = prompts[p],
                         .most_tokens = x.most_tokens.value_or(room),
                         .least_tokens = x.least_tokens,
                         .ends = x.stop_tokens,
                         .sampling = x.sampling,
                         .number = p,
                         .copy = std::uint64_t(copy),
                         .alternatives = x.alternatives,
                         .prompt_choices = x.echo && x.alternatives.has_value()};
      if (!x.seeded)
        one.sampling.seed = fresh;
      if (!x.ignores_end) {
        if (text_.names_end_of_document())
          one.ends.push_back(text_.end_of_document());
        if (x.chat)
          one.ends.insert(one.ends.end(), ends_of_turn_.begin(), ends_of_turn_.end());
      }
      out.push_back(std::move(one));
    }
  return out;
}

std::vector<std::string> served_model::stops_of(const text_request& x) const {
  auto out = x.stop;
  if (x.chat && !x.ignores_end && !stop_of_turn_.empty())
    out.push_back(stop_of_turn_);
  return out;
}

}  // namespace troupe::runtime::serving
