#include "runtime/state/run_command.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/severity_names.hpp"
#include "runtime/core/shortened.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <utility>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;

constexpr std::size_t shown_command_bytes = 80;
constexpr std::uint64_t most_steps = std::uint64_t(1) << 53;  // larger numbers are inexact in JSON
constexpr std::uint64_t most_traced = 1000;
constexpr std::size_t longest_name = 200;

/// Visits the arguments of each command, to parse, to write and for messages.
template <class Visit>
void visit_arguments(commands::learning_rate& x, const Visit& visit) {
  visit("rate", "a number above 0", x.rate);
}
template <class Visit>
void visit_arguments(commands::log_level& x, const Visit& visit) {
  visit("level", "debug, info, warning or error", x.level);
}
template <class Visit>
void visit_arguments(commands::eval_interval& x, const Visit& visit) {
  visit("steps", "0 (never) or a number of steps", x.steps);
}
template <class Visit>
void visit_arguments(commands::save_interval& x, const Visit& visit) {
  visit("steps", "0 (only at the end) or a number of steps", x.steps);
}
template <class Visit>
void visit_arguments(commands::replace& x, const Visit& visit) {
  visit("worker", "a process or a stage, such as node-1 or stage:0.1", x.worker);
}
template <class Visit>
void visit_arguments(commands::stop_after& x, const Visit& visit) {
  visit("step", "the number of a step", x.step);
}
template <class Visit>
void visit_arguments(commands::trace& x, const Visit& visit) {
  visit("steps", "a number from 1 to 1000", x.steps);
}
template <class Visit>
void visit_arguments(commands::norms& x, const Visit& visit) {
  visit("of", "the beginning of the names of parameters, such as decoder.layers.3.", x.of);
  visit("steps", "a number from 1 to 1000", x.steps);
}
template <class Command, class Visit>
requires std::is_empty_v<Command>
void visit_arguments(Command&, const Visit&) {}

bool is_right(const commands::learning_rate& x) {
  return x.rate > 0 && std::isfinite(x.rate);
}
bool is_right(const commands::log_level& x) {
  return severity_named(x.level).has_value();
}
bool is_right(const commands::trace& x) {
  return x.steps >= 1 && x.steps <= most_traced;
}
bool is_right(const commands::norms& x) {
  return x.steps >= 1 && x.steps <= most_traced;
}
bool is_right(const commands::stop_after& x) {
  return x.step >= 1;
}
template <class Command>
bool is_right(const Command&) {
  return true;
}

std::optional<double> value_in(const json& x, double) {
  return x.is_number() ? std::optional(x.get<double>()) : std::nullopt;
}
std::optional<std::uint64_t> value_in(const json& x, std::uint64_t) {
  const auto whole = whole_number_in(x);
  return whole && *whole >= 0 && std::uint64_t(*whole) <= most_steps
             ? std::optional(std::uint64_t(*whole))
             : std::nullopt;
}
std::optional<std::string> value_in(const json& x, const std::string&) {
  if (!x.is_string() || x.get_ref<const std::string&>().size() > longest_name)
    return {};
  return x.get<std::string>();
}

struct argument {
  std::string name, what;
  bool is_text = false;
};

template <class Command>
std::vector<argument> arguments_of() {
  std::vector<argument> out;
  Command any;
  visit_arguments(any, [&](const char* name, const char* what, const auto& value) {
    out.push_back({name, what, std::is_same_v<std::decay_t<decltype(value)>, std::string>});
  });
  return out;
}

/// Examples: "`rate` (a number above 0)"; "no arguments".
template <class Command>
std::string words_of_arguments() {
  std::string out;
  for (const auto& x : arguments_of<Command>())
    out += fmt::format("{}`{}` ({})", out.empty() ? "" : ", ", x.name, x.what);
  return out.empty() ? "no arguments" : out;
}

template <class Command>
run_command read_arguments(std::string_view name, const json& all) {
  Command out;
  std::size_t known = 1;
  bool right = true;
  visit_arguments(out, [&](const char* field, const char*, auto& to) {
    ++known;
    const auto found = all.find(field);
    const auto value = found == all.end() ? std::nullopt : value_in(*found, to);
    right = right && value;
    if (value)
      to = *value;
  });
  if (right && known == all.size() && is_right(out))
    return out;
  throw input_error("cannot carry out '{}': it takes {}", name, words_of_arguments<Command>());
}

constexpr std::array<std::string_view, std::variant_size_v<run_command>> all_names = {
    "status",
    "pause",
    "resume",
    "save",
    "evaluate",
    "learning_rate",
    "log_level",
    "eval_interval",
    "save_interval",
    "replace",
    "stop_after",
    "stop",
    "trace",
    "norms",
};

template <std::size_t... I>
std::vector<argument> arguments_in(std::size_t number, std::index_sequence<I...>) {
  std::vector<argument> out;
  static_cast<void>(
      ((I == number && (out = arguments_of<std::variant_alternative_t<I, run_command>>(), true))
       || ...));
  return out;
}
std::vector<argument> arguments_of(std::size_t number) {
  return arguments_in(number, std::make_index_sequence<std::variant_size_v<run_command>>());
}

template <std::size_t... I>
run_command read_number(std::size_t number, const json& all, std::index_sequence<I...>) {
  std::optional<run_command> out;
  static_cast<void>(
      ((I == number
        && (out = read_arguments<std::variant_alternative_t<I, run_command>>(all_names[I], all),
            true))
       || ...));
  return *std::move(out);
}

}  // namespace

const std::vector<std::string_view>& command_names() {
  static const std::vector<std::string_view> all(all_names.begin(), all_names.end());
  return all;
}

std::string_view name_of(const run_command& x) {
  return all_names[x.index()];
}

std::string text_of(const run_command& x) {
  nlohmann::ordered_json out{{"command", name_of(x)}};
  std::visit(
      [&out](auto of) {
        visit_arguments(
            of, [&](const char* name, const char*, const auto& value) { out[name] = value; });
      },
      x);
  return json_text_replacing(out);
}

run_command read_run_command(std::string_view text) {
  constexpr int deepest = 2;
  const auto all = json_depth(text) <= deepest ? json_value_or_discarded(text) : json();
  if (!all.is_object() || !all.contains("command") || !all["command"].is_string())
    throw input_error(
        "'{}' is not a command: give a JSON object such as {{\"command\": \"pause\"}}",
        shortened(text, shown_command_bytes));
  const auto& name = all["command"].get_ref<const std::string&>();
  const auto found = std::ranges::find(all_names, name);
  if (found == all_names.end())
    throw input_error("unknown command '{}'; commands: {}",
                      shortened(name, shown_command_bytes),
                      fmt::join(all_names, ", "));
  return read_number(std::size_t(found - all_names.begin()),
                     all,
                     std::make_index_sequence<std::variant_size_v<run_command>>());
}

namespace {

/// Examples: "no value", "one value: a number", "2 values: a name; a number".
std::string words_of(const std::vector<argument>& all) {
  std::string out;
  for (const auto& x : all)
    out += (out.empty() ? "" : "; ") + x.what;
  return all.empty()       ? "no value"
         : all.size() == 1 ? "one value: " + out
                           : fmt::format("{} values: {}", all.size(), out);
}

}  // namespace

run_command read_run_command(const std::vector<std::string>& words) {
  if (words.empty())
    throw input_error("the command is missing; commands: {}", fmt::join(all_names, ", "));
  auto name = words.front();
  std::ranges::replace(name, '-', '_');
  json all{{"command", name}};
  const auto found = std::ranges::find(all_names, name);
  if (found == all_names.end())
    return read_run_command(json_text_replacing(all));
  const auto arguments = arguments_of(std::size_t(found - all_names.begin()));
  if (words.size() != arguments.size() + 1)
    throw input_error("'{}' takes {}, and {} given",
                      name,
                      words_of(arguments),
                      words.size() == 1   ? "none is"
                      : words.size() == 2 ? "one is"
                                          : fmt::format("{} are", words.size() - 1));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& word = words[i + 1];
    const auto number = arguments[i].is_text ? json() : json_value_or_discarded(word);
    all[arguments[i].name] = number.is_number() ? number : json(word);
  }
  return read_run_command(json_text_replacing(all));
}

bool is_kept(const run_command& x) {
  return !std::holds_alternative<commands::status>(x);
}

}  // namespace troupe::runtime
