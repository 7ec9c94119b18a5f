// Internals of command_line, for its own sources only.

#pragma once

#include "actors/command/command_line.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::command {

inline constexpr const char* config_flag = "--config";

/// A flag, the function that takes its values, and the values given.
struct declared_flag {
  flag_description what;
  std::size_t group = 0;
  list_reader take;  ///< gets no values for a toggle
  /// Configures the library's option; empty: the library's defaults.
  std::function<void(CLI::Option&)> shape = {};
  std::function<std::optional<std::string>()> now = {};
  bool only_given = false;                             ///< as in reader
  std::optional<std::vector<std::string>> given = {};  ///< "true" or "false" for a toggle

  bool is_toggle() const { return what.most == 0; }
};

struct command_line::parts {
  parts();
  ~parts();

  command_description self;
  work does;
  std::function<std::vector<std::string>()> besides;  ///< may be empty
  std::vector<std::unique_ptr<command_line>> commands;
  std::vector<std::unique_ptr<declared_flag>> flags;  ///< accepted ones included
  std::map<std::string, declared_flag*, std::less<>> by_name;
  std::map<std::string, std::string> refusals;
  std::vector<std::pair<std::string, std::string>> families;
  std::map<std::string, std::string> answers;  ///< by key_of
  std::vector<std::string> configurations;     ///< files named by --config
  bool configurable = false;
  std::set<std::string, std::less<>>* noted = nullptr;  ///< receives given settings; may be null
  std::vector<std::string>* rest = nullptr;   ///< receives the words after --; null: not allowed
  std::vector<std::string>* words = nullptr;  ///< receives positional words; null: not allowed
  /// After `cut`: undeclared flags and surplus words.
  std::vector<std::string> left;

  /// Fails with FLAG-1 if a flag of this name exists.
  declared_flag& declare(flag_description what,
                         list_reader take,
                         std::function<void(CLI::Option&)> shape = {});

  enum class help_wanted { none, page, flags, faults };
  /// Assigns the words to flags; their values are read later, after those of configurations. The
  /// library gets only the flags that occur among the words, because it compares each option with
  /// all others, and there are hundreds. Throws usage_error.
  help_wanted cut(std::vector<std::string> words);
  void tell(CLI::App& library, declared_flag& flag) const;

  bool knows(const std::string& word) const;
  void require_value(const flag_description& what, const std::string& word) const;
  void apply(const declared_flag& flag) const;

  /// Two spellings share a key: the first declared flag has it.
  flags_by_key keys() const;
  std::vector<const declared_flag*> given() const;
  std::vector<std::string> names() const;
};

}  // namespace troupe::command
