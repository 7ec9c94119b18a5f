// The table of Megatron-LM's flags that are not settings of Troupe: flags without an effect and
// refused flags. Its rows are in flags.inc. Flags that work are described where they are declared;
// flag_table.hpp joins both.

#pragma once

#include <string>
#include <vector>

namespace troupe::command::megatron {

/// The version of Megatron-LM. Flags of earlier versions have their own section.
constexpr const char* commit = "d98e8a64ddf34856e74b24714e3bedb2f5a39553";
constexpr const char* commit_day = "2026-08-22";

enum class standing {
  works,     ///< a setting of Troupe; the note has the differences, if any
  accepted,  ///< accepted without an effect; the note has the reason
  coming,    ///< refused, planned for a later version; the note has the missing feature
  refused,   ///< refused, not planned; the note has the reason and advice
};

const char* name_of(standing what);

struct flag_row {
  standing what;
  std::string note;
  std::string names;  ///< "--a --b X --c": X marks an accepted flag that takes a value
};

struct flag_section {
  std::string title;
  std::vector<flag_row> rows;
};

struct flag_name {
  std::string name;
  int words = 0;  ///< number of values
};

std::vector<flag_name> names_in(const flag_row& row);

/// All sections of flags.inc, in its order, without working flags.
std::vector<flag_section> sections();

/// Prefixes of flags of other versions of Megatron-LM.
std::vector<flag_row> families();

}  // namespace troupe::command::megatron
