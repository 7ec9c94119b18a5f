// Reads fields of records into a view, within its limits (run_view::most_...). Used only by the
// sources in runtime/watch.

#pragma once

#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::runtime {

namespace view_fields {

using nlohmann::json;

/// Cuts a text to `most_text` bytes, between UTF-8 characters.
inline std::string bounded(std::string text) {
  if (text.size() <= run_view::most_text)
    return text;
  auto end = run_view::most_text;
  while (end > 0 && (text[end] & 0xc0) == 0x80)
    --end;
  text.resize(end);
  return text;
}

/// The value of a field, or `otherwise` if it is missing or of another type.
template <class Value>
Value field(const json& in, const char* name, Value otherwise = {}) {
  const auto found = in.find(name);
  if (found == in.end())
    return otherwise;
  if constexpr (std::is_same_v<Value, std::string>)
    return found->is_string() ? bounded(found->get<std::string>()) : otherwise;
  else if constexpr (std::is_floating_point_v<Value>)
    return found->is_number() ? found->get<Value>() : otherwise;
  else if constexpr (std::is_unsigned_v<Value>)
    return found->is_number_unsigned() ? found->get<Value>() : otherwise;
  else
    return found->is_number_integer() ? found->get<Value>() : otherwise;
}

inline std::optional<double> number(const json& in, const char* name) {
  const auto found = in.find(name);
  return found != in.end() && found->is_number() ? std::optional(found->get<double>())
                                                 : std::nullopt;
}

inline const json& list(const json& in, const char* name) {
  static const json none = json::array();
  const auto found = in.find(name);
  return found != in.end() && found->is_array() ? *found : none;
}

inline std::vector<std::string> texts(const json& in, const char* name, std::size_t most) {
  std::vector<std::string> out;
  for (const auto& x : list(in, name))
    if (x.is_string() && out.size() < most)
      out.push_back(bounded(x.get<std::string>()));
  return out;
}

inline bool has_room(const auto& names, const auto& name, std::size_t most = run_view::most_names) {
  return names.size() < most || names.contains(name);
}

}  // namespace view_fields

/// Take a record of the kind `timeline` or `process` (view_samples.cpp).
void take_timeline(run_view& to, const nlohmann::json& x);
void take_process(run_view& to, const nlohmann::json& x);

}  // namespace troupe::runtime
