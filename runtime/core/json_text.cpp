#include "runtime/core/json_text.hpp"

#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

template <class Json>
std::string replacing(const Json& value, int indent, json_characters characters) {
  return value.dump(
      indent, ' ', characters == json_characters::ascii, Json::error_handler_t::replace);
}

}  // namespace

int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return deepest;
}

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

std::optional<std::int64_t> whole_number_in(const nlohmann::json& value) {
  if (!value.is_number_integer())
    return std::nullopt;
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>()))
    return std::nullopt;
  return value.get<std::int64_t>();
}

std::string json_complaint(const nlohmann::json::exception& failure) {
  const std::string_view all = failure.what();  // "[json.exception.parse_error.101] parse error at"
  const auto end = all.starts_with("[json.exception.") ? all.find("] ") : std::string_view::npos;
  return shortened(end == std::string_view::npos ? all : all.substr(end + 2), 300);
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
