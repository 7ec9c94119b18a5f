#include "runtime/tokenizer/chat_template.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;
using ordered = nlohmann::ordered_json;

constexpr std::array<const char*, 7> special_names
    = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
/// Field names of a message's reasoning. Templates read the first.
constexpr std::array<const char*, 3> reasoning_names
    = {"reasoning_content", "thinking", "reasoning"};

bool file_exists(const fs::path& file) {
  std::error_code failure;
  return fs::exists(file, failure);
}

/// Reads the JSON object in a file; empty if the file does not exist.
ordered object_in(const fs::path& file) {
  if (!file_exists(file))
    return ordered::object();
  try {
    auto content = ordered_json_value(read_text(file));
    if (content.is_object())
      return content;
  } catch (const nlohmann::json::exception&) {
  }
  throw input_error("cannot use '{}': it is not a JSON object; was it downloaded whole?",
                    file.string());
}

void add_special_tokens(ordered& to, const ordered& from, const fs::path& file) {
  for (const auto* name : special_names) {
    const auto at = from.find(name);
    if (at == from.end() || at->is_null())
      continue;
    const auto* content = &*at;
    if (at->is_object() && at->contains("content"))
      content = &at->at("content");
    if (!content->is_string())
      throw input_error("cannot use '{}': \"{}\" must be a string or an object with \"content\"",
                        file.string(),
                        name);
    to[name] = *content;
  }
}

void add_named(chat_templates& to, const ordered& list, const fs::path& file) {
  for (const auto& one : list) {
    const auto text = [&](const char* key) {
      const auto at = one.is_object() ? one.find(key) : one.end();
      if (!one.is_object() || at == one.end() || !at->is_string())
        throw input_error(
            "cannot use '{}': an element of \"chat_template\" has no \"{}\"", file.string(), key);
      return at->get<std::string>();
    };
    const auto name = text("name");
    to.by_name[name]
        = {text("template"), fmt::format("the chat template \"{}\" of '{}'", name, file.string())};
  }
}

void add_configured(chat_templates& to, const ordered& config, const fs::path& file) {
  const auto at = config.find("chat_template");
  if (at == config.end() || at->is_null())
    return;
  if (at->is_string())
    to.by_name["default"]
        = {at->get<std::string>(), fmt::format("the chat template of '{}'", file.string())};
  else if (at->is_array())
    add_named(to, *at, file);
  else
    throw input_error("cannot use '{}': \"chat_template\" must be a string or a list",
                      file.string());
}

void add_file(chat_templates& to, const fs::path& file, const std::string& name) {
  to.by_name[name] = {read_text(file), fmt::format("the chat template '{}'", file.string())};
}

void require_shallow(const ordered& of, const char* what, int depth = 0) {
  if (depth > jinja::maximum_depth)
    throw input_error("{} have more than {} levels", what, jinja::maximum_depth);
  if (of.is_structured())
    for (const auto& item : of)
      require_shallow(item, what, depth + 1);
}

void require_objects(const ordered& of, const char* what) {
  if (!of.is_array())
    throw input_error("{} must be a JSON list of objects", what);
  for (std::size_t i = 0; i < of.size(); ++i)
    if (!of[i].is_object())
      throw input_error("{} must be JSON objects: number {} is not", what, i + 1);
}

/// Drops null fields and stores the reasoning under the names that templates read.
ordered message_for_template(const ordered& from) {
  ordered out = ordered::object(), reasoning;
  for (const auto* name : reasoning_names)
    if (const auto at = from.find(name); reasoning.is_null() && at != from.end())
      reasoning = *at;
  if (!reasoning.is_null())
    out["thinking"] = reasoning;
  for (const auto& item : from.items())
    if (!item.value().is_null())
      out[item.key()] = item.value();
  if (!reasoning.is_null())
    out["reasoning_content"] = reasoning;
  return out;
}

/// Marks the end of the last message, so that the prompt can be cut there.
class open_end {
 public:
  open_end(ordered& last, std::string field, const std::string& source) : field_(std::move(field)) {
    const auto at = last.find(field_);
    if (at == last.end())
      fail("the last message has none");
    auto fields = std::vector<std::string>{field_};
    if (std::find(reasoning_names.begin(), reasoning_names.end(), field_)
        != reasoning_names.end()) {
      const ordered final = *at;
      fields.clear();
      for (const auto* name : reasoning_names)
        if (last.contains(name) && last[name] == final)
          fields.emplace_back(name);
    }
    if (std::none_of(fields.begin(), fields.end(), [&](const std::string& name) {
          return source.find(name) != std::string::npos;
        }))
      fail("the template does not read it");
    if (last[field_].is_array())
      mark(last_text(last[field_]));
    else
      for (const auto& name : fields)
        mark(last[name]);
  }

  void cut(std::string& text) const {
    const auto bare = jinja::stripped(tag);
    const auto at = text.rfind(bare);
    if (at == std::string::npos || text.find(jinja::stripped(final_)) == std::string::npos)
      fail("the template changes or omits it");
    const bool spaced = text.compare(at, tag.size(), tag) == 0;
    text.resize(at);
    if (!spaced)  // the template stripped the message
      text.resize(jinja::stripped(text, jinja::side::right).size());
  }

 private:
  static constexpr std::string_view tag = "CONTINUE_FINAL_MESSAGE_TAG ";

  [[noreturn]] void fail(const char* why) const {
    throw input_error("cannot continue the \"{}\" of the last message: {}", field_, why);
  }

  ordered& last_text(ordered& parts) const {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      if (part->is_object() && part->contains("text"))
        return (*part)["text"];
    fail("it has no text part");
  }

  void mark(ordered& text) {
    if (!text.is_string())
      fail("it is not a string");
    final_ = text.get<std::string>();
    text = final_ + std::string(tag);
  }

  std::string field_, final_;
};

}  // namespace

chat_templates chat_templates_in(const fs::path& folder) {
  chat_templates out;
  const auto file = folder / "tokenizer_config.json";
  const auto config = object_in(file);
  out.special_tokens = ordered::object();
  add_special_tokens(out.special_tokens, config, file);
  if (const auto map = folder / "special_tokens_map.json"; !config.contains("added_tokens_decoder"))
    add_special_tokens(out.special_tokens, object_in(map), map);
  if (const auto own = folder / "chat_template.jinja"; file_exists(own))
    add_file(out, own, "default");
  if (const auto more = folder / "additional_chat_templates"; file_exists(more)) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(more, failure))
      if (entry.path().extension() == ".jinja")
        add_file(out, entry.path(), entry.path().stem().string());
    if (failure)
      throw io_error("cannot list '{}': {}", more.string(), failure.message());
  }
  if (out.by_name.empty())
    add_configured(out, config, file);
  return out;
}

chat_template choose_chat_template(const chat_templates& among,
                                   const fs::path& folder,
                                   const std::string& name,
                                   bool tools) {
  if (among.by_name.empty())
    throw input_error(
        "'{}' has no chat template: neither chat_template.jinja nor \"chat_template\" in "
        "tokenizer_config.json; is it the folder of a chat model?",
        folder.string());
  const auto wanted = !name.empty()                                 ? name
                      : tools && among.by_name.contains("tool_use") ? "tool_use"
                                                                    : "default";
  const auto found = among.by_name.find(wanted);
  if (found != among.by_name.end())
    return {found->second, among.special_tokens};
  std::string names;
  for (const auto& one : among.by_name)
    names += (names.empty() ? "" : ", ") + one.first;
  throw input_error("'{}' has no chat template \"{}\", only {}", folder.string(), wanted, names);
}

chat_template::chat_template(const chat_templates::source& from, ordered special_tokens)
    : source_(from.text),
      template_(from.text, from.name),
      special_tokens_(std::move(special_tokens)) {}

ordered chat_template::given_to_template(chat_request of) const {
  auto out = special_tokens_;
  for (const auto& item : of.variables.items()) {
    for (const auto* own : {"messages", "tools", "documents", "add_generation_prompt"})
      if (item.key() == own)
        throw input_error("cannot set the variable '{}': it has its own setting", own);
    out[item.key()] = item.value();
  }
  out["messages"] = std::move(of.messages);
  out["tools"] = std::move(of.tools);
  out["documents"] = std::move(of.documents);
  out["add_generation_prompt"] = of.add_generation_prompt;
  return out;
}

rendered_template chat_template::render(chat_request of) const {
  require_objects(of.messages, "messages");
  require_shallow(of.messages, "messages");
  if (of.messages.empty())
    throw input_error("messages are empty: at least one is needed");
  for (const auto* more : {&of.tools, &of.documents})
    if (!more->is_null()) {
      require_objects(*more, more == &of.tools ? "tools" : "documents");
      require_shallow(*more, more == &of.tools ? "tools" : "documents");
    }
  require_shallow(of.variables, "variables");
  for (auto& message : of.messages)
    message = message_for_template(message);
  if (of.continue_field.empty())
    return template_.render(given_to_template(of), of.now);
  if (of.add_generation_prompt)
    throw input_error(
        "a prompt cannot both continue the last message and begin a new one: leave out one of the "
        "continuation and the generation prompt");
  const open_end end(of.messages.back(), of.continue_field, source_);
  const auto now = of.now;
  auto out = template_.render(given_to_template(std::move(of)), now);
  end.cut(out.text);
  for (auto& range : out.generations)
    range = {std::min(range.begin, out.text.size()), std::min(range.end, out.text.size())};
  return out;
}

}  // namespace troupe::runtime
