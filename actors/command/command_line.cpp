#include "actors/command/command_line.hpp"

#include "actors/command/help_text.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

namespace troupe::command {
namespace {

/// Not an error: the user asked.
struct help_wanted {};

constexpr int any_number = CLI::detail::expected_max_vector_size;

std::string flag_of(const std::string& library_message) {
  return library_message.substr(0, library_message.find(':'));
}

}  // namespace

struct command_line::parts {
  std::string about;
  work does;
  CLI::App app;
  std::vector<std::unique_ptr<command_line>> commands;
  std::vector<help_section> sections = {{"", {}}};
  std::vector<std::string> notes;
  std::vector<std::string> names;  ///< of all flags, refused ones included
  // Not the library's: it compares each of its options with all others, and there are hundreds.
  std::map<std::string, std::string> refusals;
  std::vector<std::pair<std::string, std::string>> families;

  bool knows(const std::string& word) const {
    return app.get_option_no_throw(word) != nullptr || refusals.contains(word);
  }

  CLI::Option* declare(const std::string& flag, CLI::callback_t take) {
    if (flag.starts_with("--"))
      names.push_back(flag);
    return app.add_option(flag, std::move(take));
  }
};

command_line::command_line(std::string name, std::string about)
    : path_(std::move(name)), parts_(std::make_unique<parts>()) {
  parts_->about = std::move(about);
  parts_->app.set_help_flag("");
  parts_->app.allow_extras();
  parts_->app.add_flag_callback("-h,--help", [] { throw help_wanted(); });
  parts_->names.push_back("--help");
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
  parts_->sections.push_back({std::move(title), {}});
}

command_line& command_line::note(std::string text) {
  parts_->notes.push_back(std::move(text));
  return *this;
}

void command_line::value(const std::string& flag,
                         const std::string& type,
                         std::string help,
                         reader take) {
  parts_
      ->declare(flag,
                [flag, take = std::move(take), all = parts_.get()](const CLI::results_t& words) {
                  if (words[0].starts_with("--") && all->knows(words[0]))
                    throw usage_error("{} needs a value, but the next word is {}", flag, words[0]);
                  take(flag, words[0]);
                  return true;
                })
      ->type_name(type)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  parts_->sections.back().entries.push_back({flag + " " + type, std::move(help)});
}

void command_line::values(const std::string& flag,
                          const std::string& type,
                          int least,
                          int most,
                          std::string help,
                          list_reader take) {
  parts_
      ->declare(flag,
                [=, take = std::move(take), all = parts_.get()](const CLI::results_t& words) {
                  for (const auto& word : words)
                    if (word.starts_with("--") && all->knows(word))
                      throw usage_error("{} needs a value, but the next word is {}", flag, word);
                  if (int(words.size()) < least)
                    throw usage_error(
                        "{} needs {} values: {}; it got {}", flag, least, type, words.size());
                  take(flag, words);
                  return true;
                })
      ->expected(1, most)
      ->multi_option_policy(least == most ? CLI::MultiOptionPolicy::TakeLast
                                          : CLI::MultiOptionPolicy::TakeAll);
  parts_->sections.back().entries.push_back({flag + " " + type, std::move(help)});
}

void command_line::toggle(const std::string& flag, std::string help, std::function<void()> set) {
  parts_->names.push_back(flag);
  parts_->app.add_flag_callback(flag, std::move(set));
  parts_->sections.back().entries.push_back({flag, std::move(help)});
}

void command_line::accepted(const std::string& flag, int words) {
  if (words == 0) {
    parts_->names.push_back(flag);
    parts_->app.add_flag(flag);
  } else {
    parts_->declare(flag, [](const CLI::results_t&) { return true; })
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

void command_line::refused(const std::string& flag, const std::string& reason) {
  parts_->names.push_back(flag);
  parts_->refusals.emplace(flag, reason);
}

void command_line::refused_family(const std::string& beginning, const std::string& reason) {
  parts_->families.emplace_back(beginning, reason);
}

void command_line::words(const std::string& type, std::string help, std::vector<std::string>& to) {
  parts_->app.add_option("words", to)->expected(0, any_number);
  parts_->sections.front().entries.push_back({type, std::move(help)});
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

command_line::work command_line::parse_flags(std::vector<std::string> words) {
  given_ = words;
  std::reverse(words.begin(), words.end());  // the library takes them from the end
  try {
    parts_->app.parse(words);
  } catch (const help_wanted&) {
    return [this] {
      std::fputs(help().c_str(), stdout);
      return 0;
    };
  } catch (const CLI::ArgumentMismatch& failure) {
    throw usage_error("{} needs a value after it", flag_of(failure.what()));
  } catch (const CLI::ParseError& failure) {
    throw usage_error("{}", failure.what());
  }
  const auto left = parts_->app.remaining();
  refuse_flags(left);
  if (!left.empty())
    throw usage_error("'{}' is a word too many: it belongs to no flag", left.front());
  return [this] {
    try {
      return parts_->does();
    } catch (usage_error& failure) {
      failure.command = path_;
      throw;
    }
  };
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
  const auto near = nearest(flag, parts_->names);
  return fmt::format("{} is not a flag of '{}'{}",
                     flag,
                     path_,
                     near.empty() ? "" : "; did you mean " + near + "?");
}

void command_line::refuse_flags(const std::vector<std::string>& left) const {
  std::vector<std::string> wrong;
  for (const auto& word : left)
    if (word.starts_with("-") && word.size() > 1 && std::isdigit(word[1]) == 0)
      wrong.push_back(why_not(word.substr(0, word.find('='))));
  if (wrong.size() == 1)
    throw usage_error("{}", wrong.front());
  if (!wrong.empty())
    throw usage_error("{} flags cannot be used:\n  {}", wrong.size(), fmt::join(wrong, "\n  "));
}

std::string command_line::help() const {
  std::vector<help_section> sections = parts_->sections;
  if (!parts_->commands.empty()) {
    auto& list = sections.front();
    for (const auto& below : parts_->commands)
      list.entries.push_back({below->path_.substr(path_.size() + 1), below->parts_->about});
  }
  sections.front().entries.push_back({"-h, --help", "Prints this and exits."});
  return format_help(path_, parts_->about, sections, parts_->notes);
}

std::int64_t parse_whole(const std::string& flag,
                         const std::string& word,
                         std::int64_t least,
                         std::int64_t most) {
  std::int64_t out = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (failure != std::errc() || end != word.data() + word.size() || out < least || out > most)
    throw usage_error("{} '{}': give a whole number from {} to {}", flag, word, least, most);
  return out;
}

double parse_real(const std::string& flag, const std::string& word, double least, double most) {
  double out = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), out);
  const bool number = failure == std::errc() && end == word.data() + word.size();
  if (number && std::isfinite(out) && out >= least && out <= most)
    return out;
  constexpr double largest = std::numeric_limits<double>::max();
  std::string allowed = "a number";
  if (least > -largest)
    allowed += most < largest ? fmt::format(" from {} to {}", least, most)
                              : fmt::format(" of {} or more", least);
  throw usage_error("{} '{}': give {}", flag, word, allowed);
}

reader one_of(std::string& to, std::vector<std::string> allowed) {
  return [&to, allowed = std::move(allowed)](const std::string& flag, const std::string& word) {
    std::string list;
    for (const auto& name : allowed) {
      if (name == word) {
        to = word;
        return;
      }
      list += (list.empty() ? "" : ", ") + name;
    }
    throw usage_error("{} '{}': give one of {}", flag, word, list);
  };
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  auto least = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const auto& name : names) {
    // Levenshtein's distance, row by row.
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j)
      row[j] = j;
    for (std::size_t i = 0; i < word.size(); ++i) {
      auto diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < name.size(); ++j) {
        const auto replaced = diagonal + (word[i] == name[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace troupe::command
