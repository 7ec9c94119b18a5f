#include "runtime/serving/request_fields.hpp"

#include "runtime/core/json_text.hpp"

#include <cmath>
#include <utility>

namespace troupe::runtime::serving {
namespace {

constexpr int most_levels = 64;

/// Empty for a number with a fraction, or beyond 2^63.
std::optional<std::int64_t> whole_in(const json& x) {
  if (x.is_number_unsigned() && x.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
    return {};
  if (x.is_number_integer())
    return x.get<std::int64_t>();
  if (!x.is_number_float())
    return {};
  const auto value = x.get<double>();
  if (value != std::floor(value) || std::abs(value) > 9007199254740992.0)
    return {};
  return std::int64_t(value);
}

}  // namespace

json parsed_body(std::string_view body) {
  if (json_depth(body) > most_levels)
    throw refusal(400, fmt::format("the body of the request has more than {} levels", most_levels));
  json out;
  try {
    out = ordered_json_value(body);
  } catch (const nlohmann::json::exception& failure) {
    throw refusal(400, "the body of the request is not JSON: " + json_complaint(failure));
  }
  if (!out.is_object())
    throw refusal(400, "the body of the request is not a JSON object");
  return out;
}

request_fields::request_fields(const json& of, std::string within)
    : of_(of), within_(std::move(within)) {
  if (!of.is_object())
    throw refusal(400, fmt::format("'{}' is not an object", within_), within_);
}

std::string request_fields::path_of(const std::string& name) const {
  return within_.empty() ? name : within_ + "." + name;
}

void request_fields::refuse(const char* name, const std::string& why) const {
  throw refusal(400, fmt::format("'{}' {}", path_of(name), why), path_of(name));
}

const json* request_fields::any(const char* name) {
  known_.insert(name);
  const auto found = of_.find(name);
  return found == of_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> request_fields::flag(const char* name) {
  const auto* const x = any(name);
  if (x == nullptr)
    return {};
  if (!x->is_boolean())
    refuse(name, "is not true or false");
  return x->get<bool>();
}

std::optional<std::int64_t> request_fields::whole(const char* name,
                                                  std::int64_t least,
                                                  std::int64_t most) {
  const auto* const x = any(name);
  if (x == nullptr)
    return {};
  const auto value = whole_in(*x);
  if (!value || *value < least || *value > most)
    refuse(name, fmt::format("is not a whole number from {} to {}", least, most));
  return value;
}

std::optional<double> request_fields::real(const char* name, double least, double most) {
  const auto* const x = any(name);
  if (x == nullptr)
    return {};
  const auto value = x->is_number() ? x->get<double>() : NAN;
  if (!(value >= least && value <= most))
    refuse(name, fmt::format("is not a number from {} to {}", least, most));
  return value;
}

std::optional<std::string> request_fields::text(const char* name) {
  const auto* const x = any(name);
  if (x == nullptr)
    return {};
  if (!x->is_string())
    refuse(name, "is not a text");
  return x->get<std::string>();
}

std::optional<std::vector<std::int32_t>> ids_in(const json& value, std::int64_t most) {
  if (!value.is_array())
    return {};
  std::vector<std::int32_t> out;
  for (const auto& one : value) {
    const auto id = whole_in(one);
    if (!id || *id < 0 || *id > most)
      return {};
    out.push_back(std::int32_t(*id));
  }
  return out;
}

std::optional<std::vector<std::int32_t>> request_fields::ids(const char* name, std::int64_t most) {
  const auto* const x = any(name);
  if (x == nullptr)
    return {};
  auto out = ids_in(*x, most);
  if (!out)
    refuse(name, fmt::format("is not a list of token ids from 0 to {}", most));
  return out;
}

void request_fields::ignore(std::initializer_list<const char*> names) {
  for (const auto* const name : names)
    known_.insert(name);
}

void request_fields::require(const char* name, const json& value, const char* why) {
  if (const auto* const x = any(name); x != nullptr && *x != value)
    refuse(name, why);
}

void request_fields::finish() const {
  for (const auto& one : of_.items())
    if (!known_.contains(one.key()))
      throw refusal(400,
                    fmt::format("unknown field '{}': leave it out", path_of(one.key())),
                    path_of(one.key()),
                    "unknown_field");
}

}  // namespace troupe::runtime::serving
