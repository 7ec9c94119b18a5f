// What a command_line is made of. For its own sources.

#pragma once

#include "actors/command/command_line.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::command {

inline constexpr const char* config_flag = "--config";

/// A flag, what takes its words, and the words that it got.
struct declared_flag {
  flag_description what;
  std::size_t group = 0;
  list_reader take;  ///< of a toggle: no words
  std::function<void(CLI::Option&)> shape
      = {};  ///< how the library cuts its words; empty: as it does
  std::function<std::optional<std::string>()> now = {};
  std::optional<std::vector<std::string>> given = {};  ///< of a toggle: "true" or "false"

  bool is_toggle() const { return what.most == 0; }
};

struct command_line::parts {
  parts();
  ~parts();

  command_description self;
  work does;
  std::function<std::vector<std::string>()> besides;  ///< empty: nothing
  std::vector<std::unique_ptr<command_line>> commands;
  std::vector<std::unique_ptr<declared_flag>> flags;  ///< accepted ones included
  std::map<std::string, declared_flag*, std::less<>> by_name;
  std::map<std::string, std::string> refusals;
  std::vector<std::pair<std::string, std::string>> families;
  std::map<std::string, std::string> answers;  ///< by key_of
  std::vector<std::string> configurations;     ///< files named by --config
  bool configurable = false;
  std::vector<std::string>* rest = nullptr;   ///< where the words behind -- go; null: nowhere
  std::vector<std::string>* words = nullptr;  ///< where those without a flag go; null: nowhere
  /// After `cut`: those that belong to no flag, or to one that is not declared.
  std::vector<std::string> left;

  /// Broken promise FLAG-1 where there is one of that name.
  declared_flag& declare(flag_description what,
                         list_reader take,
                         std::function<void(CLI::Option&)> shape = {});

  enum class help_wanted { none, page, flags, faults };
  /// The library only cuts words apart; they are taken afterwards, configurations first. It is told
  /// only the flags that are among the words: it compares each of its options with all others, and
  /// there are hundreds. Throws usage_error.
  help_wanted cut(std::vector<std::string> words);
  void tell(CLI::App& library, declared_flag& flag) const;

  bool knows(const std::string& word) const;
  void require_value(const flag_description& what, const std::string& word) const;
  void apply(const declared_flag& flag) const;

  /// Of two spellings the one that was declared first.
  flags_by_key keys() const;
  std::vector<const declared_flag*> given() const;
  std::vector<std::string> names() const;
};

}  // namespace troupe::command
