// Forms of conversations in files: converts those without a list of messages.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Converts a line of one of these forms to {"messages": [{"role": R, "content": TEXT}, ...]}:
///
///   {"instruction": TEXT, "input": TEXT, "output": TEXT}   Alpaca. The user's message joins
///                                                          "instruction" and "input" by a line
///                                                          end. "history": pairs of earlier turns
///   {"prompt": X, "completion": X}                         X: a text, or a list of messages. Only
///                                                          the completion has a loss
///
/// Returns other lines as they are. A field that is null counts as absent. Throws input_error for
/// fields of other types.
nlohmann::ordered_json with_messages(nlohmann::ordered_json line);

/// The value of "messages" or "conversations", a list or null.
struct message_list {
  std::string_view name;
  const nlohmann::ordered_json& value;
};

/// Finds the list in a line that `with_messages` returned. Throws like refuse_form for a line
/// without one.
message_list list_of_messages(const nlohmann::ordered_json& line);

/// Throws input_error with `what` and an example of each form.
[[noreturn]] void refuse_form(const std::string& what);

}  // namespace troupe::runtime
