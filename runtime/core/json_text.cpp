#include "runtime/core/json_text.hpp"

#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

template <class Json>
std::string replacing(const Json& value, int indent, json_characters characters) {
  return value.dump(
      indent, ' ', characters == json_characters::ascii, Json::error_handler_t::replace);
}

/// Whether the word is a number of JSON that nlohmann's parser cannot hold.
bool is_beyond_double(const std::string& word) {
  char* end = nullptr;
  const double x = std::strtod(word.c_str(), &end);
  return end == word.c_str() + word.size() && std::isinf(x)
         && word.find_first_not_of("+-.0123456789eE") == std::string::npos;
}

/// Replaces words that Python's json module reads as numbers, and JSON does not have, by null.
std::string without_python_numbers(std::string_view text) {
  constexpr std::string_view of_words
      = "+-.0123456789"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t size = 1;
    if (text.front() == '"') {
      while (size < text.size() && text[size] != '"')
        size += text[size] == '\\' ? 2 : 1;
      size = std::min(size + 1, text.size());
    } else if (of_words.find(text.front()) != std::string_view::npos) {
      size = std::min(text.find_first_not_of(of_words), text.size());
    }
    const std::string word(text.substr(0, size));
    const bool python = word == "NaN" || word == "Infinity" || word == "-Infinity";
    out += python || is_beyond_double(word) ? "null" : word;
    text.remove_prefix(size);
  }
  return out;
}

template <class Json>
Json value_of_record(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception&) {
    const auto changed = without_python_numbers(text);
    if (changed == text)
      throw;
    const auto out = Json::parse(changed, nullptr, false);
    if (out.is_discarded())
      throw;  // keeps the error with the position in the original text
    return out;
  }
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

nlohmann::json json_value_of_record(std::string_view text) {
  return value_of_record<nlohmann::json>(text);
}

nlohmann::ordered_json ordered_json_value_of_record(std::string_view text) {
  return value_of_record<nlohmann::ordered_json>(text);
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
