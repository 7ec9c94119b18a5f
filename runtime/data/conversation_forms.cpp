#include "runtime/data/conversation_forms.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"

#include <initializer_list>
#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

using ordered = nlohmann::ordered_json;

bool has_field(const ordered& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && !found->is_null();
}

/// Both fields are present, one of them is not null.
bool has_form(const ordered& line, const char* question, const char* answer) {
  return line.contains(question) && line.contains(answer)
         && (has_field(line, question) || has_field(line, answer));
}

std::string text_under(const ordered& line, const char* key) {
  if (!has_field(line, key))
    return {};
  if (!line[key].is_string())
    throw input_error("its \"{}\" is a JSON {}, not a text", key, line[key].type_name());
  return line[key].get<std::string>();
}

void add_text(ordered& messages, const char* role, std::string text) {
  messages.push_back({{"role", role}, {"content", std::move(text)}});
}

ordered messages_of_alpaca(const ordered& line) {
  ordered out = ordered::array();
  if (has_field(line, "history")) {
    const auto require = [](bool good) {
      if (!good)
        throw input_error("its \"history\" is not a list of pairs of texts, question and answer");
    };
    require(line["history"].is_array());
    for (const auto& turn : line["history"]) {
      require(turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string());
      add_text(out, "user", turn[0].get<std::string>());
      add_text(out, "assistant", turn[1].get<std::string>());
    }
  }
  auto question = text_under(line, "instruction");
  const auto input = text_under(line, "input");
  if (!question.empty() && !input.empty())
    question += "\n";  // as LLaMA-Factory does
  add_text(out, "user", question + input);
  add_text(out, "assistant", text_under(line, "output"));
  return out;
}

void add_part(const ordered& line, const char* key, const char* role, ordered& to) {
  if (has_field(line, key) && line[key].is_array())
    to.insert(to.end(), line[key].begin(), line[key].end());
  else
    add_text(to, role, text_under(line, key));
}

ordered messages_of_prompt(const ordered& line) {
  ordered out = ordered::array();
  add_part(line, "prompt", "user", out);
  for (auto& message : out)
    if (message.is_object() && message.value("role", ordered()) == "assistant")
      message["weight"] = 0;
  add_part(line, "completion", "assistant", out);
  return out;
}

ordered replaced(ordered line, std::initializer_list<const char*> fields, ordered messages) {
  for (const auto* field : fields)
    line.erase(field);
  line["messages"] = std::move(messages);
  return line;
}

constexpr const char* forms = R"(
  {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4."}]}
  {"conversations": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4."}]}
  {"instruction": "Add.", "input": "2+2", "output": "4."}
  {"prompt": "2+2?", "completion": "4."})";

std::string fields_of(const ordered& line) {
  std::string out;
  for (const auto& [key, value] : line.items())
    out += (out.empty() ? "" : ", ") + shortened(key, 80);
  return out.empty() ? "no fields" : "the fields " + shortened(out, 300);
}

}  // namespace

ordered with_messages(ordered line) {
  if (!line.is_object() || has_field(line, "messages") || has_field(line, "conversations"))
    return line;
  if (has_form(line, "instruction", "output")) {
    auto messages = messages_of_alpaca(line);
    return replaced(
        std::move(line), {"instruction", "input", "output", "history"}, std::move(messages));
  }
  if (has_form(line, "prompt", "completion")) {
    auto messages = messages_of_prompt(line);
    return replaced(std::move(line), {"prompt", "completion"}, std::move(messages));
  }
  return line;
}

void refuse_form(const std::string& what) {
  throw input_error("{}; give one of these forms:{}", what, forms);
}

message_list list_of_messages(const ordered& line) {
  if (!line.is_object())
    refuse_form(fmt::format("it is a JSON {}, not an object", line.type_name()));
  const bool shared = !has_field(line, "messages")
                      && (has_field(line, "conversations") || !line.contains("messages"));
  const std::string name = shared ? "conversations" : "messages";
  const auto list = line.find(name);
  if (list == line.end())
    refuse_form(fmt::format("it is not a conversation: it has {}", fields_of(line)));
  if (!list->is_array() && !list->is_null())
    refuse_form(fmt::format("its \"{}\" is a JSON {}, not a list", name, list->type_name()));
  return {shared ? "conversations" : "messages", *list};
}

}  // namespace troupe::runtime
