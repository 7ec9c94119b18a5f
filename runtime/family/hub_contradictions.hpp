// Settings that were given, beside a model: those that a Hub folder contradicts, those that are
// decided, and those that are taken.

#pragma once

#include "runtime/core/json_text.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/family/model_family.hpp"

#include <fmt/format.h>
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
/// JSON of `there`; "" or "experts.". `is_free`: members that may differ from the Hub's, or that
/// the caller compares in other words.
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
    if constexpr (has_fields<member>) {
      compare_members(here, its, values, path + ".", all, is_free, wrong);
      return;
    }
    if (!all.contains(setting) || is_free(path))
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

/// Decides a setting that was not given.
template <class T>
void decide(given_settings& given, const char* setting, T& to, const T& value) {
  if (given.insert(setting).second)
    to = value;
}

/// Takes the value of a setting that was given.
template <class T>
void take(const given_settings& given, const char* setting, T& to, const T& value) {
  if (given.contains(setting))
    to = value;
}

}  // namespace troupe::runtime
