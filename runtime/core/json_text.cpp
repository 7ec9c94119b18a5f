#include "runtime/core/json_text.hpp"

namespace troupe::runtime {
namespace {

template <class Json>
std::string replacing(const Json& value, int indent, json_characters characters) {
  return value.dump(
      indent, ' ', characters == json_characters::ascii, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json json_value(std::string_view text) {
  return nlohmann::json::parse(text);
}

nlohmann::ordered_json ordered_json_value(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json json_value(std::string_view text, const nlohmann::json::parser_callback_t& keep) {
  return nlohmann::json::parse(text, keep);
}

nlohmann::json json_value_or_discarded(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent);
}

std::string json_text_replacing(const nlohmann::json& value,
                                int indent,
                                json_characters characters) {
  return replacing(value, indent, characters);
}

std::string json_text_replacing(const nlohmann::ordered_json& value,
                                int indent,
                                json_characters characters) {
  return replacing(value, indent, characters);
}

}  // namespace troupe::runtime
