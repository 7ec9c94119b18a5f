// Flags from YAML, and to it: docs/formats/configuration.md.

#pragma once

#include "actors/command/command_line.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::command {

/// One line of a configuration: a flag, and its words as they were written.
struct configured_flag {
  std::string key;                 ///< "num-layers", whether written with dashes or underscores
  std::vector<std::string> words;  ///< of a toggle "true" or "false"
  bool list = false;               ///< written as a list
  std::string where;               ///< "'run.yaml', line 3, column 13", where the value stands

  /// Runs `work`; a usage_error that it throws says where.
  template <class Work>
  void at(Work&& work) const {
    try {
      work();
    } catch (const usage_error& failure) {
      throw usage_error("{}: {}", where, failure.what());
    }
  }
};

struct configuration {
  std::vector<configured_flag> entries;  ///< each key once
};

/// The key of a flag: "num-layers" of "--num-layers".
std::string key_of(std::string_view flag);

/// The text of a file; `name` stands in messages. Throws usage_error with line and column for what
/// is no YAML, and for what YAML has and a configuration has not: maps below the first, keys twice,
/// no value, anchors, tags but !!binary, a second document.
configuration parse_configuration(const std::string& text, const std::string& name);

/// Of the file, of a pipe, or of standard input for "-". Throws usage_error and what read_text
/// throws.
configuration read_configuration(const std::string& file);

/// What `later` says counts.
void merge(configuration& into, configuration later);

/// The words of the entry as the flag takes them: `{"true"}` or `{"false"}` for a toggle. Throws
/// usage_error when the shape is wrong: a list where one value belongs, or the other way round.
std::vector<std::string> words_for(const configured_flag& entry, const flag_description& flag);

/// The settings as YAML, by groups, each with its help as a comment; `about` are lines of comment
/// at its head, in UTF-8. `parse_configuration` reads back the same words, whatever bytes they are.
std::string configuration_text(const std::vector<setting>& settings,
                               const std::vector<std::string>& about);

}  // namespace troupe::command
