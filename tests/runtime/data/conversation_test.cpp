// The answer tokens of a conversation.

#include "runtime/data/conversation.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/conversation_fields.hpp"
#include "tests/support/byte_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr const char* marks
    = "{% for m in messages %}{{ m['role'][0] + ':' }}{% if m['role'] == 'assistant' %}"
      "{% generation %}{{ m['content'] + ';' }}{% endgeneration %}{% else %}"
      "{{ m['content'] + ';' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
constexpr const char* marks_nothing
    = "{% for m in messages %}{{ m['role'][0] + ':' + m['content'] + ';' }}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";

constexpr const char* talk
    = R"({"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"},
         {"role": "user", "content": "And?"}, {"role": "assistant", "content": "No"}]})";

/// The text, with answers in brackets.
std::string shown(const std::string& source,
                  std::string_view line,
                  const tokenizer& with = byte_tokenizer(),
                  conversation_format format = conversation_format::chat_template) {
  const auto prompt = uses_own_template(format) ? chat_template({source, "the template"},
                                                                nlohmann::ordered_json::object())
                                                : template_of(format);
  std::string out;
  for (const auto& x : conversations_of(line)) {
    const auto found = tokenize({.text = with, .prompt = prompt, .format = format}, x);
    std::int32_t at = 0;
    const auto add = [&](std::int32_t end) {
      out += with.decode(std::span(found.ids).subspan(std::size_t(at), std::size_t(end - at)));
      at = end;
    };
    for (const auto& [begin, end] : found.answers) {
      add(begin);
      out += '[';
      add(end);
      out += ']';
    }
    add(std::int32_t(found.ids.size()));
    out += '|';
  }
  return out;
}

void refuses(std::string_view line, const std::string& why, const char* source = marks) {
  INFO(line);
  CHECK_THROWS_MATCHES(shown(source, line), input_error, MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("answers are marked by the template, or are what the assistant adds", "[data]") {
  CHECK(shown(marks, talk) == "u:2+2?;a:[4;]u:And?;a:[No;]|");
  CHECK(shown(marks_nothing, talk) == "u:2+2?;a:[4;]u:And?;a:[No;]|");
}

TEST_CASE("ShareGPT's format is read, and a system message starts another conversation", "[data]") {
  CHECK(shown(marks, R"({"conversations": [{"from": "human", "value": "x"},
                                           {"from": "gpt", "value": "y"}]})")
        == "u:x;a:[y;]|");
  CHECK(shown(marks, R"({"messages": [
          {"role": "system", "content": "A"}, {"role": "user", "content": "b"},
          {"role": "assistant", "content": "c"}, {"role": "system", "content": "D"},
          {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]})")
        == "s:A;u:b;a:[c;]|s:D;u:e;a:[f;]|");
}

TEST_CASE("the names that programs give to assistants and tools are known", "[data]") {
  for (const std::string name : {"gpt", "chatgpt", "bing", "bard", "assistant"})
    CHECK(shown(marks,
                R"({"messages": null, "conversations": [{"from": "user", "value": "x"},
                    {"from": ")"
                    + name + R"(", "value": "y"}, {"from": "observation", "value": "z"}]})")
          == "u:x;a:[y;]t:z;|");
}

TEST_CASE("Alpaca's form is a question and an answer", "[data]") {
  CHECK(shown(marks, R"({"instruction": "Add", "input": "2+2", "output": "4"})")
        == "u:Add\n2+2;a:[4;]|");
  CHECK(shown(marks, R"({"instruction": "Hi", "input": "", "output": "Ho", "messages": null})")
        == "u:Hi;a:[Ho;]|");
  CHECK(shown(marks, R"({"instruction": null, "input": "Hi", "output": "Ho"})") == "u:Hi;a:[Ho;]|");
  CHECK(shown(marks, R"({"instruction": "c", "output": "d", "system": "s",
                         "history": [["a", "b"]]})")
        == "s:s;u:a;a:[b;]u:c;a:[d;]|");
  refuses(R"({"instruction": "Hi", "output": null})", "no answer with a text");
  refuses(R"({"instruction": "Hi", "output": 3})", "\"output\" is a JSON number, not a text");
  refuses(R"({"instruction": "a", "output": "b", "history": ["c"]})", "list of pairs of texts");
}

TEST_CASE("of prompt and completion only the completion is learnt", "[data]") {
  CHECK(shown(marks, R"({"prompt": "2+2?", "completion": "4"})") == "u:2+2?;a:[4;]|");
  constexpr const char* lists = R"({
    "prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
               {"role": "user", "content": "c"}],
    "completion": [{"role": "assistant", "content": "d"}]})";
  CHECK(shown(marks, lists) == "u:a;a:b;u:c;a:[d;]|");
  CHECK(shown(marks_nothing, lists) == "u:a;a:b;u:c;a:[d;]|");
  CHECK(shown("",
              R"({"prompt": "2+2=", "completion": "4"})",
              byte_tokenizer(),
              conversation_format::identity)
        == "2+2=[4]|");
  refuses(R"({"prompt": {"a": 1}, "completion": "b"})", "\"prompt\" is a JSON object");
  refuses(R"({"prompt": "a", "completion": ""})", "no answer with a text");
}

TEST_CASE("the error for an unknown form shows a right line of each form", "[data]") {
  std::string said;
  try {
    conversations_of(R"({"id": 3, "question": "2+2?"})");
  } catch (const input_error& e) {
    said = e.what();
  }
  CHECK_THAT(said, ContainsSubstring("it has the fields id, question"));
  std::size_t forms = 0;
  for (auto at = said.find('\n'); at != said.npos; ++forms) {
    const auto end = said.find('\n', at + 1);
    const auto line = said.substr(at + 1, end == said.npos ? end : end - at - 1);
    CHECK_THAT(shown(marks, line), ContainsSubstring("a:[4.;]|"));
    at = end;
  }
  CHECK(forms == 4);
  refuses("{}", "it has no fields");
  refuses("question,answer", "\"completion\": \"4.\"}");  // CSV
}

TEST_CASE("a conversation may begin with the assistant, and have answers without text", "[data]") {
  constexpr const char* first = R"({"messages": [{"role": "assistant", "content": "hello"},
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  CHECK(shown(marks, first) == "a:[hello;]u:a;a:[b;]|");
  CHECK(shown(marks_nothing, first) == "a:[hello;]u:a;a:[b;]|");
  constexpr const char* with_default
      = "{% if messages[0]['role'] != 'system' %}{{ 's:be good;' }}{% endif %}"
        "{% for m in messages %}{{ m['role'][0] + ':' + m['content'] + ';' }}{% endfor %}"
        "{% if add_generation_prompt %}a:{% endif %}";
  CHECK(shown(with_default, first) == "s:be good;a:[hello;]u:a;a:[b;]|");
  constexpr const char* empty = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": ""}, {"role": "user", "content": "b"},
    {"role": "assistant", "content": "c"}]})";
  CHECK(shown(marks, empty) == "u:a;a:[;]u:b;a:[c;]|");
  CHECK(shown(marks_nothing, empty) == "u:a;a:[;]u:b;a:[c;]|");
}

TEST_CASE("messages that other programs mark as not to be learnt are not", "[data]") {
  const auto line = [](const std::string& first, const std::string& second) {
    return R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "wrong")"
           + first + R"(}, {"role": "user", "content": "b"},
      {"role": "assistant", "content": "right")"
           + second + "}]}";
  };
  for (const std::string field :
       {R"(, "weight": )", R"(, "train": )", R"(, "training": )", R"(, "loss": )"}) {
    INFO(field);
    const auto no = field + (field.find("weight") != field.npos ? "0" : "false"),
               yes = field + (field.find("weight") != field.npos ? "1" : "true");
    CHECK(shown(marks, line(no, yes)) == "u:a;a:wrong;u:b;a:[right;]|");
    CHECK(shown(marks_nothing, line(no, yes)) == "u:a;a:wrong;u:b;a:[right;]|");
    CHECK(shown(marks, line("", no)) == "u:a;a:[wrong;]u:b;a:right;|");
    CHECK(shown(marks, line(yes, yes)) == "u:a;a:[wrong;]u:b;a:[right;]|");
    refuses(line(no, no), "no answer with a text that is to be learnt");
    refuses(line(field + "0.5", yes), "0 and 1 are supported");
  }
  refuses(line(R"(, "weight": 0, "train": true)", ""), "contradict");
  refuses(line(R"(, "train_detail": [{"begin_offset": 0}])", ""), "part of a message");
  refuses(R"({"messages": [{"role": "user", "content": "a", "train": true},
                           {"role": "assistant", "content": "b"}]})",
          "only the assistant's are learnt");
  CHECK_THROWS_WITH(
      shown(marks, line(R"(, "weight": 0)", ""), byte_tokenizer(), conversation_format::whole),
      ContainsSubstring("learns all tokens"));
}

TEST_CASE("a system text beside the list is the first message", "[data]") {
  constexpr const char* rest = R"("conversations": [{"from": "human", "value": "x"},
                                                    {"from": "gpt", "value": "y"}]})";
  CHECK(shown(marks, std::string(R"({"system": "rhyme", )") + rest) == "s:rhyme;u:x;a:[y;]|");
  for (const auto* none : {R"({"system": "", )", R"({"system": null, )", R"({"mask": "User", )"})
    CHECK(shown(marks, std::string(none) + rest) == "u:x;a:[y;]|");
  refuses(std::string(R"({"system": ["x"], )") + rest, "\"system\" is a JSON array");
  refuses(std::string(R"({"functions": [{"name": "f"}], )") + rest, "as \"tools\"");
  refuses(std::string(R"({"mask": "Assistant", )") + rest, "only \"User\"");
  refuses(std::string(R"({"chat_template_kwargs": {"a": 1}, )") + rest, "for all lines instead");
  const auto twice = [](const char* text) {
    return std::string(R"({"system": "rhyme", "messages": [{"role": "system", "content": ")") + text
           + R"("}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})";
  };
  CHECK(shown(marks, twice("rhyme")) == "s:rhyme;u:x;a:[y;]|");
  refuses(twice("prose"), "differs from");
}

TEST_CASE("unused fields are reported", "[data]") {
  const auto line = R"({"id": 7, "score": NaN, "tools": null, "extra": 1e400, "messages": [
    {"role": "user", "content": "a", "name": "me"},
    {"role": "assistant", "content": "b", "weight": 1, "mood": "bad", "note": ""}]})";
  const auto found = conversations_of(line);
  REQUIRE(found.size() == 1);
  CHECK(found.front().unread == std::set<std::string>{"id"});  // null for what Python writes
  CHECK(unread_fields_of_messages(found.front().messages, "{{ m['name'] }}")
        == std::set<std::string>{"mood"});
}

TEST_CASE("a token across the border of an answer belongs to it", "[data]") {
  CHECK(shown(marks, talk, byte_tokenizer(":4")) == "u:2+2?;a[:4;]u:And?;a:[No;]|");
  CHECK(shown(marks, talk, byte_tokenizer(";u")) == "u:2+2?;a:[4;u]:And?;a:[No;]|");
}

TEST_CASE("Megatron-LM's formats mark the tokens that it trains on", "[data]") {
  constexpr const char* line = R"({"messages": [{"role": "system", "content": " be /think "},
    {"role": "user", "content": "q "}, {"role": "assistant", "content": " a"}]})";
  const byte_tokenizer bytes;
  CHECK(shown("", line, bytes, conversation_format::nemotron_h_aligned)
        == "<SPECIAL_10>System\nbe /think\n<SPECIAL_11>User\nq\n<SPECIAL_11>Assistant\n[a\n]|");
  CHECK(shown("", line, bytes, conversation_format::nemotron_nano_v2)
        == "<SPECIAL_10>System\nbe\n<SPECIAL_11>User\nq\n<SPECIAL_11>Assistant\n[a\n"
           "<SPECIAL_12>\n]|");
  CHECK(shown("", line, bytes, conversation_format::identity) == " be /think q [ a]|");
  CHECK(shown(marks_nothing, line, bytes, conversation_format::whole)
        == "[s: be /think ;u:q ;a: a;]|");
}

TEST_CASE("a line that is not a conversation with an answer is refused", "[data]") {
  refuses("{", "not JSON");
  refuses("[1]", "array, not an object");
  refuses(R"({"messages": []})", "list of messages is empty");
  refuses(R"({"messages": null})", "list of messages is empty");
  refuses(R"({"messages": "x"})", "its \"messages\" is a JSON string, not a list");
  refuses(R"({"messages": [3]})", "message 1 is not a JSON object");
  refuses(R"({"messages": [{"role": "robot", "content": "x"}]})", "'robot'");
  refuses(R"({"messages": [{"content": "x"}]})", "no text under \"role\"");
  refuses(R"({"messages": [{"role": "user"}]})", "no text under \"content\"");
  refuses(R"({"messages": [{"role": "user", "content": "x"}]})", "no message of the role");
  refuses(R"({"messages": [{"role": "assistant", "content": ""}]})", "no answer with a text");
  refuses(R"({"messages": [{"role": "assistant", "content": null}]})", "no answer with a text");
  refuses(std::string(200, '['), "nested 200 deep");
}

TEST_CASE("an error shows the beginning of a long line", "[data]") {
  const auto size_of_refusal = [](const std::string& line) {
    try {
      conversations_of(line);
    } catch (const input_error& e) {
      return std::string_view(e.what()).size();
    }
    return std::size_t{0};
  };
  const std::string word(100000, 'x');
  const auto broken = size_of_refusal(R"({"messages": [{"role": ")" + word),
             unknown = size_of_refusal(R"({"messages": [{"role": ")" + word + R"("}]})");
  CHECK((broken > 100 && broken < 500));
  CHECK((unknown > 100 && unknown < 500));
}

TEST_CASE("reading a conversation with many answers can be cancelled", "[data]") {
  const chat_template prompt({marks_nothing, "the template"}, nlohmann::ordered_json::object());
  const byte_tokenizer bytes;
  const conversation_rules by{.text = bytes, .prompt = prompt};
  const auto x = conversations_of(talk).front();
  CHECK_NOTHROW(tokenize(by, x));
  by.stop.cancel();
  CHECK_THROWS_AS(tokenize(by, x), cancelled);
}

TEST_CASE("a template that rewrites earlier messages has to mark the answers", "[data]") {
  constexpr const char* rewrites
      = "{% for m in messages %}{{ m['role'][0] + ':' }}"
        "{{ m['content'] if loop.last else '' }};{% endfor %}";
  refuses(talk, "up to message 2", rewrites);
  constexpr const char* leaves_out
      = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}"
        "{% endfor %}";
  refuses(talk, "no token of an answer", leaves_out);
}

TEST_CASE("CONVERSATION-1: a format of the folder's template has no other", "[data][invariant]") {
  CHECK_THROWS(template_of(conversation_format::whole));
}
