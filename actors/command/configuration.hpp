// Configurations: reads and writes flags as YAML (docs/formats/configuration.md).

#pragma once

#include "actors/command/command_line.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::command {

/// One entry of a configuration: a flag and its values as written.
struct configured_flag {
  std::string key;                 ///< "num-layers", written with dashes or underscores
  std::vector<std::string> words;  ///< "true" or "false" for a toggle
  bool list = false;               ///< written as a list
  std::string where;               ///< position of the value: "'run.yaml', line 3, column 13"

  /// Runs `work`, and adds the position to a usage_error that it throws.
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
  std::vector<configured_flag> entries;  ///< keys are unique
};

/// The key of a flag: "num-layers" of "--num-layers".
std::string key_of(std::string_view flag);

/// Parses the text of a file; `name` is used in messages. Throws usage_error with line and column
/// for text that is not YAML. Also refused: nested maps, repeated keys, missing values, anchors,
/// tags other than !!binary, and a second document.
configuration parse_configuration(const std::string& text, const std::string& name);

/// Reads a file, a pipe, or standard input for "-". Throws usage_error and the errors of read_text.
configuration read_configuration(const std::string& file);

/// Adds the entries of `later`, which override those of `into`.
void merge(configuration& into, configuration later);

/// The values of the entry in the form that the flag takes: `{"true"}` or `{"false"}` for a toggle.
/// Throws usage_error for a list in place of one value, and for one value in place of a list.
std::vector<std::string> words_for(const configured_flag& entry, const flag_description& flag);

/// The settings as YAML, in groups, each with its help as a comment. `about`: comment lines for the
/// head of the file, in UTF-8. `parse_configuration` reads back the same values, of any bytes.
std::string configuration_text(const std::vector<setting>& settings,
                               const std::vector<std::string>& about);

}  // namespace troupe::command
