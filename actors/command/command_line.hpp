// A parser of command lines: commands, flags, their values, and errors for wrong words. Only
// command_line.cpp uses the CLI library.
//
// The last use of a flag overrides earlier ones, as in Megatron-LM, because scripts append flags. A
// flag on the command line overrides all configurations (--config FILE).

#pragma once

#include "actors/command/command_description.hpp"
#include "actors/command/readers.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {

struct configured_flag;  // configuration.hpp
struct declared_flag;    // command_line.cpp

/// A flag and its current values.
struct setting {
  std::string group;  ///< title of its group
  flag_description flag;
  std::vector<std::string> words;  ///< empty for a toggle
};

/// One command, with its flags and sub-commands. Not thread-safe.
class command_line {
 public:
  using work = std::function<int()>;  ///< returns the exit code

  command_line(std::string name, std::string about);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// Adds a sub-command, owned by this one; without `does` it only groups others.
  command_line& command(const std::string& name, const std::string& about, work does = {});
  void runs(work does);

  /// The flags declared after this call appear under this title in the help.
  void group(std::string title);
  /// Adds a paragraph before the flags in the help.
  command_line& begins_with(std::string text);
  /// Adds a paragraph at the end of the help.
  command_line& note(std::string text);

  /// Declares a flag with one value.
  void value(flag_description what, reader take);
  void value(const std::string& flag, const std::string& type, std::string help, reader take) {
    value({.name = flag, .type = type, .help = std::move(help)}, std::move(take));
  }
  /// Declares a flag with `least` to `most` values. A second use replaces the first if the number
  /// of values is fixed or the flag is Megatron-LM's too. Otherwise its values are inputs, and a
  /// second use adds to them.
  void values(flag_description what, list_reader take);
  void values(const std::string& flag,
              const std::string& type,
              int least,
              int most,
              std::string help,
              list_reader take) {
    values({.name = flag, .type = type, .help = std::move(help), .least = least, .most = most},
           std::move(take));
  }
  /// Declares a flag without a value. `--flag=false` overrides a configuration.
  void toggle(flag_description what, std::function<void()> set);
  void toggle(const std::string& flag, std::string help, std::function<void()> set) {
    toggle(flag_description{.name = flag, .help = std::move(help)}, std::move(set));
  }
  /// Declares a flag that is accepted without an effect because of `reason`, with `words` values, 0
  /// or 1. It is not in the help.
  void accepted(const std::string& flag, int words, const std::string& reason);
  /// Declares a flag that is refused with this reason, with any number of values. It is not in the
  /// help. Another declaration of the same flag takes precedence.
  void refused(const std::string& flag, const std::string& reason);
  /// Declares a flag of other programs or models, refused with advice. It is not in the help.
  /// Dashes and underscores are equivalent.
  void answers(const std::string& flag, const std::string& instead);
  /// Refuses with this reason every undeclared flag with this prefix.
  void refused_family(const std::string& beginning, const std::string& reason);
  /// Declares positional words, any number.
  void words(const std::string& type, std::string help, std::vector<std::string>& to);

  /// Declares the words after a lone --, which belong to another command and are not checked.
  void rest(const std::string& type, std::string help, std::vector<std::string>& to);

  /// Declares --config FILE, which reads flags from YAML (docs/formats/configuration.md).
  void configurable();

  /// `parse` adds the settings of the given flags to `given`: "precision=bf16" and "precision".
  /// Readers with only_given have a value for `settings` only if theirs is there.
  void notes(std::set<std::string, std::less<>>& given);

  /// Called when words are refused: returns further errors, so that one message has all of them.
  /// Sentences that name a flag with a refused value are left out.
  void tells_besides(std::function<std::vector<std::string>()> more);

  /// Parses the words of a command line, without the program's name. Returns the work of the chosen
  /// command, or a function that prints its help. Throws usage_error.
  work parse(const std::vector<std::string>& words);

  command_description describe() const;
  std::string help() const { return help_page(describe()); }
  std::string short_help() const { return short_help_page(describe()); }

  /// After `parse`: every flag that was set by the command line or a configuration, or that has a
  /// value now, in the order of the help. A configuration of these flags gives the same result.
  std::vector<setting> settings() const;

  const std::string& path() const { return path_; }                 ///< "troupe train gpt"
  const std::vector<std::string>& given() const { return given_; }  ///< the words after the path

 private:
  struct parts;
  using flags_by_key = std::map<std::string, declared_flag*>;

  work parse_here_or_below(const std::vector<std::string>& words);
  work parse_flags(std::vector<std::string> words);
  std::vector<std::string> last_uses(const std::vector<std::string>& words) const;
  void take_words();
  [[noreturn]] void refuse(const std::vector<std::string>& wrong) const;
  void configure(const configured_flag& entry, const flags_by_key& keys);
  std::string names_below() const;
  [[noreturn]] void refuse_command(const std::string& word) const;
  std::string why_not(const std::string& flag) const;

  std::string path_;
  std::vector<std::string> given_;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::command
