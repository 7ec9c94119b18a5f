// Parses the words of a command line: applies the flags, or throws an error with the reasons.

#include "actors/command/command_line_parts.hpp"
#include "actors/command/configuration.hpp"
#include "actors/command/print.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/command/told.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace troupe::command {
namespace {

constexpr std::size_t most_told = 1000;  // errors in one message: more than Megatron-LM has flags

bool is_flag(const std::string& word) {
  return word.starts_with("-") && word.size() > 1 && std::isdigit(word[1]) == 0;
}

}  // namespace

void command_line::parts::require_value(const flag_description& what,
                                        const std::string& word) const {
  if (word.starts_with("--") && knows(word))
    throw usage_error("{} needs a value, but the next word is {}", what.name, word);
  if (!takes(what.range, word))
    throw usage_error("{} '{}': give {} ({})",
                      what.name,
                      shown(word),
                      runtime::range_text(what.range),
                      what.default_value.empty() ? "no default" : "default: " + what.default_value);
}

void command_line::parts::apply(const declared_flag& flag) const {
  if (flag.is_toggle()) {
    if (flag.given->front() != "true")
      return;
    flag.take(flag.what.name, {});
  } else {
    for (const auto& word : *flag.given)
      require_value(flag.what, word);
    flag.take(flag.what.name, *flag.given);
  }
  if (noted != nullptr && !flag.what.field.empty())
    noted->insert({flag.what.field, flag.what.field.substr(0, flag.what.field.find('='))});
}

command_line::flags_by_key command_line::parts::keys() const {
  flags_by_key out;
  for (const auto& flag : flags)
    out.emplace(key_of(flag->what.name), flag.get());
  return out;
}

std::vector<const declared_flag*> command_line::parts::given() const {
  std::vector<const declared_flag*> out;
  for (const auto& flag : flags)
    if (flag->given)
      out.push_back(flag.get());
  return out;
}

std::vector<std::string> command_line::parts::names() const {
  std::vector<std::string> out = {"--help"};
  for (const auto& flag : flags)
    if (flag->what.name.starts_with("--"))
      out.push_back(flag->what.name);
  for (const auto& [flag, reason] : refusals)
    out.push_back(flag);
  return out;
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
  for (auto& below : commands)
    if (!words.empty() && below->path_ == path_ + " " + words[0])
      return below->parse({words.begin() + 1, words.end()});
  const bool below_program = path_.find(' ') != std::string::npos;
  if (commands.empty() || (parts_->does && below_program))
    return parse_flags(words);
  if (words.empty() && below_program)
    throw usage_error("'{}' needs a command: {}", path_, names_below());
  if (words.empty() || words[0] == "--help" || words[0] == "-h")
    return [this] {
      print_page(help());
      return 0;
    };
  if (words[0].starts_with("-"))
    return parse_flags(words);
  refuse_command(words[0]);
}

/// Returns `words` without the earlier uses of Megatron-LM's flags that take any number of values.
/// The last use counts, as in Megatron-LM.
std::vector<std::string> command_line::last_uses(const std::vector<std::string>& words) const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  std::vector<std::string> values;  // of the flag before them, in reverse
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
  const auto wanted = parts_->cut(last_uses(words));
  if (wanted != parts::help_wanted::none)
    return [this, wanted] {
      using enum parts::help_wanted;
      print_page(wanted == flags    ? short_help()
                 : wanted == faults ? faults_help_page(describe())
                                    : help());
      return 0;
    };
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

/// Applies configurations first, so that the command line overrides them even with another spelling
/// of a flag.
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
  for (const auto& word : parts_->left)
    if (is_flag(word))
      collect([&] { throw usage_error("{}", why_not(word.substr(0, word.find('=')))); });
  if (!wrong.empty())
    refuse(wrong);
  if (!parts_->left.empty())
    throw usage_error("'{}' does not belong to a flag: leave it out", parts_->left.front());
}

void command_line::refuse(const std::vector<std::string>& wrong) const {
  auto text = wrong.size() == 1 ? wrong.front()
                                : fmt::format("{}{} flags cannot be used:\n  {}",
                                              wrong.size() == most_told ? "at least " : "",
                                              wrong.size(),
                                              fmt::join(wrong, "\n  "));
  std::vector<std::string> more;
  if (parts_->besides)
    runtime::collect(more, [&] { more = parts_->besides(); });
  for (auto& sentence : more)
    sentence = with_flags(sentence);
  if (const auto others = independent_of(wrong, std::move(more)); !others.empty())
    text += fmt::format("\nalso:\n  {}", fmt::join(others, "\n  "));
  throw usage_error("{}", text);
}

void command_line::configure(const configured_flag& entry, const flags_by_key& keys) {
  if (entry.key == "config")
    throw usage_error("a configuration cannot include another: give --config twice");
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
    const bool counts = !flag->only_given || parts_->noted == nullptr
                        || parts_->noted->contains(flag->what.field);
    const auto now = flag->now && counts ? flag->now() : std::nullopt;
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
  throw usage_error(
      "'{}' has no command '{}'; {}",
      path_,
      word,
      near.empty() ? "its commands: " + names_below() : "did you mean '" + near + "'?");
}

std::string command_line::why_not(const std::string& flag) const {
  if (const auto found = parts_->refusals.find(flag); found != parts_->refusals.end())
    return fmt::format("{} is refused: {}", flag, found->second);
  if (const auto found = parts_->answers.find(key_of(flag)); found != parts_->answers.end())
    return fmt::format("{} is not a flag of '{}': {}", flag, path_, found->second);
  for (const auto& [beginning, reason] : parts_->families)
    if (flag.starts_with(beginning))
      return fmt::format("{} is refused: {}", flag, reason);
  const auto near = nearest(flag, parts_->names());
  if (parts_->refusals.contains(near))
    return fmt::format("{} is not a flag of '{}'; {}", flag, path_, why_not(near));
  return fmt::format("{} is not a flag of '{}'{}",
                     flag,
                     path_,
                     near.empty() ? "" : "; did you mean " + near + "?");
}

}  // namespace troupe::command
