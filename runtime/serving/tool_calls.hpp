// Calls of tools in a generated text, as the chat templates of Hermes and Qwen teach models:
// <tool_call>{"name": ..., "arguments": {...}}</tool_call>.

#pragma once

#include "runtime/serving/request_fields.hpp"

#include <string>
#include <string_view>

namespace troupe::runtime::serving {

inline constexpr const char* begin_of_tool_call = "<tool_call>";

struct text_with_calls {
  std::string text;  ///< before the first call
  json calls;        ///< OpenAI's tool_calls; empty if the text has none, or a malformed one
};

/// `id`: of the answer; the ids of calls begin with it. A malformed call leaves the text whole.
text_with_calls tool_calls_in(const std::string& text, const std::string& id);

}  // namespace troupe::runtime::serving
