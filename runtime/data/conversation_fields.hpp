// Fields that other programs write into conversations: supported, refused, or ignored.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Whether a message has a loss. Reads "weight" (OpenAI, Mistral), "train" and "training" (axolotl)
/// and "loss" (ms-swift); returns nullopt without these fields. Throws input_error when they
/// contradict each other, when a value is not 0 or 1, and when only a part of the message has a
/// loss.
std::optional<bool> is_to_be_learnt(const nlohmann::ordered_json& message, std::size_t number);

/// The message for a "system" field beside the list of messages, as LLaMA-Factory and NeMo write
/// it; null without the field. Throws input_error when it is not a string, or differs from a system
/// message at the front of the list.
nlohmann::ordered_json system_message_of(const nlohmann::ordered_json& line);

/// Throws input_error for an unsupported field of a line that would change the loss.
void refuse_fields_of_line(const nlohmann::ordered_json& line);

/// Names of the ignored fields of a line. `list` is the name of the field with the messages.
std::set<std::string> unread_fields_of_line(const nlohmann::ordered_json& line,
                                            std::string_view list);

/// Names of the fields of messages that Troupe and the template ignore.
std::set<std::string> unread_fields_of_messages(const nlohmann::ordered_json& messages,
                                                std::string_view template_text);

}  // namespace troupe::runtime
