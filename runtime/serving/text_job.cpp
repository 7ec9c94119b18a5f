#include "runtime/serving/text_job.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/serving/tool_calls.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::runtime::serving {
namespace {

std::int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char x) { return (x & 0xc0) != 0x80; });
}

json bytes_of(const tokenizer& with, std::int32_t token) {
  auto out = json::array();
  for (const unsigned char one : with.decode({&token, 1}))
    out.push_back(int(one));
  return out;
}

/// Chat's form of a token.
json chat_token(const tokenizer& with, std::int32_t token, float log_probability) {
  return {{"token", token_text(with, token)},
          {"logprob", log_probability},
          {"bytes", bytes_of(with, token)}};
}

json chat_choices(const tokenizer& with, const std::vector<token_choice>& all) {
  auto content = json::array();
  for (const auto& x : all) {
    auto one = chat_token(with, x.token, x.log_probability);
    one["top_logprobs"] = json::array();
    for (const auto& [token, log_probability] : x.alternatives)
      one["top_logprobs"].push_back(chat_token(with, token, log_probability));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// `offset`: of the first token in the text, in characters; that of the next one afterwards. The
/// first token of a prompt has no probability: `no_first`.
json completion_choices(const tokenizer& with,
                        const std::vector<token_choice>& all,
                        std::int64_t& offset,
                        bool no_first) {
  json out{{"tokens", json::array()},
           {"token_logprobs", json::array()},
           {"top_logprobs", json::array()},
           {"text_offset", json::array()}};
  for (const auto& x : all) {
    const bool known = !std::exchange(no_first, false);
    auto top = json::object();
    for (const auto& [token, log_probability] : x.alternatives)
      top[token_text(with, token)] = log_probability;
    out["tokens"].push_back(token_text(with, x.token));
    out["token_logprobs"].push_back(known ? json(x.log_probability) : json());
    out["top_logprobs"].push_back(known ? std::move(top) : json());
    out["text_offset"].push_back(offset);
    offset += with.is_special(x.token) ? 0 : characters(with.decode({&x.token, 1}));
  }
  return out;
}

}  // namespace

text_job::text_job(text_request what,
                   const served_model& model,
                   const std::string& id,
                   std::int64_t created,
                   std::uint64_t fresh)
    : what_(std::move(what)),
      model_(model),
      id_((what_.chat ? "chatcmpl-" : "cmpl-") + id),
      created_(created) {
  const auto prompts = model.prompts_of(what_, created);
  texts_ = model.texts_of(what_, prompts, fresh);
  open_ = texts_.size();
  for (const auto& ids : prompts)
    prompt_tokens_ += std::int64_t(ids.size());
  const auto stops = model.stops_of(what_);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    auto& x = choices_.emplace_back();
    x.text = std::make_unique<choice_text>(model.text(), stops, texts_[i].ends);
    if (!what_.tools.is_null())
      x.marker = stop_words({begin_of_tool_call});
    const auto& prompt = texts_[i].prompt;
    if (what_.chat && what_.stream)
      send(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    if (!what_.echo)
      continue;
    const auto* const words
        = std::get_if<std::string>(&what_.prompts[i / std::size_t(what_.copies)]);
    add(x, i, words != nullptr ? *words : model.text().decode(prompt));
  }
}

json text_job::head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_.facts().model}};
}

std::int64_t text_job::generated_tokens() const {
  return std::accumulate(
      choices_.begin(), choices_.end(), std::int64_t(0), [](std::int64_t sum, const choice& x) {
        return sum + x.text->tokens();
      });
}

json text_job::usage() const {
  const auto generated = generated_tokens();
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", generated},
          {"total_tokens", prompt_tokens_ + generated},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
}

/// One server-sent event of a choice.
void text_job::send(std::size_t index, json delta, json choices, const json& reason) {
  json one{{"index", index}};
  if (what_.chat)
    one["delta"] = std::move(delta);
  else
    one["text"] = std::move(delta);
  one["logprobs"] = std::move(choices);
  one["finish_reason"] = reason;
  auto all = head(what_.chat ? "chat.completion.chunk" : "text_completion");
  all["choices"] = json::array({std::move(one)});
  if (what_.usage_in_stream)
    all["usage"] = nullptr;
  events_ += "data: " + json_text_replacing(all) + "\n\n";
}

/// The log-probabilities of `some` new tokens; null without them.
json text_job::shown_choices(choice& to, const std::vector<token_choice>& some) {
  if (!what_.alternatives)
    return nullptr;
  if (what_.chat)
    return chat_choices(model_.text(), some);
  const bool first = to.choices.empty() && what_.echo;
  return completion_choices(model_.text(), some, to.offset, first);
}

void text_job::add(choice& to, std::size_t index, const std::string& piece) {
  if (piece.empty())
    return;
  to.whole += piece;
  if (!what_.stream)
    return;
  const auto shown = what_.chat ? to.marker.push(piece) : piece;
  if (shown.empty() || (what_.echo && to.text->tokens() == 0 && what_.alternatives))
    return;  // an echoed prompt with probabilities follows with the first event
  const auto some = to.text->take_choices();
  auto choices = shown_choices(to, some);
  to.choices.insert(to.choices.end(), some.begin(), some.end());
  send(index, what_.chat ? json{{"content", shown}} : json(shown), std::move(choices), nullptr);
}

void text_job::end(choice& to, std::size_t index, std::string reason) {
  add(to, index, to.text->finish());
  to.end = std::move(reason);
  --open_;
  const auto some = to.text->take_choices();
  if (!what_.stream) {
    to.choices.insert(to.choices.end(), some.begin(), some.end());
    return;
  }
  auto delta = what_.chat ? json::object() : json("");
  if (!what_.tools.is_null()) {
    auto found = tool_calls_in(to.whole, id_ + "_" + std::to_string(index));
    auto rest = to.marker.finish();
    if (!found.calls.empty()) {
      to.end = "tool_calls";
      for (std::size_t i = 0; i < found.calls.size(); ++i)
        found.calls[i]["index"] = i;
      delta["tool_calls"] = std::move(found.calls);
    } else {
      if (to.marker.found())  // a malformed call is text
        rest = to.whole.substr(to.whole.find(begin_of_tool_call));
      if (!rest.empty())
        delta["content"] = rest;
    }
  }
  auto choices = some.empty() ? json() : shown_choices(to, some);
  send(index, std::move(delta), std::move(choices), to.end);
}

bool text_job::take(std::size_t text, const served_event& x) {
  auto& to = choices_.at(text);
  if (!to.end.empty() || is_done())
    return false;
  // Each prompt is counted once, though its copies report it.
  if (text % std::size_t(what_.copies) == 0)
    cached_tokens_ += x.cached_tokens;
  if (!x.prompt.empty() || (what_.echo && what_.alternatives && to.choices.empty())) {
    to.choices.push_back({.token = texts_[text].prompt.front()});
    to.choices.insert(to.choices.end(), x.prompt.begin(), x.prompt.end());
    if (what_.stream) {
      const auto all = std::exchange(to.choices, {});
      auto choices = shown_choices(to, all);
      to.choices = all;
      send(text, to.whole, std::move(choices), nullptr);
    }
  }
  if (x.choice)
    add(to, text, to.text->push(*x.choice));
  if (to.text->stopped()) {
    end(to, text, "stop");
    return !x.end.has_value();
  }
  if (!x.end)
    return false;
  if (*x.end == served_end::failed)
    failure_ = x.why.empty() ? "the model could not continue this text" : x.why;
  else
    end(to, text, *x.end == served_end::stop ? "stop" : "length");
  return false;
}

std::string text_job::take_events() {
  if (is_done() && !std::exchange(closed_, true)) {
    if (!failure_.empty())
      events_ += "data: " + error_body(refusal(500, failure_)) + "\n\n";
    if (what_.usage_in_stream && failure_.empty()) {
      auto last = head(what_.chat ? "chat.completion.chunk" : "text_completion");
      last["choices"] = json::array();
      last["usage"] = usage();
      events_ += "data: " + json_text_replacing(last) + "\n\n";
    }
    events_ += "data: [DONE]\n\n";
  }
  return std::exchange(events_, {});
}

json text_job::whole_choice(std::size_t index, std::size_t shown_as) const {
  const auto& x = choices_[index];
  json out{{"index", shown_as}};
  auto reason = x.end;
  if (what_.chat) {
    json message{{"role", "assistant"}, {"content", x.whole}, {"refusal", nullptr}};
    if (!what_.tools.is_null()) {
      auto found = tool_calls_in(x.whole, id_ + "_" + std::to_string(shown_as));
      if (!found.calls.empty()) {
        message["content"] = found.text.empty() ? json() : json(found.text);
        message["tool_calls"] = std::move(found.calls);
        reason = "tool_calls";
      }
    }
    out["message"] = std::move(message);
  } else {
    out["text"] = x.whole;
  }
  std::int64_t offset = 0;
  if (!what_.alternatives)
    out["logprobs"] = nullptr;
  else if (what_.chat)
    out["logprobs"] = chat_choices(model_.text(), x.choices);
  else
    out["logprobs"] = completion_choices(model_.text(), x.choices, offset, what_.echo);
  out["finish_reason"] = reason;
  return out;
}

std::string text_job::answer() const {
  auto out = head(what_.chat ? "chat.completion" : "text_completion");
  out["choices"] = json::array();
  const auto copies = std::size_t(what_.copies), returned = std::size_t(what_.returned);
  for (std::size_t first = 0; first < choices_.size(); first += copies) {
    std::vector<std::size_t> order(copies);
    std::iota(order.begin(), order.end(), first);
    const auto score = [this](std::size_t i) {
      const auto& x = *choices_[i].text;
      return x.log_probability() / double(std::max<std::int64_t>(x.tokens(), 1));
    };
    if (copies > returned)
      std::ranges::stable_sort(order,
                               [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
    for (std::size_t i = 0; i < returned; ++i)
      out["choices"].push_back(whole_choice(order[i], out["choices"].size()));
  }
  out["usage"] = usage();
  return json_text_replacing(out);
}

}  // namespace troupe::runtime::serving
