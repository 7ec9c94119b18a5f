// Encodes a value as a JSON list of its fields, in the order of its inspect().

#pragma once

#include "runtime/core/json_text.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::runtime {

/// Encodes NaN and infinity as strings, because JSON has no such numbers.
inline nlohmann::json json_of_double(double x) {
  if (std::isfinite(x))
    return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
inline std::optional<double> double_of_json(const nlohmann::json& x) {
  if (x.is_number())
    return x.get<double>();
  if (x == "nan")
    return std::nan("");
  if (x == "inf" || x == "-inf")
    return x == "inf" ? HUGE_VAL : -HUGE_VAL;
  return std::nullopt;
}

class json_list_writer {
 public:
  using result_type = bool;

  template <class... Fields>
  bool operator()(Fields&... fields) {
    (add(fields), ...);
    return true;
  }
  nlohmann::json take() { return std::move(out_); }

 private:
  template <class Field>
  void add(Field& x) {
    if constexpr (std::is_floating_point_v<Field>) {
      out_.push_back(json_of_double(x));
    } else if constexpr (std::is_arithmetic_v<Field> || std::is_same_v<Field, std::string>) {
      out_.push_back(x);
    } else {
      json_list_writer inner;
      inspect(inner, x);
      out_.push_back(inner.take());
    }
  }

  nlohmann::json out_ = nlohmann::json::array();
};

class json_list_reader {
 public:
  using result_type = bool;

  explicit json_list_reader(const nlohmann::json& from) : from_(from) {}

  template <class... Fields>
  bool operator()(Fields&... fields) {
    good_ = good_ && from_.is_array() && from_.size() == sizeof...(fields);
    std::size_t i = 0;
    ((good_ = good_ && take(from_[i++], fields)), ...);
    return good_;
  }
  bool good() const { return good_; }

 private:
  template <class Field>
  static bool take(const nlohmann::json& from, Field& to) {
    if constexpr (std::is_same_v<Field, bool>) {
      return from.is_boolean() && (to = from.get<bool>(), true);
    } else if constexpr (std::is_floating_point_v<Field>) {
      const auto x = double_of_json(from);
      return x && (to = Field(*x), true);
    } else if constexpr (std::is_same_v<Field, std::uint64_t>) {
      return from.is_number_unsigned() && (to = from.get<std::uint64_t>(), true);
    } else if constexpr (std::is_integral_v<Field>) {
      const auto x = whole_number_in(from);
      return x && std::in_range<Field>(*x) && (to = Field(*x), true);
    } else if constexpr (std::is_same_v<Field, std::string>) {
      return from.is_string() && (to = from.get<std::string>(), true);
    } else {
      json_list_reader inner(from);
      inspect(inner, to);
      return inner.good();
    }
  }

  const nlohmann::json& from_;
  bool good_ = true;
};

template <class Value>
nlohmann::json json_list(Value x) {
  json_list_writer to;
  inspect(to, x);
  return to.take();
}

/// Empty if `from` is not a list of such fields.
template <class Value>
std::optional<Value> value_of_json_list(const nlohmann::json& from) {
  Value out;
  json_list_reader reader(from);
  inspect(reader, out);
  return reader.good() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace troupe::runtime
