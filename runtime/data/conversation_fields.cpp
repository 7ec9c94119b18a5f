#include "runtime/data/conversation_fields.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <array>

namespace troupe::runtime {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> learning = {"weight", "train", "training", "loss"};
constexpr std::array<std::string_view, 2> partly = {"train_detail", "training_detail"};
constexpr std::array<std::string_view, 4> of_messages = {"role", "content", "from", "value"};
constexpr std::array<std::string_view, 4> of_lines = {"tools", "system", "mask", "functions"};

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The value of a field; nullptr when it is absent, null or empty.
const ordered* said(const ordered& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  const bool empty = found == object.end() || found->is_null()
                     || (found->is_string() && found->get_ref<const std::string&>().empty())
                     || (found->is_structured() && found->empty());
  return empty ? nullptr : &*found;
}

std::string shown(const ordered& value) {
  return shortened(json_text_replacing(value), 80);
}

}  // namespace

std::optional<bool> is_to_be_learnt(const ordered& message, std::size_t number) {
  std::optional<bool> out;
  std::string_view by;
  for (const auto name : learning) {
    const auto* const value = said(message, name);
    if (value == nullptr)
      continue;
    const bool yes = *value == true || *value == 1, no = *value == false || *value == 0;
    if (!yes && !no)
      throw input_error(
          "its message {} has the \"{}\" {}: 0 and 1 are supported", number, name, shown(*value));
    if (out && *out != yes)
      throw input_error(
          "its message {} has a \"{}\" and a \"{}\" that contradict each other", number, by, name);
    out = yes;
    by = name;
  }
  for (const auto name : partly)
    if (said(message, name) != nullptr)
      throw input_error(
          "its message {} has a \"{}\": learning a part of a message is not supported",
          number,
          name);
  return out;
}

ordered system_message_of(const ordered& line) {
  const auto* const text = said(line, "system");
  if (text == nullptr)
    return nullptr;
  if (!text->is_string())
    throw input_error("its \"system\" is a JSON {}, not a text", text->type_name());
  for (const auto* list : {"messages", "conversations"}) {
    const auto* const messages = said(line, list);
    if (messages == nullptr || !messages->is_array() || !messages->front().is_object())
      continue;
    const auto& first = messages->front();
    const auto is_system = [&](const char* key) {
      const auto* const role = said(first, key);
      return role != nullptr && *role == "system";
    };
    if (!is_system("role") && !is_system("from"))
      break;
    const auto* const content = said(first, is_system("role") ? "content" : "value");
    if (content != nullptr && *content == *text)
      return nullptr;
    throw input_error(
        "its \"system\" differs from the system message at the front of its list: remove one of "
        "them");
  }
  return {{"role", "system"}, {"content", *text}};
}

void refuse_fields_of_line(const ordered& line) {
  if (said(line, "functions") != nullptr)
    throw input_error("its \"functions\" are not supported: give them as \"tools\"");
  if (said(line, "chat_template_kwargs") != nullptr)
    throw input_error(
        "its \"chat_template_kwargs\" are not supported: set variables of the template for all "
        "lines instead");
  if (const auto* const mask = said(line, "mask"); mask != nullptr && *mask != "User")
    throw input_error(
        "its \"mask\" is {}: only \"User\" is supported, which learns the answers of the assistant",
        shown(*mask));
}

std::set<std::string> unread_fields_of_line(const ordered& line, std::string_view list) {
  std::set<std::string> out;
  for (const auto& [key, value] : line.items())
    if (key != list && !has(of_lines, key) && said(line, key) != nullptr)
      out.insert(shortened(key, 80));
  return out;
}

std::set<std::string> unread_fields_of_messages(const ordered& messages,
                                                std::string_view template_text) {
  std::set<std::string> out;
  for (const auto& message : messages)
    for (const auto& [key, value] : message.items())
      if (!has(of_messages, key) && !has(learning, key) && said(message, key) != nullptr
          && template_text.find(key) == std::string_view::npos)
        out.insert(shortened(key, 80));
  return out;
}

}  // namespace troupe::runtime
