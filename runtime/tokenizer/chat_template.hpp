// The template of a model that turns a conversation into its prompt, from a folder of the Hugging
// Face Hub. Prompts are those of transformers' apply_chat_template (docs/formats/chat_template.md).

#pragma once

#include "runtime/template/jinja_template.hpp"

#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::runtime {

/// What a folder says, before a template is chosen and read.
struct chat_templates {
  struct source {
    std::string text;
    std::string name;  ///< how messages call it
  };
  std::map<std::string, source> by_name;  ///< "default", "tool_use", ...; none: no chat model
  nlohmann::ordered_json special_tokens;  ///< "bos_token" and so on, each a text
};

/// Of chat_template.jinja and additional_chat_templates/*.jinja, or where there are neither, of
/// "chat_template" in tokenizer_config.json. Throws input_error for files that are not what they
/// should be.
chat_templates chat_templates_in(const std::filesystem::path& folder);

struct chat_request {
  nlohmann::ordered_json messages;  ///< objects with "role", "content", "tool_calls" and so on
  nlohmann::ordered_json tools = nullptr, documents = nullptr;          ///< lists, or null
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< further names
  bool add_generation_prompt = false;
  std::string continue_field = {};  ///< of the last message, which the prompt leaves open
  std::time_t now = 0;              ///< for templates that tell the date
};

/// Every const method may be called from several threads at once.
class chat_template {
 public:
  /// Throws input_error that names what the template has and Troupe does not support.
  chat_template(const chat_templates::source& from, nlohmann::ordered_json special_tokens);

  /// Throws input_error for messages that are no conversation, and for what the template refuses.
  rendered_template render(chat_request of) const;

  const std::string& source() const { return source_; }

 private:
  nlohmann::ordered_json given_to_template(chat_request of) const;

  std::string source_;
  jinja_template template_;
  nlohmann::ordered_json special_tokens_;
};

/// The template `name` of a folder; of an empty name "tool_use", where there are tools and such a
/// template, else "default". Throws input_error where there is none, naming those that there are.
chat_template choose_chat_template(const chat_templates& among,
                                   const std::filesystem::path& folder,
                                   const std::string& name,
                                   bool tools);

}  // namespace troupe::runtime
