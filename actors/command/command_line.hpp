// The words of a command line: which flags there are, what they take, what is said about the wrong
// ones. Only command_line.cpp knows the library that cuts the words apart.
//
// A flag that is given twice counts as it was given last, as in Megatron-LM: scripts append. Where
// configurations are read (--config FILE), a flag on the command line overrides all of them.

#pragma once

#include "actors/command/command_description.hpp"
#include "actors/command/readers.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {

struct configured_flag;  // configuration.hpp
struct declared_flag;    // command_line.cpp

/// A flag and the words that it has now.
struct setting {
  std::string group;  ///< its title
  flag_description flag;
  std::vector<std::string> words;  ///< of a toggle: none
};

/// One command, with its flags and the commands below it. One thread.
class command_line {
 public:
  using work = std::function<int()>;  ///< returns the exit code

  /// The program itself.
  command_line(std::string name, std::string about);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// A command below this one; without `does` it only groups others. Lives as long as this.
  command_line& command(const std::string& name, const std::string& about, work does = {});
  void runs(work does);

  /// The flags declared from here on stand under this title in the help.
  void group(std::string title);
  /// A paragraph before the flags in the help.
  command_line& begins_with(std::string text);
  /// A paragraph at the end of the help.
  command_line& note(std::string text);

  /// A flag with one word after it.
  void value(flag_description what, reader take);
  void value(const std::string& flag, const std::string& type, std::string help, reader take) {
    value({.name = flag, .type = type, .help = std::move(help)}, std::move(take));
  }
  /// A flag with `least` to `most` words. A second use replaces the first of a flag that is
  /// Megatron-LM's too; of others, whose words are inputs, it adds where their number is not fixed.
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
  /// A flag that stands alone. `--flag=false` takes back what a configuration says.
  void toggle(flag_description what, std::function<void()> set);
  void toggle(const std::string& flag, std::string help, std::function<void()> set) {
    toggle(flag_description{.name = flag, .help = std::move(help)}, std::move(set));
  }
  /// Understood, but it decides nothing here, because of `reason`; `words` 0 or 1 after it. Not in
  /// the help.
  void accepted(const std::string& flag, int words, const std::string& reason);
  /// Understood, and refused with this reason; any number of words after it. Not in the help. A
  /// flag that is declared, too, is not refused.
  void refused(const std::string& flag, const std::string& reason);
  /// A flag of other programs, refused with what to do instead. Not in the help; with _ it is the
  /// same.
  void answers(const std::string& flag, const std::string& instead);
  /// Every flag that begins so and is not declared is refused with this reason.
  void refused_family(const std::string& beginning, const std::string& reason);
  /// Words without a flag, any number.
  void words(const std::string& type, std::string help, std::vector<std::string>& to);

  /// Words behind a lone --, another command's: whatever they are.
  void rest(const std::string& type, std::string help, std::vector<std::string>& to);

  /// From here on --config FILE is a flag, which reads the others from YAML
  /// (docs/formats/configuration.md).
  void configurable();

  /// Asked when words are refused: what else is wrong, so that all of it is told at once.
  /// Sentences that name a flag whose words were refused are left out.
  void tells_besides(std::function<std::vector<std::string>()> more);

  /// Reads the words of a command line, without the program's name, and returns what to do: the
  /// chosen command's work, or printing its help. Throws usage_error.
  work parse(const std::vector<std::string>& words);

  command_description describe() const;
  std::string help() const { return help_page(describe()); }
  std::string short_help() const { return short_help_page(describe()); }

  /// After `parse`: every flag that was set, by the command line or a configuration, or whose
  /// target has a value, in the order of the help. The flags of a configuration that says the same.
  std::vector<setting> settings() const;

  const std::string& path() const { return path_; }                 ///< "troupe train gpt"
  const std::vector<std::string>& given() const { return given_; }  ///< the words after it

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
