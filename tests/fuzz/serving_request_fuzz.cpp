// Fuzzes the bodies of OpenAI's requests. An accepted one can be generated: its answer is JSON, and
// its limits hold.

#include "runtime/core/json_text.hpp"
#include "runtime/serving/other_answers.hpp"
#include "runtime/serving/text_job.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/byte_tokenizer.hpp"

#include <optional>

using namespace troupe::runtime;
using namespace troupe::runtime::serving;
using namespace troupe::tests;

namespace {

const byte_tokenizer bytes;

const served_model& model() {
  static const served_model it(
      {.model = "m", .vocabulary = bytes.vocabulary_size(), .context = 256, .most_texts = 8},
      bytes,
      chat_template({"{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                     "{% endfor %}{{ tools }}",
                     "a template"},
                    json::object()));
  return it;
}

void answer(text_request what) {
  text_job job(std::move(what), model(), "1", 0, 1);
  fuzz::require(!job.texts().empty() && job.texts().size() <= 8, "a request has 1 to 8 texts");
  for (std::size_t i = 0; i < job.texts().size(); ++i) {
    const auto& x = job.texts()[i];
    fuzz::require(!x.prompt.empty() && std::int64_t(x.prompt.size()) + x.most_tokens <= 256,
                  "a text fits the context");
    for (const char c : std::string("<tool_call>{\"name\": \"f\"}</tool_call>\xc3"))
      if (job.take(i,
                   {.choice
                    = token_choice{.token = std::int32_t(std::uint8_t(c)), .log_probability = -1}}))
        break;
    job.take(i, {.end = served_end::length});
  }
  fuzz::require(job.is_done(), "a request ends with its texts");
  fuzz::require(!json_value_or_discarded(job.answer()).is_discarded(), "an answer is JSON");
  fuzz::require(job.take_events().ends_with("data: [DONE]\n\n"), "a stream has an end");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {R"(c{"model": "m", "prompt": "ab", "max_tokens": 3, "temperature": 0.5, "top_p": 0.9})",
          R"(c{"prompt": [[1, 2], [3]], "n": 2, "best_of": 3, "echo": true, "logprobs": 2})",
          R"(c{"prompt": ["a", "b"], "stream": true, "stream_options": {"include_usage": true},
              "stop": ["x", "y"], "logit_bias": {"5": -100}, "seed": 3, "user": "u"})",
          R"(h{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content":
              [{"type": "text", "text": "q"}]}], "logprobs": true, "top_logprobs": 3})",
          R"(h{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null,
              "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f",
              "arguments": "{\"a\": 1}"}}]}], "tools": [{"type": "function", "function":
              {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "auto",
              "max_completion_tokens": 5, "response_format": {"type": "text"}})",
          R"(e{"input": ["a", "b"], "encoding_format": "base64"})",
          R"(t{"prompt": "ab", "add_special_tokens": false})",
          R"(d{"tokens": [1, 2]})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"prompt\":",
          "\"messages\":",
          "\"role\":",
          "\"content\":",
          "\"n\":",
          "\"stop\":",
          "\"stream\":",
          "\"tools\":",
          "\"logprobs\":",
          "null",
          "true",
          "-1",
          "1e999",
          "0.5",
          "18446744073709551616",
          "[",
          "]",
          "{",
          "}",
          ",",
          "\"\\ud800\"",
          "\xff",
          "257",
          "\"\""};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    auto text = fuzz::text_of(data, size);
    const char kind = text.empty() ? 'c' : text.front();
    text.remove_prefix(text.empty() ? 0 : 1);
    if (kind == 'h')
      answer(chat_in(text, model().facts()));
    else if (kind == 'e')
      fuzz::require(!embedding_in(text, model().facts()).inputs.empty(), "there is an input");
    else if (kind == 't')
      tokenize_answer(text, model(), 0);
    else if (kind == 'd')
      detokenize_answer(text, model());
    else
      answer(completion_in(text, model().facts()));
  });
  return 0;
}
