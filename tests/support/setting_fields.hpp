// The names of all settings of a job, from its rows. The tests of settings demand a flag for each.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/job/job.hpp"

#include <string>
#include <vector>

namespace troupe::tests {

/// Structs that one setting fills.
template <class Value>
constexpr bool is_one_setting
    = std::is_same_v<Value, runtime::data_blend> || std::is_same_v<Value, runtime::action_costs>;

enum class setting_rows { all, deciding };

/// Appends the names of the settings of `Struct`, as in the library's errors.
template <class Struct>
void add_setting_fields(setting_rows which,
                        const std::string& above,
                        std::vector<std::string>& to) {
  runtime::for_each_field<Struct>([&]<class Value>(const runtime::setting_row<Struct, Value>& row) {
    if constexpr (runtime::has_fields<Value> && !is_one_setting<Value>)
      add_setting_fields<Value>(which, *row.name == '\0' ? above : above + row.name + ".", to);
    else if constexpr (std::is_same_v<Value, runtime::model_description>)
      add_setting_fields<runtime::gpt_config>(which, above + row.name + ".", to);
    else if (which == setting_rows::all || row.decides_bits != nullptr)
      to.push_back(above + row.name);
  });
}

inline std::vector<std::string> setting_fields(setting_rows which = setting_rows::all) {
  std::vector<std::string> out;
  add_setting_fields<runtime::training_job>(which, "", out);
  return out;
}

}  // namespace troupe::tests
