// Settings that were given, beside a model: those that a Hub folder contradicts, those that are
// decided, and those of training, which a model of the Hub takes.

#pragma once

#include "runtime/core/json_text.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/family/config_json.hpp"
#include "runtime/family/model_family.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::runtime {

/// The sentences about settings that a Hub folder contradicts.
class contradictions {
 public:
  contradictions(const std::string& hub, std::vector<std::string>& wrong)
      : hub_(hub), wrong_(wrong) {}

  template <class Value>
  void add(const std::string& setting, const Value& given, const Value& there) {
    wrong_.push_back(fmt::format(
        "`{}` {} contradicts `checkpoints.load_hub` '{}': its config.json has {}; leave it out",
        setting,
        given,
        hub_,
        there));
  }
  void require(const std::string& setting, bool given, bool there) {
    if (given && !there)
      wrong_.push_back(
          fmt::format("`{}` contradicts `checkpoints.load_hub` '{}': its config.json has another "
                      "value; leave it out",
                      setting,
                      hub_));
  }

 private:
  const std::string& hub_;
  std::vector<std::string>& wrong_;
};

/// Compares the members that have the words of their rows. `above`: their path in `values`, the
/// JSON of `there`; "" or "experts.". Settings of training and the tokenizer's vocabulary may
/// differ from the Hub's. The caller compares the members that `is_free` names, or they may differ.
template <class Struct>
void compare_members(const Struct& said,
                     const Struct& there,
                     const nlohmann::json& values,
                     const std::string& above,
                     const given_settings& all,
                     bool (*is_free)(std::string_view path),
                     contradictions& wrong) {
  for_each_field<Struct>([&](const auto& row) {
    const auto &here = said.*row.member, &its = there.*row.member;
    using member = std::remove_cvref_t<decltype(here)>;
    const auto path = above + row.key, setting = "model." + path;
    if (row.training)
      return;
    if constexpr (has_fields<member>) {
      compare_members(here, its, values, path + ".", all, is_free, wrong);
      return;
    }
    if (!all.contains(setting) || path == "vocabulary" || is_free(path))
      return;
    // Settings that choose one value each: "model.activation=swiglu", "model.linear_bias=false".
    auto given = all.lower_bound(setting + "=");
    if (given != all.end() && given->starts_with(setting + "=")) {
      const auto& value = values.at(row.key);
      const auto right
          = setting + "="
            + (value.is_string() ? value.template get<std::string>() : json_text(value));
      for (; given != all.end() && given->starts_with(setting + "="); ++given)
        wrong.require(*given, true, *given == right);
      return;
    }
    if (here == its)
      return;
    if constexpr (std::is_arithmetic_v<member> && !std::is_same_v<member, bool>)
      wrong.add(setting, here, its);
    else
      wrong.require(setting, true, false);
  });
}

/// Compares settings whose JSON is that of their rows.
template <class Struct>
void compare_settings(const Struct& said,
                      const Struct& there,
                      const given_settings& given,
                      bool (*is_free)(std::string_view path),
                      contradictions& wrong) {
  const auto values = json_value(config_to_json(there));
  compare_members(said, there, values, "", given, is_free, wrong);
}

/// True if two of these settings were given.
inline bool are_several(const given_settings& given, std::initializer_list<const char*> some) {
  return std::ranges::count_if(some, [&](const char* x) { return given.contains(x); }) > 1;
}

/// The first given setting that begins so; empty: none.
inline std::string given_below(const given_settings& given, const std::string& above) {
  const auto found = given.lower_bound(above);
  return found != given.end() && found->starts_with(above) ? *found : std::string();
}

/// Decides those of these members that were not given. `above`: "model." or "model.latent.".
template <class Struct>
void decide_members(given_settings& given,
                    const std::string& above,
                    Struct& to,
                    const Struct& from,
                    const std::vector<std::string_view>& members) {
  for_each_field<Struct>([&](const auto& row) {
    if (std::ranges::find(members, std::string_view(row.key)) != members.end()
        && given.insert(above + row.key).second)
      to.*row.member = from.*row.member;
  });
}

/// Takes the settings of training that were given, and structs of these.
template <class Struct>
void take_training(const given_settings& given, const Struct& said, Struct& to) {
  for_each_field<Struct>([&](const auto& row) {
    constexpr bool nested = has_fields<std::remove_cvref_t<decltype(to.*row.member)>>;
    if (row.training && (nested || given.contains(std::string("model.") + row.key)))
      to.*row.member = said.*row.member;
  });
}

/// True if two models differ at most in settings of training and in these members.
template <class Struct, class... Value>
bool differ_in_training(Struct x, const Struct& y, Value Struct::*... members) {
  for_each_field<Struct>([&](const auto& row) {
    if (row.training)
      x.*row.member = y.*row.member;
  });
  ((x.*members = y.*members), ...);
  return x == y;
}

}  // namespace troupe::runtime
