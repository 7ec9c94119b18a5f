// The commands, their groups and their flags as values: what help, completion, manual pages,
// configurations, the table of Megatron-LM's flags and the flags that stand in errors are made
// from. There is no second list of flags.

#pragma once

#include "actors/command/number_range.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

enum class flag_use {
  works,
  accepted,  ///< understood, but it decides nothing here
  refused,
};

/// What happens to a run that resumes with another value of a setting.
enum class at_resume {
  free,       ///< nothing: it decides no bits, and is no part of the run's identity
  told,       ///< the difference is told, as bits may differ; with --strict-identity it is refused
  scheduler,  ///< refused, unless a flag says which of the two learning rate schedules holds
  refused,    ///< it is another model
};

/// A flag; one that has a `field` is a setting, and this row is all that the program knows of it.
/// What its reader knows (readers.hpp) stands here, too: choices, range, and the default of a
/// target that has one.
struct flag_description {
  std::string name;  ///< "--num-layers"; empty: words without a flag
  /// What the library calls it, "model.layers"; "precision=bf16" is one value of a setting that
  /// several flags choose. Empty: a flag of this command alone.
  std::string field = {};
  std::string type = {};  ///< of the words after it: "N", "FILE", "DIR"; empty: it stands alone
  std::string unit = {};  ///< of its number: "steps"; empty: it has none
  /// What holds without it: a word that it takes, or what is decided otherwise ("C / H"). Empty:
  /// nothing.
  std::string default_value = {};
  std::string help = {};    ///< or why it decides nothing, or why it is refused
  int least = 0, most = 0;  ///< words after it
  number_range range = {};  ///< what each of its words is in
  /// It is Megatron-LM's too, with this difference; empty: none.
  std::optional<std::string> megatron = std::nullopt;
  at_resume resume = at_resume::free;
  /// It says where this start of a run ends or what it shows: a kept configuration leaves it out.
  bool once = false;
  std::vector<std::string> choices = {};  ///< the only words that it takes; empty: not so few
  flag_use use = flag_use::works;
  bool injects_faults = false;  ///< shown by --help-faults alone
};

struct flag_group {
  std::string title;  ///< empty for the first
  std::vector<flag_description> flags;
};

struct command_description {
  std::string path;   ///< "troupe train gpt"
  std::string about;  ///< what it does, a sentence without a subject
  std::vector<flag_group> groups;
  std::vector<flag_description> faults;       ///< flags that --help-faults shows
  std::vector<flag_description> others;       ///< accepted and refused flags: not in the help
  std::vector<std::string> beginnings;        ///< paragraphs before the flags
  std::vector<std::string> notes;             ///< paragraphs after them
  std::vector<command_description> commands;  ///< below it
  bool works = false;                         ///< does something itself, without a command below

  /// "gpt"
  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

/// What completes a word of such a type.
enum class word_kind { any, file, folder };
word_kind kind_of(const std::string& type);

/// "--num-layers N", or the words alone.
std::string words_of(const flag_description& x);

/// Its help, then range, unit and default: "Steps between two lines. Range: 1 or more steps.
/// Default: 100."
std::string full_help(const flag_description& x);

/// How it is called: "troupe plot RUN... [FLAG ...]".
std::string usage_of(const command_description& x);

/// The help page, at most 80 columns wide.
std::string help_page(const command_description& x);

/// Its flags alone, by their groups, without what they do; of a command with commands below it the
/// help page.
std::string short_help_page(const command_description& x);

inline constexpr const char* help_faults_flag = "--help-faults";

/// The flags that inject faults, as the help page shows the others.
std::string faults_help_page(const command_description& x);

}  // namespace troupe::command
