// Descriptions of commands and flags as values: the single list of all flags. Help, completion,
// manual pages, configurations, the table of Megatron-LM's flags and the flag names in errors are
// generated from it.

#pragma once

#include "runtime/core/setting_flag.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

enum class flag_use {
  works,
  accepted,  ///< accepted without an effect
  refused,
};

using runtime::at_resume;
using runtime::number_range;
using runtime::real_range;
using runtime::whole_range;

/// A flag. A flag with a `field` is a setting; most are made from its row (setting_flag.hpp).
/// Choices, range and the default of its target come from its reader (readers.hpp).
struct flag_description {
  std::string name;  ///< "--num-layers"; empty: words without a flag
  /// The name in errors of the library, "model.layers"; "precision=bf16" is one value of a setting
  /// that several flags choose. Empty: a flag of this command alone.
  std::string field = {};
  std::string type = {};  ///< type of its values: "N", "FILE", "DIR"; empty: a toggle
  std::string unit = {};  ///< unit of its number: "steps"; empty: none
  /// A value that it takes, or a rule ("C / H"). Empty: no default.
  std::string default_value = {};
  std::string help = {};    ///< or the reason why it is accepted without an effect, or refused
  int least = 0, most = 0;  ///< number of values
  number_range range = {};  ///< of each value
  /// The difference from Megatron-LM's flag of this name, "" for none; empty: Megatron-LM has no
  /// such flag.
  std::optional<std::string> megatron = std::nullopt;
  at_resume resume = at_resume::free;
  /// It concerns one start of a run, such as its end or its output: a kept configuration leaves it
  /// out.
  bool once = false;
  std::vector<std::string> choices = {};  ///< the only values that it takes; empty: any
  flag_use use = flag_use::works;
  bool injects_faults = false;  ///< shown by --help-faults alone
};

struct flag_group {
  std::string title;  ///< empty for the first group
  std::vector<flag_description> flags;
};

struct command_description {
  std::string path;   ///< "troupe train gpt"
  std::string about;  ///< its effect, a sentence without a subject
  std::vector<flag_group> groups;
  std::vector<flag_description> faults;       ///< flags that --help-faults shows
  std::vector<flag_description> others;       ///< accepted and refused flags: not in the help
  std::vector<std::string> beginnings;        ///< paragraphs before the flags
  std::vector<std::string> notes;             ///< paragraphs after them
  std::vector<command_description> commands;  ///< sub-commands
  bool works = false;                         ///< runs without a sub-command

  /// True if it runs no work of its own.
  bool needs_command() const { return !works && !commands.empty(); }
  /// The last word of the path: "gpt".
  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

/// Completion of a value by a shell.
enum class word_kind { any, file, folder };
word_kind kind_of(const std::string& type);

/// The flag with the type of its value: "--num-layers N".
std::string words_of(const flag_description& x);

/// Help, range, unit and default: "Steps between two lines. Range: 1 or more steps. Default: 100."
std::string full_help(const flag_description& x);

/// The usage line: "troupe plot RUN... [FLAG ...]" or "troupe train COMMAND ...".
std::string usage_of(const command_description& x);

/// The help page, at most 80 columns wide.
std::string help_page(const command_description& x);

/// The flags of each group, without their help. The help page for a command that needs another.
std::string short_help_page(const command_description& x);

inline constexpr const char* help_faults_flag = "--help-faults";

/// The help page of the flags that inject faults.
std::string faults_help_page(const command_description& x);

}  // namespace troupe::command
