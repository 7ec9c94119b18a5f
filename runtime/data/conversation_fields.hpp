// Fields of conversations that other programs write: which are obeyed, which are refused, and which
// nothing reads.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Whether a message is to be learnt: "weight" of OpenAI and Mistral, "train" and "training" of
/// axolotl, "loss" of ms-swift; nothing where it has none of these. Throws input_error where they
/// contradict each other or are neither 0 nor 1, and where a part of the message is to be learnt.
std::optional<bool> is_to_be_learnt(const nlohmann::ordered_json& message, std::size_t number);

/// The message for the system text beside the list of messages, as LLaMA-Factory and NeMo write it;
/// null where there is none. Throws input_error where it is no text, or another one than that of
/// the first message.
nlohmann::ordered_json system_message_of(const nlohmann::ordered_json& line);

/// Throws input_error for a field of a line that changes what is learnt and is not supported.
void refuse_fields_of_line(const nlohmann::ordered_json& line);

/// Names of fields of a line that nothing reads. `list` has the messages.
std::set<std::string> unread_fields_of_line(const nlohmann::ordered_json& line,
                                            std::string_view list);

/// Names of fields of messages that neither Troupe reads nor the template, whose text is given.
std::set<std::string> unread_fields_of_messages(const nlohmann::ordered_json& messages,
                                                std::string_view template_text);

}  // namespace troupe::runtime
