// A Jinja template of the kind that turns a conversation into a prompt: the part of Jinja2 that
// such templates use, set up as transformers does (trim_blocks, lstrip_blocks, an immutable
// sandbox, break and continue, {% generation %}). docs/formats/chat_template.md says what is
// supported. Nothing here knows what a conversation or a tokenizer is.
//
// Templates come from strangers: whatever one says, reading and rendering it end within
// jinja::limits, touch no file, and change nothing but what they return.

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

/// Every const method may be called from several threads at once.
class jinja_template {
 public:
  /// `name` is how messages call it, "the chat template 'DIR/chat_template.jinja'" for instance.
  /// Throws input_error that names the construct and its line for what is no template, or not
  /// supported.
  jinja_template(std::string_view source, std::string name, const jinja::limits& may = {});

  /// `variables`: an object, the names that the template sees; `now`: the time of strftime_now,
  /// told in the local time zone. Throws input_error that names the line: for what Jinja refuses,
  /// for raise_exception with its message, and beyond the limits.
  rendered_template render(const nlohmann::ordered_json& variables, std::time_t now) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  jinja::limits may_;
  std::shared_ptr<const jinja::statements> tree_;
};

}  // namespace troupe::runtime
