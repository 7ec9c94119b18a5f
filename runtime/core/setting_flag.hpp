// The columns of a setting's flag: plain data beside its row (setting.hpp), for a command line and
// its help. The library carries them and does not read them.

#pragma once

#include "runtime/core/number_range.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

/// Effect of resuming a run with another value of a setting.
enum class at_resume : std::uint8_t {
  free,       ///< no effect: the setting is not part of the run's identity
  told,       ///< warns that bits may differ; an error with `checkpoints.strict_identity`
  scheduler,  ///< an error, unless a setting selects one of the two learning rate schedules
  refused,    ///< an error: it is another model
};

struct setting_flag {
  const char* name = nullptr;  ///< with its dashes; null: no flag
  /// Type of its values: "FILE", "DIR". Empty: "N" for a whole number, "X" for another number with
  /// a range; of other members it is a toggle, without values.
  const char* type = "";
  const char* unit = "";  ///< unit of its number: "steps"; empty: none
  /// A value that it takes, or a rule ("C / H"). Empty: the member's own default.
  const char* default_value = "";
  const char* help = "";
  /// The difference from Megatron-LM's flag of this name; null: Megatron-LM has no such flag.
  const char* megatron = "";
  int least = 1, most = 1;  ///< number of values, unless it is a toggle
  /// Range of each number. Empty: 0 or more for a whole number.
  number_range range = {};
  const char* choices = "";  ///< the only texts that it takes: "auto cpu"; empty: any
  /// The value of a toggle, which is part of its setting's name: "false" for
  /// "watch.progress=false". Empty: true.
  const char* value = "";
  std::int64_t gives = 1;  ///< the value of a toggle of a number or an enumeration
  /// A kept configuration has it only if it was given: the member's default is no value of the
  /// flag, another one follows from other settings, or few models have such a setting.
  bool only_given = false;
  std::optional<at_resume> resume = std::nullopt;  ///< empty: see resume_of
  /// It concerns one start of a run, such as its end or its output: a kept configuration leaves it
  /// out.
  bool once = false;
  bool injects_faults = false;  ///< shown by the help of faults alone
};

}  // namespace troupe::runtime
