// Chat templates of a Hugging Face Hub folder: they render a conversation to a prompt. Prompts
// equal those of transformers' apply_chat_template (docs/formats/chat_template.md).

#pragma once

#include "runtime/template/jinja_template.hpp"

#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::runtime {

/// All templates of a folder.
struct chat_templates {
  struct source {
    std::string text;
    std::string name;  ///< shown in error messages
  };
  std::map<std::string, source> by_name;  ///< "default", "tool_use", ...; empty: not a chat model
  nlohmann::ordered_json special_tokens;  ///< values of "bos_token", "eos_token", ...
};

/// Reads chat_template.jinja and additional_chat_templates/*.jinja. If both are missing, reads
/// "chat_template" in tokenizer_config.json. Throws input_error for malformed files.
chat_templates chat_templates_in(const std::filesystem::path& folder);

struct chat_request {
  nlohmann::ordered_json messages;  ///< objects with "role", "content", "tool_calls", ...
  nlohmann::ordered_json tools = nullptr, documents = nullptr;  ///< arrays or null
  nlohmann::ordered_json variables
      = nlohmann::ordered_json::object();  ///< additional template variables
  bool add_generation_prompt = false;
  std::string continue_field = {};  ///< field of the last message to continue; empty: none
  std::time_t now = 0;              ///< for templates that print the date
};

/// A parsed template with its special tokens. Const methods are thread-safe.
class chat_template {
 public:
  /// Throws input_error with the unsupported element of the template.
  chat_template(const chat_templates::source& from, nlohmann::ordered_json special_tokens);

  /// Throws input_error if the messages are not a conversation or the template rejects them.
  rendered_template render(chat_request of) const;

  const std::string& source() const { return source_; }

 private:
  nlohmann::ordered_json given_to_template(chat_request of) const;

  std::string source_;
  jinja_template template_;
  nlohmann::ordered_json special_tokens_;
};

/// Returns the template `name`. An empty name selects "tool_use" if there are tools and such a
/// template, else "default". If the template is missing, throws input_error with the available
/// names.
chat_template choose_chat_template(const chat_templates& among,
                                   const std::filesystem::path& folder,
                                   const std::string& name,
                                   bool tools);

}  // namespace troupe::runtime
