// Flags of Megatron-LM's pretrain_gpt that are no settings here: those that decide nothing, and
// those that are refused. The table is flags.inc. Flags that work are described where they are
// declared; flag_table.hpp joins the two.

#pragma once

#include <string>
#include <vector>

namespace troupe::command::megatron {

/// Whose flags they are; those that later or earlier versions have besides stand in a section of
/// their own.
constexpr const char* commit = "d98e8a64ddf34856e74b24714e3bedb2f5a39553";
constexpr const char* commit_day = "2026-08-22";

enum class standing {
  works,     ///< a setting of ours; the note says what differs, if anything
  accepted,  ///< decides nothing here; the note says why
  coming,    ///< refused: a later version is to have it; the note says what it belongs to
  refused,   ///< refused for good, or until it is asked for; the note says why and what to do
};

const char* name_of(standing what);

struct flag_row {
  standing what;
  std::string note;
  std::string names;  ///< "--a --b X --c": X marks an accepted flag that takes a word
};

struct flag_section {
  std::string title;
  std::vector<flag_row> rows;
};

struct flag_name {
  std::string name;
  int words = 0;  ///< that follow it
};

std::vector<flag_name> names_in(const flag_row& row);

/// All sections of flags.inc, in its order; none of their rows works.
std::vector<flag_section> sections();

/// Flags that begin so and have no row: those of other versions of Megatron-LM.
std::vector<flag_row> families();

}  // namespace troupe::command::megatron
