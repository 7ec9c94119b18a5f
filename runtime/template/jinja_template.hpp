// A Jinja template for chat prompts: the subset of Jinja2 that chat templates use, configured as in
// Hugging Face Transformers (trim_blocks, lstrip_blocks, an immutable sandbox, break and continue,
// {% generation %}). Supported constructs: docs/formats/chat_template.md. Independent of
// conversations and tokenizers.
//
// Templates are untrusted input: parsing and rendering end within jinja::limits, access no files,
// and have no side effects.

#pragma once

#include "runtime/template/evaluator.hpp"

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct rendered_template {
  std::string text;                            ///< UTF-8
  std::vector<jinja::text_range> generations;  ///< bytes of {% generation %} blocks, ascending
};

/// Const methods may be called from several threads at once.
class jinja_template {
 public:
  /// `name` is used in messages, for example "the chat template 'DIR/chat_template.jinja'". Throws
  /// input_error with the construct and its line for invalid or unsupported templates.
  jinja_template(std::string_view source, std::string name, const jinja::limits& may = {});

  /// `variables`: an object with the variables of the template; `now`: the time of strftime_now,
  /// printed in the local time zone. Throws input_error with the line for errors of Jinja, for
  /// raise_exception (with its message), and beyond the limits.
  rendered_template render(const nlohmann::ordered_json& variables, std::time_t now) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  jinja::limits may_;
  std::shared_ptr<const jinja::statements> tree_;
};

}  // namespace troupe::runtime
