// The commands, their groups and their flags as values: what help, completion, manual pages and
// configurations are made from. There is no second list of flags.

#pragma once

#include <string>
#include <vector>

namespace troupe::command {

enum class flag_use {
  works,
  accepted,  ///< understood, but it decides nothing here
  refused,
};

struct flag_description {
  std::string name;         ///< "--num-layers"; empty: words without a flag
  std::string type;         ///< of the words after it: "N", "FILE", "DIR"; empty: it stands alone
  std::string help;         ///< or why it decides nothing, or why it is refused
  int least = 0, most = 0;  ///< words after it
  std::vector<std::string> choices;  ///< the only words that it takes; empty: not so few
  flag_use use = flag_use::works;
};

struct flag_group {
  std::string title;  ///< empty for the first
  std::vector<flag_description> flags;
};

struct command_description {
  std::string path;   ///< "troupe train gpt"
  std::string about;  ///< what it does, a sentence without a subject
  std::vector<flag_group> groups;
  std::vector<flag_description> others;  ///< accepted and refused flags: not in the help
  std::vector<std::string> notes;
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

/// The help page, at most 80 columns wide.
std::string help_page(const command_description& x);

}  // namespace troupe::command
