#include "runtime/serving/requests.hpp"

#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <limits>

namespace troupe::runtime::serving {
namespace {

constexpr std::int64_t most_alternatives = 20;
constexpr std::size_t most_stop_texts = 16, most_biases = 1024, most_inputs = 2048;

void check_model(request_fields& in, const served_facts& facts) {
  const auto model = in.text("model");
  if (model && *model != facts.model)
    throw refusal(
        404,
        fmt::format("the model '{}' is not served here; ask for '{}'", *model, facts.model),
        "model",
        "model_not_found");
}

std::vector<std::string> stop_texts(request_fields& in) {
  const auto* const x = in.any("stop");
  std::vector<std::string> out;
  if (x == nullptr)
    return out;
  const auto take = [&](const json& one) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      in.refuse("stop", "is not a text or a list of texts, each with at least one character");
    out.push_back(one.get<std::string>());
  };
  if (!x->is_array())
    take(*x);
  else if (x->size() > most_stop_texts)
    in.refuse("stop", fmt::format("has more than {} texts", most_stop_texts));
  else
    for (const auto& one : *x)
      take(one);
  return out;
}

std::vector<std::pair<std::int32_t, float>> biases(request_fields& in, const served_facts& facts) {
  std::vector<std::pair<std::int32_t, float>> out;
  const auto* const x = in.any("logit_bias");
  if (x == nullptr)
    return out;
  if (!x->is_object() || x->size() > most_biases)
    in.refuse("logit_bias", fmt::format("is not an object of at most {} token ids", most_biases));
  for (const auto& one : x->items()) {
    const auto& key = one.key();
    const bool digits = !key.empty() && key.size() < 10
                        && std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
    const auto id = digits ? std::stoll(key) : -1;
    const auto value = one.value().is_number() ? one.value().get<double>() : 1000;
    if (id < 0 || id >= facts.vocabulary || !(value >= -100 && value <= 100))
      in.refuse("logit_bias",
                fmt::format("does not map token ids from 0 to {} to numbers from -100 to 100",
                            facts.vocabulary - 1));
    out.emplace_back(std::int32_t(id), float(value));
  }
  return out;
}

void take_sampling(request_fields& in, text_request& to, const served_facts& facts) {
  auto& x = to.sampling;
  x.temperature = float(in.real("temperature", 0, 1e6).value_or(1));
  if (x.temperature > 0)
    x.temperature = std::max(x.temperature, 1e-6F);
  x.top_p = float(in.real("top_p", 0, 1).value_or(1));
  if (x.top_p == 0) {  // the most probable token alone
    x.top_p = 1;
    x.temperature = 0;
  }
  x.top_k = std::max<std::int64_t>(in.whole("top_k", -1, facts.vocabulary).value_or(0), 0);
  x.min_p = float(in.real("min_p", 0, 1).value_or(0));
  x.repetition_penalty = float(in.real("repetition_penalty", 0.01, 100).value_or(1));
  x.presence_penalty = float(in.real("presence_penalty", -2, 2).value_or(0));
  x.frequency_penalty = float(in.real("frequency_penalty", -2, 2).value_or(0));
  x.bias = biases(in, facts);
  if (const auto seed = in.whole("seed",
                                 std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max())) {
    x.seed = std::uint64_t(*seed);
    to.seeded = true;
  }
}

/// The fields that both kinds of requests have.
void take_common(request_fields& in, text_request& to, const served_facts& facts) {
  check_model(in, facts);
  take_sampling(in, to, facts);
  to.returned = in.whole("n", 1, facts.most_texts).value_or(1);
  to.copies = to.returned;
  to.stop = stop_texts(in);
  to.stop_tokens
      = in.ids("stop_token_ids", facts.vocabulary - 1).value_or(std::vector<std::int32_t>());
  to.ignores_end = in.flag("ignore_eos").value_or(false);
  to.least_tokens = in.whole("min_tokens", 0, facts.context).value_or(0);
  to.stream = in.flag("stream").value_or(false);
  if (const auto* const options = in.any("stream_options")) {
    if (!to.stream)
      in.refuse("stream_options", "needs 'stream': true");
    request_fields inner(*options, "stream_options");
    to.usage_in_stream = inner.flag("include_usage").value_or(false);
    inner.ignore({"include_obfuscation", "continuous_usage_stats"});
    inner.finish();
  }
  if (const auto* const format = in.any("response_format")) {
    request_fields inner(*format, "response_format");
    inner.require("type", "text", "is not supported here: this server gives 'text' only");
    inner.finish();
  }
  in.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

given_prompt prompt_in(const json& x,
                       request_fields& in,
                       const char* field,
                       const served_facts& facts) {
  if (x.is_string())
    return x.get<std::string>();
  auto ids = ids_in(x, facts.vocabulary - 1);
  if (!ids || ids->empty())
    in.refuse(field,
              fmt::format("is not a text, a list of token ids from 0 to {}, or a list of these",
                          facts.vocabulary - 1));
  return *std::move(ids);
}

std::vector<given_prompt> prompts_in(request_fields& in,
                                     const char* field,
                                     const served_facts& facts) {
  const auto* const x = in.any(field);
  std::vector<given_prompt> out;
  if (x == nullptr)
    return out;
  const bool is_list = x->is_array() && !x->empty() && !x->front().is_number();
  if (!is_list)
    out.push_back(prompt_in(*x, in, field, facts));
  else if (x->size() > most_inputs)
    in.refuse(field, fmt::format("has more than {} entries", most_inputs));
  else
    for (const auto& one : *x)
      out.push_back(prompt_in(one, in, field, facts));
  return out;
}

void require_texts(request_fields& in, const text_request& x, const served_facts& facts) {
  const auto texts = std::int64_t(x.chat ? 1 : x.prompts.size()) * x.copies;
  if (texts > facts.most_texts)
    in.refuse(x.chat ? "n" : "prompt",
              fmt::format("asks for {} texts at once; the most are {}", texts, facts.most_texts));
}

void take_messages(request_fields& in, text_request& to) {
  const auto* const messages = in.any("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    in.refuse("messages",
              "is not a list of messages, [{\"role\": \"user\", \"content\": \"Hello\"}]");
  for (const auto& one : *messages)
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string())
      in.refuse("messages", "has an entry without a \"role\"");
  to.messages = *messages;
  // Templates expect texts: parts of type "text" are joined.
  for (auto& one : to.messages) {
    const auto content = one.find("content");
    if (content == one.end() || !content->is_array())
      continue;
    std::string text;
    for (const auto& part : *content) {
      const bool is_text = part.is_object() && part.value("type", json()) == json("text")
                           && part.contains("text") && part["text"].is_string();
      if (!is_text)
        in.refuse("messages", "has a part that is not a text: this model reads only texts");
      text += part["text"].get<std::string>();
    }
    *content = text;
  }
  if (const auto* const tools = in.any("tools")) {
    if (!tools->is_array()
        || !std::ranges::all_of(*tools, [](const json& x) { return x.is_object(); }))
      in.refuse("tools", "is not a list of tools");
    if (!tools->empty())
      to.tools = *tools;
  }
  if (const auto* const choice = in.any("tool_choice")) {
    if (*choice == "none")
      to.tools = nullptr;
    else if (*choice != "auto")
      in.refuse("tool_choice", "is not \"auto\" or \"none\": this server cannot force a call");
  }
  to.template_variables = json::object();
  if (const auto* const variables = in.any("chat_template_kwargs")) {
    if (!variables->is_object())
      in.refuse("chat_template_kwargs", "is not an object");
    to.template_variables = *variables;
  }
  to.generation_prompt = in.flag("add_generation_prompt").value_or(true);
}

}  // namespace

text_request completion_in(std::string_view body, const served_facts& facts) {
  const auto object = parsed_body(body);
  request_fields in(object);
  text_request out;
  take_common(in, out, facts);
  out.prompts = prompts_in(in, "prompt", facts);
  if (out.prompts.empty())
    out.prompts.emplace_back("");
  out.echo = in.flag("echo").value_or(false);
  out.copies = in.whole("best_of", out.returned, facts.most_texts).value_or(out.returned);
  if (out.stream && out.copies > out.returned)
    in.refuse("best_of", "above 'n' is not possible with 'stream'");
  out.most_tokens = in.whole("max_tokens", out.echo ? 0 : 1, facts.context).value_or(16);
  out.alternatives = in.whole("logprobs", 0, most_alternatives);
  in.require("suffix", "", "is not supported: this model only continues texts");
  require_texts(in, out, facts);
  in.finish();
  return out;
}

text_request chat_in(std::string_view body, const served_facts& facts) {
  const auto object = parsed_body(body);
  request_fields in(object);
  text_request out;
  out.chat = true;
  take_common(in, out, facts);
  take_messages(in, out);
  const auto most = in.whole("max_tokens", 1, facts.context);
  const auto newer = in.whole("max_completion_tokens", 1, facts.context);
  out.most_tokens = newer ? newer : most;
  const bool wanted = in.flag("logprobs").value_or(false);
  const auto alternatives = in.whole("top_logprobs", 0, most_alternatives);
  if (alternatives && !wanted)
    in.refuse("top_logprobs", "needs 'logprobs': true");
  if (wanted)
    out.alternatives = alternatives.value_or(0);
  in.ignore({"parallel_tool_calls", "reasoning_effort", "verbosity"});
  require_texts(in, out, facts);
  in.finish();
  return out;
}

embedding_request embedding_in(std::string_view body, const served_facts& facts) {
  const auto object = parsed_body(body);
  request_fields in(object);
  check_model(in, facts);
  embedding_request out{.inputs = prompts_in(in, "input", facts)};
  if (out.inputs.empty())
    in.refuse("input", "is missing");
  const auto format = in.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    in.refuse("encoding_format", "is not \"float\" or \"base64\"");
  out.base64 = format == "base64";
  in.require("dimensions", nullptr, "is not supported: vectors have the width of the model");
  in.ignore({"user"});
  in.finish();
  return out;
}

tokenize_request tokenize_in(std::string_view body, const served_facts& facts) {
  const auto object = parsed_body(body);
  request_fields in(object);
  check_model(in, facts);
  tokenize_request out;
  out.special_tokens = in.flag("add_special_tokens").value_or(true);
  if (in.any("messages") != nullptr) {
    out.conversation.emplace();
    out.conversation->chat = true;
    take_messages(in, *out.conversation);
  } else {
    const auto prompt = in.text("prompt");
    if (!prompt)
      in.refuse("prompt", "is missing");
    out.prompt = *prompt;
  }
  in.finish();
  return out;
}

std::vector<std::int32_t> detokenize_in(std::string_view body, const served_facts& facts) {
  const auto object = parsed_body(body);
  request_fields in(object);
  check_model(in, facts);
  auto out = in.ids("tokens", facts.vocabulary - 1);
  if (!out)
    in.refuse("tokens", "is missing");
  in.finish();
  return *std::move(out);
}

}  // namespace troupe::runtime::serving
