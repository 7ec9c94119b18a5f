#include "actors/command/command_line.hpp"

#include "actors/command/configuration.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

namespace troupe::command {
namespace {

/// Not an error: the user asked.
struct help_wanted {
  bool is_short = false;
};

constexpr int any_number = CLI::detail::expected_max_vector_size;
constexpr const char* config_flag = "--config";
constexpr std::size_t most_told = 1000;  // flags that cannot be used: more than Megatron-LM has

std::string flag_of(const std::string& library_message) {
  return library_message.substr(0, library_message.find(':'));
}

bool is_flag(const std::string& word) {
  return word.starts_with("-") && word.size() > 1 && std::isdigit(word[1]) == 0;
}

}  // namespace

/// A flag, what takes its words, and the words that it got.
struct declared_flag {
  flag_description what;
  std::size_t group = 0;
  list_reader take;  ///< of a toggle: no words
  std::function<std::optional<std::string>()> now = {};
  std::optional<std::vector<std::string>> given = {};  ///< of a toggle: "true" or "false"

  bool is_toggle() const { return what.most == 0; }
};

struct command_line::parts {
  command_description self;
  work does;
  CLI::App app;
  std::vector<std::unique_ptr<command_line>> commands;
  std::vector<std::unique_ptr<declared_flag>> flags;  ///< accepted ones included
  // Not the library's: it compares each of its options with all others, and there are hundreds.
  std::map<std::string, std::string> refusals;
  std::vector<std::pair<std::string, std::string>> families;
  std::vector<std::string> configurations;  ///< files named by --config
  bool configurable = false;
  std::vector<std::string>* rest = nullptr;  ///< where the words behind -- go; null: nowhere

  bool knows(const std::string& word) const {
    return app.get_option_no_throw(word) != nullptr || refusals.contains(word);
  }

  /// The library only cuts words apart; they are taken afterwards, configurations first.
  CLI::Option* declare(flag_description what, list_reader take) {
    auto& flag = *flags.emplace_back(std::make_unique<declared_flag>(
        declared_flag{std::move(what), self.groups.size() - 1, std::move(take)}));
    if (flag.what.use == flag_use::works)
      self.groups.back().flags.push_back(flag.what);
    else
      self.others.push_back(flag.what);
    if (flag.is_toggle())
      return app.add_flag_function(flag.what.name, [&flag](std::int64_t count) {
        flag.given = {count > 0 ? "true" : "false"};
      });
    return app.add_option(flag.what.name, [&flag](const CLI::results_t& words) {
      flag.given = words;
      return true;
    });
  }

  void require_value(const flag_description& what, const std::string& word) const {
    if (word.starts_with("--") && knows(word))
      throw usage_error("{} needs a value, but the next word is {}", what.name, word);
    if (!takes(what.range, word))
      throw usage_error(
          "{} '{}': give {} ({})",
          what.name,
          shown(word),
          told(what.range),
          what.default_value.empty() ? "no default" : "default: " + what.default_value);
  }

  void apply(const declared_flag& flag) const {
    if (flag.is_toggle()) {
      if (flag.given->front() == "true")
        flag.take(flag.what.name, {});
      return;
    }
    for (const auto& word : *flag.given)
      require_value(flag.what, word);
    flag.take(flag.what.name, *flag.given);
  }

  /// Of two spellings the one that was declared first.
  flags_by_key keys() const {
    flags_by_key out;
    for (const auto& flag : flags)
      out.emplace(key_of(flag->what.name), flag.get());
    return out;
  }

  std::vector<const declared_flag*> given() const {
    std::vector<const declared_flag*> out;
    for (const auto& flag : flags)
      if (flag->given)
        out.push_back(flag.get());
    return out;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out = {"--help"};
    for (const auto& flag : flags)
      if (flag->what.name.starts_with("--"))
        out.push_back(flag->what.name);
    for (const auto& [flag, reason] : refusals)
      out.push_back(flag);
    return out;
  }
};

command_line::command_line(std::string name, std::string about)
    : path_(std::move(name)), parts_(std::make_unique<parts>()) {
  parts_->self.path = path_;
  parts_->self.about = std::move(about);
  parts_->self.groups.emplace_back();
  parts_->app.set_help_flag("");
  parts_->app.allow_extras();
  parts_->app.add_flag_callback("--help", [] { throw help_wanted(); });
  parts_->app.add_flag_callback("-h", [] { throw help_wanted{.is_short = true}; });
}

command_line::~command_line() = default;

command_line& command_line::command(const std::string& name, const std::string& about, work does) {
  parts_->commands.push_back(std::make_unique<command_line>(path_ + " " + name, about));
  parts_->commands.back()->parts_->does = std::move(does);
  return *parts_->commands.back();
}

void command_line::runs(work does) {
  parts_->does = std::move(does);
}

void command_line::group(std::string title) {
  parts_->self.groups.push_back({std::move(title), {}});
}

command_line& command_line::note(std::string text) {
  parts_->self.notes.push_back(std::move(text));
  return *this;
}

void command_line::value(flag_description what, reader take) {
  what.least = what.most = 1;
  what.choices = std::move(take.choices);
  if (std::holds_alternative<std::monostate>(what.range))
    what.range = take.range;
  if (const auto now = take.now ? take.now() : std::nullopt; now && what.default_value.empty())
    what.default_value = *now;
  const auto first = [take = std::move(take.take)](const std::string& name,
                                                   const std::vector<std::string>& words) {
    take(name, words[0]);
  };
  const auto type = what.type;
  parts_->declare(std::move(what), first)
      ->type_name(type)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  parts_->flags.back()->now = std::move(take.now);
}

void command_line::values(flag_description what, list_reader take) {
  const int least = what.least, most = what.most;
  const auto counted = [least, most, type = what.type, take = std::move(take)](
                           const std::string& name, const std::vector<std::string>& words) {
    if (int(words.size()) < least || int(words.size()) > most)
      throw usage_error("{} needs {} values: {}; it got {}", name, least, type, words.size());
    take(name, words);
  };
  const bool replaces = what.megatron.has_value();
  parts_->declare(std::move(what), counted)
      ->expected(1, most)
      ->trigger_on_parse(replaces)
      ->multi_option_policy(least == most ? CLI::MultiOptionPolicy::TakeLast
                                          : CLI::MultiOptionPolicy::TakeAll);
}

void command_line::toggle(flag_description what, std::function<void()> set) {
  parts_->declare(std::move(what), [set = std::move(set)](const auto&, const auto&) { set(); });
}

void command_line::accepted(const std::string& flag, int words, const std::string& reason) {
  flag_description what{.name = flag,
                        .type = words == 0 ? "" : "X",
                        .help = reason,
                        .least = words,
                        .most = words,
                        .use = flag_use::accepted};
  auto* option = parts_->declare(std::move(what), [](const auto&, const auto&) {});
  if (words > 0)
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void command_line::refused(const std::string& flag, const std::string& reason) {
  parts_->refusals.emplace(flag, reason);
  parts_->self.others.push_back({.name = flag, .help = reason, .use = flag_use::refused});
}

void command_line::refused_family(const std::string& beginning, const std::string& reason) {
  parts_->families.emplace_back(beginning, reason);
  parts_->self.others.push_back(
      {.name = beginning + "...", .help = reason, .use = flag_use::refused});
}

void command_line::words(const std::string& type, std::string help, std::vector<std::string>& to) {
  parts_->app.add_option("words", to)->expected(0, any_number);
  parts_->self.groups.front().flags.push_back(
      {.type = type, .help = std::move(help), .most = any_number});
}

void command_line::rest(const std::string& type, std::string help, std::vector<std::string>& to) {
  parts_->rest = &to;
  parts_->self.groups.front().flags.push_back(
      {.type = "-- " + type, .help = std::move(help), .most = any_number});
}

void command_line::configurable() {
  parts_->configurable = true;
  values(
      config_flag,
      "FILE...",
      1,
      1 << 10,
      "Reads flags from YAML: their names without the dashes, as num-layers: 24. Of several files "
      "the later counts, and the command line overrides all of them.",
      all(parts_->configurations));
}

command_line::work command_line::parse(const std::vector<std::string>& words) {
  try {
    return parse_here_or_below(words);
  } catch (usage_error& failure) {
    if (failure.command.empty())
      failure.command = path_;
    throw;
  }
}

command_line::work command_line::parse_here_or_below(const std::vector<std::string>& words) {
  auto& commands = parts_->commands;
  if (commands.empty())
    return parse_flags(words);
  const bool below_program = path_.find(' ') != std::string::npos;
  if (words.empty() && below_program)
    throw usage_error("'{}' needs a command: {}", path_, names_below());
  if (words.empty() || words[0] == "--help" || words[0] == "-h")
    return [this] {
      std::fputs(help().c_str(), stdout);
      return 0;
    };
  for (auto& below : commands)
    if (below->path_ == path_ + " " + words[0])
      return below->parse({words.begin() + 1, words.end()});
  if (words[0].starts_with("-"))
    return parse_flags(words);
  refuse_command(words[0]);
}

/// Of a flag of Megatron-LM's that is given twice only the last counts, with all of its words: so
/// it is there. `words` without the others.
std::vector<std::string> command_line::last_uses(const std::vector<std::string>& words) const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  std::vector<std::string> values;  // behind the flag that is looked for, the last first
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if (!is_flag(*word)) {
      values.push_back(*word);
      continue;
    }
    const auto name = word->substr(0, word->find('='));
    const auto flag = std::find_if(parts_->flags.begin(), parts_->flags.end(), [&](const auto& x) {
      return x->what.name == name && x->what.megatron && x->what.least != x->what.most;
    });
    if (flag == parts_->flags.end() || seen.insert(name).second) {
      out.insert(out.end(), values.begin(), values.end());
      out.push_back(*word);
    }
    values.clear();
  }
  out.insert(out.end(), values.begin(), values.end());
  std::reverse(out.begin(), out.end());
  return out;
}

command_line::work command_line::parse_flags(std::vector<std::string> words) {
  given_ = words;
  if (const auto mark = std::find(words.begin(), words.end(), "--");
      parts_->rest != nullptr && mark != words.end()) {
    parts_->rest->assign(mark + 1, words.end());
    words.erase(mark, words.end());
  }
  words = last_uses(words);
  for (auto& flag : parts_->flags)
    flag->given.reset();
  std::reverse(words.begin(), words.end());  // the library takes them from the end
  try {
    parts_->app.parse(words);
  } catch (const help_wanted& wanted) {
    return [this, wanted] {
      std::fputs((wanted.is_short ? short_help() : help()).c_str(), stdout);
      return 0;
    };
  } catch (const CLI::ArgumentMismatch& failure) {
    throw usage_error("{} needs a value after it", flag_of(failure.what()));
  } catch (const CLI::ParseError& failure) {
    throw usage_error("{}", failure.what());
  }
  take_words();
  return [this] {
    try {
      return parts_->does();
    } catch (usage_error& failure) {
      failure.command = path_;
      throw;
    }
  };
}

/// Configurations first, so that a flag which says the same by another name still counts.
void command_line::take_words() {
  configuration from;
  const auto said = parts_->given();
  for (const auto* flag : said)
    if (flag->what.name == config_flag)
      parts_->apply(*flag);
  if (parts_->configurable)
    for (const auto& file : parts_->configurations)
      merge(from, read_configuration(file));
  std::vector<std::string> wrong;
  const auto collect = [&wrong](const auto& take) {
    if (wrong.size() == most_told)
      return;
    try {
      take();
    } catch (const usage_error& failure) {
      wrong.emplace_back(failure.what());
    }
  };
  const auto keys = parts_->keys();
  for (const auto& entry : from.entries)
    collect([&] { entry.at([&] { configure(entry, keys); }); });
  for (const auto* flag : said)
    collect([&] { parts_->apply(*flag); });
  const auto left = parts_->app.remaining();
  for (const auto& word : left)
    if (is_flag(word))
      collect([&] { throw usage_error("{}", why_not(word.substr(0, word.find('=')))); });
  if (wrong.size() == 1)
    throw usage_error("{}", wrong.front());
  if (!wrong.empty())
    throw usage_error("{}{} flags cannot be used:\n  {}",
                      wrong.size() == most_told ? "at least " : "",
                      wrong.size(),
                      fmt::join(wrong, "\n  "));
  if (!left.empty())
    throw usage_error("'{}' is a word too many: it belongs to no flag", left.front());
}

void command_line::configure(const configured_flag& entry, const flags_by_key& keys) {
  if (entry.key == "config")
    throw usage_error("a configuration names no other: give --config twice");
  if (const auto found = keys.find(entry.key); found != keys.end()) {
    auto& flag = *found->second;
    if (!flag.given) {
      flag.given = words_for(entry, flag.what);
      parts_->apply(flag);
    }
    return;
  }
  for (const auto& [name, reason] : parts_->refusals)
    if (entry.key == key_of(name))
      throw usage_error("{} is refused: {}", name, reason);
  throw usage_error("{}", why_not("--" + entry.key));
}

std::vector<setting> command_line::settings() const {
  std::vector<setting> out;
  for (const auto& flag : parts_->flags) {
    const auto now = flag->now ? flag->now() : std::nullopt;
    if (flag->what.name == config_flag || flag->given == std::vector<std::string>{"false"})
      continue;
    const auto same = [&](const setting& before) {
      return key_of(before.flag.name) == key_of(flag->what.name);  // another spelling
    };
    if ((!flag->given && !now) || std::any_of(out.begin(), out.end(), same))
      continue;
    setting x{parts_->self.groups[flag->group].title, flag->what, {}};
    if (!flag->is_toggle())
      x.words = flag->given ? *flag->given : std::vector{*now};
    out.push_back(std::move(x));
  }
  return out;
}

std::string command_line::names_below() const {
  std::string all;
  for (const auto& below : parts_->commands)
    all += (all.empty() ? "" : ", ") + below->path_.substr(path_.size() + 1);
  return all;
}

void command_line::refuse_command(const std::string& word) const {
  std::vector<std::string> names;
  for (const auto& below : parts_->commands)
    names.push_back(below->path_.substr(path_.size() + 1));
  const auto near = nearest(word, names);
  throw usage_error("'{}' has no command '{}'; {}",
                    path_,
                    word,
                    near.empty() ? "there are: " + names_below() : "did you mean '" + near + "'?");
}

std::string command_line::why_not(const std::string& flag) const {
  if (const auto found = parts_->refusals.find(flag); found != parts_->refusals.end())
    return fmt::format("{} is refused: {}", flag, found->second);
  for (const auto& [beginning, reason] : parts_->families)
    if (flag.starts_with(beginning))
      return fmt::format("{} is refused: {}", flag, reason);
  const auto near = nearest(flag, parts_->names());
  return fmt::format("{} is not a flag of '{}'{}",
                     flag,
                     path_,
                     near.empty() ? "" : "; did you mean " + near + "?");
}

command_description command_line::describe() const {
  auto out = parts_->self;
  out.works = bool(parts_->does);
  for (const auto& below : parts_->commands)
    out.commands.push_back(below->describe());
  return out;
}

}  // namespace troupe::command
