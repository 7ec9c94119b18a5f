// Fuzzes a line of a file of conversations.

#include "runtime/data/conversation.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/byte_tokenizer.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})",
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "b"},
              {"role": "system", "content": ""}, {"role": "assistant", "content": "c"}],
              "tools": [{"name": "f"}]})",
      R"({"instruction": "a", "input": "b", "output": "b", "history": [["a", "b"]]})",
      R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"messages\"",
          "\"conversations\"",
          "\"instruction\"",
          "\"output\"",
          "\"completion\"",
          "\"tool_calls\": [1]",
          "\"tool\"",
          "\"function\"",
          "null",
          "[[",
          "{\"role\"",
          "\\u0000",
          "\xff",
          "\"content\": [3]"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const byte_tokenizer bytes("ab");
  static const auto identity = template_of(conversation_format::identity);
  static const auto aligned = template_of(conversation_format::nemotron_h_aligned);
  fuzz::accepted([&] {
    for (const auto& x : conversations_of(fuzz::text_of(data, size)))
      for (const auto* prompt : {&identity, &aligned}) {
        const auto found = tokenize({.text = bytes, .prompt = *prompt}, x);
        fuzz::require(!found.answers.empty(), "there is an answer");
        std::int32_t at = 0;
        for (const auto& [begin, end] : found.answers) {
          fuzz::require(begin >= at && end > begin, "answers ascend");
          at = end;
        }
        fuzz::require(std::size_t(at) <= found.ids.size(), "answers are in the conversation");
      }
  });
  return 0;
}
