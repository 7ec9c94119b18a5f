#include "actors/command/command_line.hpp"

#include "actors/command/command_line_parts.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace troupe::command {
namespace {

/// Not an error: the user asked.
struct asked_for_help {
  bool is_short = false;
};

constexpr int any_number = CLI::detail::expected_max_vector_size;

std::string flag_of(const std::string& library_message) {
  return library_message.substr(0, library_message.find(':'));
}

}  // namespace

command_line::parts::parts() : app(std::make_unique<CLI::App>()) {
  app->set_help_flag("");
  app->allow_extras();
  app->add_flag_callback("--help", [] { throw asked_for_help(); });
  app->add_flag_callback("-h", [] { throw asked_for_help{.is_short = true}; });
}

command_line::parts::~parts() = default;

CLI::Option* command_line::parts::declare(flag_description what, list_reader take) {
  auto& flag = *flags.emplace_back(std::make_unique<declared_flag>(
      declared_flag{std::move(what), self.groups.size() - 1, std::move(take)}));
  if (flag.what.use == flag_use::works)
    self.groups.back().flags.push_back(flag.what);
  else
    self.others.push_back(flag.what);
  if (flag.is_toggle())
    return app->add_flag_function(flag.what.name, [&flag](std::int64_t count) {
      flag.given = {count > 0 ? "true" : "false"};
    });
  return app->add_option(flag.what.name, [&flag](const CLI::results_t& words) {
    flag.given = words;
    return true;
  });
}

command_line::parts::help_wanted command_line::parts::cut(std::vector<std::string> words) {
  for (auto& flag : flags)
    flag->given.reset();
  std::reverse(words.begin(), words.end());  // the library takes them from the end
  try {
    app->parse(words);
    return help_wanted::none;
  } catch (const asked_for_help& wanted) {
    return wanted.is_short ? help_wanted::flags : help_wanted::page;
  } catch (const CLI::ArgumentMismatch& failure) {
    throw usage_error("{} needs a value after it", flag_of(failure.what()));
  } catch (const CLI::ParseError& failure) {
    throw usage_error("{}", failure.what());
  }
}

std::vector<std::string> command_line::parts::left() const {
  return app->remaining();
}

bool command_line::parts::knows(const std::string& word) const {
  return app->get_option_no_throw(word) != nullptr || refusals.contains(word);
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
  parts_->app->add_option("words", to)->expected(0, any_number);
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

command_description command_line::describe() const {
  auto out = parts_->self;
  out.works = bool(parts_->does);
  for (const auto& below : parts_->commands)
    out.commands.push_back(below->describe());
  return out;
}

}  // namespace troupe::command
