#include "runtime/core/json_text.hpp"
#include "runtime/serving/other_answers.hpp"
#include "runtime/serving/text_job.hpp"
#include "runtime/serving/token_picker.hpp"
#include "runtime/serving/tool_calls.hpp"
#include "tests/support/byte_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <string>

using namespace troupe::runtime;
using namespace troupe::runtime::serving;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::byte_tokenizer;

namespace {

const byte_tokenizer bytes;  // id = byte

served_facts small_facts() {
  return {.model = "m", .vocabulary = bytes.vocabulary_size(), .context = 64, .most_texts = 4};
}

served_model plain_model() {
  return served_model(small_facts(), bytes, std::nullopt);
}

served_model chat_model() {
  const chat_templates::source source{
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "a template"};
  return served_model(small_facts(), bytes, chat_template(source, json::object()));
}

/// The status, field and message of a refusal; status 0 if there is none.
template <class Work>
refusal refused(Work work) {
  try {
    work();
  } catch (const refusal& why) {
    return why;
  }
  return refusal(0, "accepted");
}

text_job job_of(const served_model& model, const std::string& body, bool chat = false) {
  return text_job(
      chat ? chat_in(body, model.facts()) : completion_in(body, model.facts()), model, "7", 100, 5);
}

served_event token(char x, float log_probability = -0.5F) {
  return {.choice = token_choice{.token = std::int32_t(static_cast<unsigned char>(x)),
                                 .log_probability = log_probability}};
}

/// Gives the text of one choice, and its end unless a stop text was found.
void give(text_job& to,
          std::string_view text,
          served_end end = served_end::length,
          std::size_t which = 0) {
  for (const auto x : text)
    if (to.take(which, token(x)))
      return;
  to.take(which, {.end = end});
}

/// The data of server-sent events.
std::vector<json> events_of(std::string_view text, bool& done) {
  std::vector<json> out;
  while (!text.empty()) {
    const auto end = text.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    REQUIRE(text.starts_with("data: "));
    const auto data = text.substr(6, end - 6);
    text.remove_prefix(end + 2);
    done = data == "[DONE]";
    if (!done)
      out.push_back(ordered_json_value(data));
  }
  return out;
}

}  // namespace

TEST_CASE("A completion request has OpenAI's defaults") {
  const auto x = completion_in(R"({"model": "m", "prompt": "ab"})", small_facts());
  CHECK(x.most_tokens == 16);
  CHECK(x.copies == 1);
  CHECK(x.sampling.temperature == 1);
  CHECK_FALSE(x.stream);
  CHECK_FALSE(x.alternatives);
  CHECK(std::get<std::string>(x.prompts.at(0)) == "ab");
}

TEST_CASE("A prompt is a text, ids, or a list of these") {
  const auto prompts = [](const std::string& prompt) {
    return completion_in(R"({"prompt": )" + prompt + "}", small_facts()).prompts;
  };
  CHECK(prompts(R"(["a", "b"])").size() == 2);
  CHECK(std::get<1>(prompts("[1, 2]").at(0)) == std::vector<std::int32_t>{1, 2});
  CHECK(std::get<1>(prompts("[[1], [2, 3]]").at(1)) == std::vector<std::int32_t>{2, 3});
  for (const auto* const wrong : {"{}", "[[]]", "[-1]", "[1.5]", "[99999]", "[1, \"a\"]", "true"})
    CHECK(refused([&] { prompts(wrong); }).field() == "prompt");
}

TEST_CASE("A wrong field of a request is named") {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature": -1)", "temperature"},
      {R"("temperature": "1")", "temperature"},
      {R"("top_p": 1.5)", "top_p"},
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("max_tokens": 1e30)", "max_tokens"},
      {R"("n": 5)", "n"},
      {R"("n": 2, "best_of": 1)", "best_of"},
      {R"("stop": [""])", "stop"},
      {R"("stop": 3)", "stop"},
      {R"("logprobs": 21)", "logprobs"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"1": 101})", "logit_bias"},
      {R"("logit_bias": {"1": null})", "logit_bias"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("stream": true, "stream_options": {"usage": true})", "stream_options.usage"},
      {R"("response_format": {"type": "json_object"})", "response_format.type"},
      {R"("suffix": "x")", "suffix"},
      {R"("seed": 1.5)", "seed"},
      {R"("temprature": 1)", "temprature"},
  };
  for (const auto& [fields, name] : cases) {
    const auto why = refused([&, text = std::string(fields)] {
      completion_in(R"({"prompt": "a", )" + text + "}", small_facts());
    });
    INFO(fields);
    CHECK(why.status() == 400);
    CHECK(why.field() == name);
    CHECK_THAT(why.what(), ContainsSubstring(name));
  }
}

TEST_CASE("Another model's name gives status 404") {
  const auto why = refused([] { completion_in(R"({"model": "x"})", small_facts()); });
  CHECK(why.status() == 404);
  CHECK(why.code() == "model_not_found");
  const auto body = json_value(error_body(why));
  CHECK(body["error"]["type"] == "invalid_request_error");
  CHECK(body["error"]["param"] == "model");
}

TEST_CASE("A body that is not a JSON object is refused") {
  for (const std::string body : {"", "[]", "{", "\"a\"", "{\"prompt\": \"\xff\"}"})
    CHECK(refused([&] { completion_in(body, small_facts()); }).status() == 400);
  CHECK(refused([] { completion_in(std::string(100000, '['), small_facts()); }).status() == 400);
}

TEST_CASE("A prompt beyond the context is refused with what is allowed") {
  const auto model = plain_model();
  const auto why = refused(
      [&] { job_of(model, R"({"prompt": ")" + std::string(60, 'a') + R"(", "max_tokens": 5})"); });
  CHECK(why.code() == "context_length_exceeded");
  CHECK_THAT(why.what(), ContainsSubstring("64 tokens") && ContainsSubstring("60"));
}

TEST_CASE("A completion has text, reason and usage") {
  const auto model = plain_model();
  auto job = job_of(model, R"({"prompt": "ab", "max_tokens": 3})");
  REQUIRE(job.texts().size() == 1);
  CHECK(job.texts()[0].prompt == std::vector<std::int32_t>{'a', 'b'});
  give(job, "xyz");
  REQUIRE(job.is_done());
  const auto x = json_value(job.answer());
  CHECK(x["object"] == "text_completion");
  CHECK(x["choices"][0]["text"] == "xyz");
  CHECK(x["choices"][0]["finish_reason"] == "length");
  CHECK(x["usage"]["prompt_tokens"] == 2);
  CHECK(x["usage"]["completion_tokens"] == 3);
  CHECK(x["usage"]["total_tokens"] == 5);
}

TEST_CASE("A stop text ends a choice, is not shown, and has its request cancelled") {
  const auto model = plain_model();
  auto job = job_of(model, R"({"prompt": "a", "stop": ["END", "zz"]})");
  CHECK_FALSE(job.take(0, token('x')));
  for (const auto c : std::string("EN"))
    CHECK_FALSE(job.take(0, token(c)));
  CHECK(job.take(0, token('D')));
  CHECK(job.is_done());
  CHECK_FALSE(job.take(0, token('y')));
  const auto x = json_value(job.answer());
  CHECK(x["choices"][0]["text"] == "x");
  CHECK(x["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("A stream holds back stop texts and parts of characters, and equals the whole answer") {
  const auto model = plain_model();
  const std::string text = "a\xc3\xa9 ENx \xe2\x82\xac";
  auto whole = job_of(model, R"({"prompt": "a", "stop": "END"})");
  auto stream = job_of(
      model,
      R"({"prompt": "a", "stop": "END", "stream": true, "stream_options": {"include_usage": true}})");
  std::string joined, all;
  for (const auto c : text) {
    stream.take(0, token(c));
    all += stream.take_events();
  }
  stream.take(0, {.end = served_end::stop});
  all += stream.take_events();
  give(whole, text, served_end::stop);
  bool done = false;
  const auto events = events_of(all, done);
  CHECK(done);
  for (const auto& x : events)
    if (!x["choices"].empty())
      joined += x["choices"][0]["text"].get<std::string>();
  CHECK(joined == text);
  CHECK(json(joined) == ordered_json_value(whole.answer())["choices"][0]["text"]);
  REQUIRE(events.size() > 3);
  CHECK(events.back()["choices"].empty());
  CHECK(events.back()["usage"]["completion_tokens"] == text.size());
  CHECK(events.front()["usage"].is_null());
  CHECK(events[events.size() - 2]["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("Log-probabilities of a completion have tokens, offsets and alternatives") {
  const auto model = plain_model();
  auto job = job_of(model, R"({"prompt": "ab", "logprobs": 1, "echo": true, "max_tokens": 1})");
  CHECK(job.texts()[0].prompt_choices);
  auto event = token('x', -2);
  event.choice->alternatives = {{'y', -0.25F}};
  event.prompt = {{.token = 'b', .log_probability = -1, .alternatives = {{'b', -1}}}};
  event.end = served_end::length;
  job.take(0, event);
  const auto x = json_value(job.answer())["choices"][0];
  CHECK(x["text"] == "abx");
  CHECK(x["logprobs"]["tokens"] == nlohmann::json({"a", "b", "x"}));
  CHECK(x["logprobs"]["token_logprobs"] == nlohmann::json({nullptr, -1.0, -2.0}));
  CHECK(x["logprobs"]["text_offset"] == nlohmann::json({0, 1, 2}));
  CHECK(x["logprobs"]["top_logprobs"][2]["y"] == -0.25);
}

TEST_CASE("Log-probabilities of a chat have bytes and alternatives, also while streaming") {
  const auto model = chat_model();
  for (const auto* const stream : {"false", "true"}) {
    auto job = job_of(model,
                      R"({"messages": [{"role": "user", "content": "q"}], "logprobs": true,
                          "top_logprobs": 1, "stream": )"
                          + std::string(stream) + "}",
                      true);
    auto first = token('\xc3');
    first.choice->alternatives = {{'e', -3}};
    job.take(0, first);
    job.take(0, token('\xa9'));
    job.take(0, {.end = served_end::stop});
    json found = json::array();
    if (job.streams()) {
      bool done = false;
      for (const auto& x : events_of(job.take_events(), done))
        if (const auto& some = x["choices"][0]["logprobs"]; !some.is_null())
          for (const auto& one : some["content"])
            found.push_back(one);
    } else {
      found = ordered_json_value(job.answer())["choices"][0]["logprobs"]["content"];
    }
    REQUIRE(found.size() == 2);
    CHECK(found[0]["token"] == "bytes:\\xc3");
    CHECK(found[0]["bytes"] == json({0xc3}));
    CHECK(found[0]["top_logprobs"][0]["token"] == "e");
  }
}

TEST_CASE("best_of returns the most probable copies") {
  const auto model = plain_model();
  auto job = job_of(model, R"({"prompt": "a", "n": 1, "best_of": 3})");
  REQUIRE(job.texts().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(job.texts()[i].copy == i);
    job.take(i, token(char('x' + i), i == 1 ? -0.1F : -1.0F));
    job.take(i, {.end = served_end::length});
  }
  const auto x = json_value(job.answer());
  REQUIRE(x["choices"].size() == 1);
  CHECK(x["choices"][0]["text"] == "y");
  CHECK(x["usage"]["completion_tokens"] == 3);
}

TEST_CASE("A chat ends at the template's end of a turn") {
  const auto model = chat_model();
  auto job
      = job_of(model,
               R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]})",
               true);
  CHECK(bytes.decode(job.texts()[0].prompt) == "<user>q</s><assistant>");
  CHECK(job.texts()[0].most_tokens == 64 - 22);
  give(job, "hi</s>more");
  const auto x = json_value(job.answer());
  CHECK(x["object"] == "chat.completion");
  CHECK(x["choices"][0]["message"]["content"] == "hi");
  CHECK(x["choices"][0]["message"]["role"] == "assistant");
  CHECK(x["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("A chat needs messages and a template") {
  const auto plain = plain_model(), chat = chat_model();
  const std::string good = R"({"messages": [{"role": "user", "content": "q"}]})";
  CHECK_THAT(refused([&] { job_of(plain, good, true); }).what(),
             ContainsSubstring("no chat template"));
  for (const auto* const body :
       {"{}",
        R"({"messages": []})",
        R"({"messages": [{"content": "q"}]})",
        R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"})
    CHECK(refused([&] { job_of(chat, body, true); }).field() == "messages");
}

TEST_CASE("Calls of tools are found in a text, whole and streamed") {
  const std::string text
      = "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": "
        "2}}\n</tool_call>";
  const auto found = tool_calls_in(text, "id");
  CHECK(found.text == "Let me see.");
  REQUIRE(found.calls.size() == 1);
  CHECK(found.calls[0]["function"]["name"] == "f");
  CHECK(found.calls[0]["function"]["arguments"] == R"({"b":1,"a":2})");
  CHECK(tool_calls_in("<tool_call>{", "id").calls.empty());
  CHECK(tool_calls_in("plain", "id").text == "plain");

  auto facts = small_facts();
  facts.context = 500;
  const served_model model(
      facts, bytes, chat_template({"{{ messages[0].content }}", "t"}, json::object()));
  const std::string asked = R"({"messages": [{"role": "user", "content": "q"}], "stream": true,
      "tools": [{"type": "function", "function": {"name": "f"}}]})";
  auto job = job_of(model, asked, true);
  give(job, text, served_end::stop);
  bool done = false;
  std::string shown;
  const auto events = events_of(job.take_events(), done);
  for (const auto& x : events)
    shown += x["choices"][0]["delta"].value("content", "");
  CHECK(shown == "Let me see.\n");
  CHECK(events.back()["choices"][0]["finish_reason"] == "tool_calls");
  CHECK(events.back()["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "f");
}

TEST_CASE("A failed text is an error of the answer and of a stream") {
  const auto model = plain_model();
  auto job = job_of(model, R"({"prompt": "a", "stream": true})");
  job.take(0, {.end = served_end::failed, .why = "not finite"});
  CHECK(job.is_done());
  CHECK_THAT(job.take_events(), ContainsSubstring("not finite") && ContainsSubstring("[DONE]"));
}

TEST_CASE("Draws depend on the seed of a request, or on a fresh one") {
  const auto model = plain_model();
  CHECK(job_of(model, R"({"prompt": "a", "seed": 9})").texts()[0].sampling.seed == 9);
  CHECK(job_of(model, R"({"prompt": "a"})").texts()[0].sampling.seed == 5);
}

TEST_CASE("A token is picked by the settings") {
  const std::vector<float> logits = {0, 3, 2, 1};
  const auto picked
      = [&](const sampling_settings& how, double uniform, std::vector<std::int32_t> so_far = {}) {
          return pick(logits, how, so_far, 0, {}, uniform);
        };
  CHECK(picked({.temperature = 0}, 0.99) == 1);
  CHECK(picked({.top_k = 1}, 0.99) == 1);
  CHECK(picked({.top_k = 2}, 0.999) == 2);
  CHECK(picked({.top_p = 0.5F}, 0.999) == 1);
  CHECK(picked({.min_p = 0.3F}, 0.999) == 2);
  CHECK(picked({}, 0) == 0);
  CHECK(picked({}, 0.9999) == 3);
  CHECK(picked({.temperature = 0, .frequency_penalty = 2}, 0, {1}) == 2);
  CHECK(picked({.temperature = 0, .repetition_penalty = 10}, 0, {1, 2}) == 3);
  CHECK(picked({.temperature = 0, .bias = {{0, 50}}}, 0) == 0);
  CHECK(pick(logits, {.temperature = 0}, {}, 0, std::vector<std::int32_t>{1}, 0) == 2);
  // The shares of the draws are the probabilities.
  std::vector<int> counts(4);
  for (int i = 0; i < 4000; ++i)
    ++counts[std::size_t(picked({}, (i + 0.5) / 4000))];
  for (std::int32_t id = 0; id < 4; ++id)
    CHECK(std::abs(counts[std::size_t(id)]
                   - 4000 * std::exp(double(choice_of(logits, id, 0).log_probability)))
          < 2);
  CHECK(choice_of(logits, 0, 2).alternatives.at(1).first == 2);
}

TEST_CASE("Vectors are numbers, or base64 of them") {
  const float values[] = {1, -2};
  const std::string raw(reinterpret_cast<const char*>(values), sizeof values);
  const auto x = json_value(embedding_answer("m", raw, 1, 5, false));
  CHECK(x["data"].size() == 2);
  CHECK(x["data"][1]["embedding"] == nlohmann::json({-2.0}));
  CHECK(x["usage"]["prompt_tokens"] == 5);
  CHECK(json_value(embedding_answer("m", raw, 2, 5, true))["data"][0]["embedding"]
        == "AACAPwAAAMA=");
  CHECK(base64_of("a") == "YQ==");
  CHECK(base64_of("ab") == "YWI=");
  CHECK(base64_of("abc") == "YWJj");
}

TEST_CASE("Texts become tokens and back") {
  const auto model = plain_model();
  CHECK(json_value(tokenize_answer(R"({"prompt": "ab"})", model, 0))["tokens"]
        == nlohmann::json({97, 98}));
  CHECK(json_value(detokenize_answer(R"({"tokens": [97, 98]})", model))["prompt"] == "ab");
  CHECK(refused([&] { detokenize_answer("{}", model); }).field() == "tokens");
}
