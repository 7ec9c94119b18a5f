#include "actors/command/command_line.hpp"

#include "actors/command/command_line_parts.hpp"
#include "actors/command/configuration.hpp"
#include "runtime/core/error.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <utility>

namespace troupe::command {
namespace {

constexpr int any_number = CLI::detail::expected_max_vector_size;

void take_last(CLI::Option& option) {
  option.multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string flag_of(const std::string& library_message) {
  return library_message.substr(0, library_message.find(':'));
}

}  // namespace

command_line::parts::parts() = default;
command_line::parts::~parts() = default;

declared_flag& command_line::parts::declare(flag_description what,
                                            list_reader take,
                                            std::function<void(CLI::Option&)> shape) {
  auto& flag = *flags.emplace_back(std::make_unique<declared_flag>(
      declared_flag{std::move(what), self.groups.size() - 1, std::move(take), std::move(shape)}));
  runtime::ensure(by_name.emplace(flag.what.name, &flag).second,
                  "FLAG-1: a command has one flag of each name");
  if (flag.what.use != flag_use::works) {
    self.others.push_back(flag.what);
  } else if (flag.what.injects_faults) {
    if (self.faults.empty())
      self.groups.front().flags.push_back(
          {.name = help_faults_flag,
           .help = "Prints the flags that inject faults into a run, for tests, and exits."});
    self.faults.push_back(flag.what);
  } else {
    self.groups.back().flags.push_back(flag.what);
  }
  return flag;
}

void command_line::parts::tell(CLI::App& library, declared_flag& flag) const {
  if (flag.is_toggle()) {
    library.add_flag_function(flag.what.name, [&flag](std::int64_t count) {
      flag.given = {count > 0 ? "true" : "false"};
    });
    return;
  }
  auto* option = library.add_option(flag.what.name, [&flag](const CLI::results_t& given) {
    flag.given = given;
    return true;
  });
  if (flag.shape)
    flag.shape(*option);
}

command_line::parts::help_wanted command_line::parts::cut(std::vector<std::string> all) {
  struct asked_for_help {
    help_wanted what;
  };
  CLI::App library;
  library.set_help_flag("");
  library.allow_extras();
  const auto prints = [&library](const char* flag, help_wanted what) {
    library.add_flag_callback(flag, [what] { throw asked_for_help{what}; });
  };
  prints("--help", help_wanted::page);
  prints("-h", help_wanted::flags);
  if (!self.faults.empty())
    prints(help_faults_flag, help_wanted::faults);
  if (words != nullptr)
    library.add_option("words", *words)->expected(0, any_number);
  for (auto& flag : flags)
    flag->given.reset();
  std::set<std::string> told;
  for (const auto& word : all)
    if (const auto found = by_name.find(word.substr(0, word.find('=')));
        found != by_name.end() && told.insert(found->first).second)
      tell(library, *found->second);
  std::reverse(all.begin(), all.end());  // the library reads them from the end
  try {
    library.parse(all);
    left = library.remaining();
    return help_wanted::none;
  } catch (const asked_for_help& wanted) {
    return wanted.what;
  } catch (const CLI::ArgumentMismatch& failure) {
    throw usage_error("{} needs a value after it", flag_of(failure.what()));
  } catch (const CLI::ParseError& failure) {
    throw usage_error("{}", failure.what());
  }
}

bool command_line::parts::knows(const std::string& word) const {
  return word == "--help" || (word == help_faults_flag && !self.faults.empty())
         || by_name.contains(word) || refusals.contains(word);
}

command_line::command_line(std::string name, std::string about)
    : path_(std::move(name)), parts_(std::make_unique<parts>()) {
  parts_->self.path = path_;
  parts_->self.about = std::move(about);
  parts_->self.groups.emplace_back();
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

void command_line::notes(std::set<std::string, std::less<>>& given) {
  parts_->noted = &given;
}

void command_line::tells_besides(std::function<std::vector<std::string>()> more) {
  parts_->besides = std::move(more);
}

void command_line::group(std::string title) {
  parts_->self.groups.push_back({std::move(title), {}});
}

command_line& command_line::begins_with(std::string text) {
  parts_->self.beginnings.push_back(std::move(text));
  return *this;
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
  const auto now = take.now && !take.only_given ? take.now() : std::nullopt;
  if (now && what.default_value.empty())
    what.default_value = *now;
  const auto first = [take = std::move(take.take)](const std::string& name,
                                                   const std::vector<std::string>& words) {
    take(name, words[0]);
  };
  auto& flag = parts_->declare(std::move(what), first, take_last);
  flag.now = std::move(take.now);
  flag.only_given = take.only_given;
}

void command_line::values(flag_description what, list_reader take) {
  const int least = what.least, most = what.most;
  const auto counted = [least, most, type = what.type, take = std::move(take)](
                           const std::string& name, const std::vector<std::string>& words) {
    if (int(words.size()) < least || int(words.size()) > most)
      throw usage_error("{} needs {} values: {}; {} are given", name, least, type, words.size());
    take(name, words);
  };
  const bool replaces = what.megatron.has_value();
  const auto policy
      = least == most ? CLI::MultiOptionPolicy::TakeLast : CLI::MultiOptionPolicy::TakeAll;
  parts_->declare(std::move(what), counted, [most, replaces, policy](CLI::Option& option) {
    option.expected(1, most)->trigger_on_parse(replaces)->multi_option_policy(policy);
  });
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
  parts_->declare(
      std::move(what), [](const auto&, const auto&) {}, take_last);
}

void command_line::refused(const std::string& flag, const std::string& reason) {
  parts_->refusals.emplace(flag, reason);
  parts_->self.others.push_back({.name = flag, .help = reason, .use = flag_use::refused});
}

void command_line::answers(const std::string& flag, const std::string& instead) {
  parts_->answers.emplace(key_of(flag), instead);
}

void command_line::refused_family(const std::string& beginning, const std::string& reason) {
  parts_->families.emplace_back(beginning, reason);
  parts_->self.others.push_back(
      {.name = beginning + "...", .help = reason, .use = flag_use::refused});
}

void command_line::words(const std::string& type, std::string help, std::vector<std::string>& to) {
  parts_->words = &to;
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
  values(config_flag,
         "FILE...",
         1,
         1 << 10,
         "Reads flags from YAML: their names without the dashes, as num-layers: 24. A later file "
         "overrides an earlier one, and the command line overrides all files.",
         all(parts_->configurations));
}

command_description command_line::describe() const {
  auto out = parts_->self;
  out.works = bool(parts_->does);
  for (const auto& below : parts_->commands)
    out.commands.push_back(below->describe());
  return out;
}

}  // namespace troupe::command
