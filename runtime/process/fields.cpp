#include "runtime/process/fields.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_text.hpp"

#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

constexpr int deepest = 16;

const json& field(const json& of, const char* name, const std::string& what) {
  const auto found = of.find(name);
  if (found == of.end())
    throw input_error("{}: '{}' is missing", what, name);
  return *found;
}

[[noreturn]] void refuse_kind(const std::string& what, const char* name, const char* wanted) {
  throw input_error("{}: '{}' has to be {}", what, name, wanted);
}

}  // namespace

json read_object(std::string_view text, const std::string& what) {
  if (json_depth(text) > deepest)
    throw input_error("{}: its JSON is nested more than {} levels deep", what, deepest);
  auto out = json_value_or_discarded(text);
  if (!out.is_object())
    throw input_error("{}: it is not a JSON object", what);
  return out;
}

std::string text_field(const json& of, const char* name, const std::string& what) {
  const auto& x = field(of, name, what);
  if (!x.is_string())
    refuse_kind(what, name, "a text");
  return x.get<std::string>();
}

std::int64_t whole_field(const json& of,
                         const char* name,
                         const std::string& what,
                         std::int64_t least,
                         std::int64_t most) {
  const auto& x = field(of, name, what);
  constexpr auto largest = std::uint64_t(std::numeric_limits<std::int64_t>::max());
  if (!x.is_number_integer() || (x.is_number_unsigned() && x.get<std::uint64_t>() > largest)
      || x.get<std::int64_t>() < least || x.get<std::int64_t>() > most)
    throw input_error("{}: '{}' has to be a whole number from {} to {}", what, name, least, most);
  return x.get<std::int64_t>();
}

bool flag_field(const json& of, const char* name, const std::string& what) {
  const auto& x = field(of, name, what);
  if (!x.is_boolean())
    refuse_kind(what, name, "true or false");
  return x.get<bool>();
}

double number_field(
    const json& of, const char* name, const std::string& what, double above, double most) {
  const auto& x = field(of, name, what);
  const auto out = x.is_number() ? x.get<double>() : 0;
  if (!x.is_number() || !(out > above && out <= most))
    throw input_error(
        "{}: '{}' has to be a number above {}, and at most {}", what, name, above, most);
  return out;
}

std::vector<std::string> texts_field(const json& of, const char* name, const std::string& what) {
  std::vector<std::string> out;
  for (const auto& x : list_field(of, name, what)) {
    if (!x.is_string())
      refuse_kind(what, name, "a list of texts");
    out.push_back(x.get<std::string>());
  }
  return out;
}

std::string word_field(const json& of, const char* name, const std::string& what) {
  if (auto out = from_text_or_bytes(field(of, name, what)))
    return *std::move(out);
  refuse_kind(what, name, "a text, or bytes");
}

std::vector<std::string> words_field(const json& of, const char* name, const std::string& what) {
  std::vector<std::string> out;
  for (const auto& x : list_field(of, name, what))
    if (auto one = from_text_or_bytes(x))
      out.push_back(*std::move(one));
    else
      refuse_kind(what, name, "a list of texts, or bytes");
  return out;
}

const json& object_field(const json& of, const char* name, const std::string& what) {
  const auto& x = field(of, name, what);
  if (!x.is_object())
    refuse_kind(what, name, "an object");
  return x;
}

const json& list_field(const json& of, const char* name, const std::string& what) {
  const auto& x = field(of, name, what);
  if (!x.is_array())
    refuse_kind(what, name, "a list");
  return x;
}

void put(json& to, const process_id& x) {
  to["pid"] = x.pid;
  to["start_time"] = x.start_time;
}

process_id process_field(const json& of, const std::string& what) {
  return {.pid = pid_t(whole_field(of, "pid", what, 1, std::numeric_limits<pid_t>::max())),
          .start_time = std::uint64_t(whole_field(of, "start_time", what, 0))};
}

json json_of(const process_end& x) {
  if (x.exit_code)
    return {{"exit_code", *x.exit_code}};
  if (x.unseen)
    return {{"unseen", true}};
  return {{"signal", x.signal}, {"core", x.core}, {"out_of_memory", x.out_of_memory}};
}

process_end read_process_end(const json& x, const std::string& what) {
  constexpr int most_signals = 128, most_codes = 255;
  if (x.contains("exit_code"))
    return {.exit_code = int(whole_field(x, "exit_code", what, 0, most_codes))};
  if (x.contains("unseen") && flag_field(x, "unseen", what))
    return {.exit_code = {}, .unseen = true};
  return {.exit_code = {},
          .signal = int(whole_field(x, "signal", what, 1, most_signals)),
          .core = flag_field(x, "core", what),
          .out_of_memory = flag_field(x, "out_of_memory", what)};
}

std::string text_of_json(const json& x, const std::string& what) {
  try {
    return json_text(x);
  } catch (const json::type_error& failure) {
    throw input_error("{}: {}", what, json_complaint(failure));
  }
}

}  // namespace troupe::runtime
