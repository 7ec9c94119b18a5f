// Every flag of Megatron-LM's pretrain_gpt, and what it means here: one table, from which flags are
// refused with their reason, accepted without effect, listed by `--help-megatron`, and of which
// docs/guides/from_megatron.md has a copy. Rows stand in the sources of this folder, by subject.

#pragma once

#include <string>
#include <vector>

namespace troupe::command::megatron {

/// Whose flags they are; those that later or earlier versions have besides stand in old_section().
constexpr const char* commit = "d98e8a64ddf34856e74b24714e3bedb2f5a39553";
constexpr const char* commit_day = "2026-08-22";

enum class standing {
  works,     ///< declared by our own parser; the note says what differs, if anything
  accepted,  ///< decides nothing here; the note says why
  coming,    ///< refused: a later version is to have it; the note says what it belongs to
  refused,   ///< refused for good, or until somebody asks; the note says why and what to do
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

/// All sections, in the order of the help page.
std::vector<flag_section> sections();

/// Flags that begin so and have no row: those of other versions of Megatron-LM.
std::vector<flag_row> families();

flag_section shape_section();           // model.cpp
flag_section layer_section();           // model.cpp
flag_section family_section();          // families.cpp
flag_section expert_section();          // experts.cpp
flag_section layout_section();          // layout.cpp
flag_section sharding_section();        // layout.cpp
flag_section communication_section();   // communication.cpp
flag_section step_section();            // steps.cpp
flag_section optimizer_section();       // steps.cpp
flag_section rate_section();            // steps.cpp
flag_section precision_section();       // precision.cpp
flag_section kernel_section();          // precision.cpp
flag_section memory_section();          // precision.cpp
flag_section checkpoint_section();      // checkpoints.cpp
flag_section data_section();            // data.cpp
flag_section tokenizer_section();       // data.cpp
flag_section validation_section();      // watching.cpp
flag_section log_section();             // watching.cpp
flag_section failure_section();         // watching.cpp
flag_section serving_section();         // serving.cpp
flag_section later_training_section();  // serving.cpp
flag_section old_section();             // old.cpp

}  // namespace troupe::command::megatron
