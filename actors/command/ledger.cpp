// `troupe ledger`: shows and checks the ledger in a run's folder.

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/run_flag.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/state/ledger_record.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

constexpr int not_in_order = 1;  // exit code

/// Summary of the records, which are visited in their order.
struct ledger_summary {
  /// First iteration (unknown for a file that was cut) and newest iteration.
  std::optional<std::uint64_t> first, newest;
  std::uint64_t consumed = 0;  ///< samples, after the newest iteration
  runtime::digest state = {};  ///< after the newest iteration
  std::uint64_t replays = 0, told = 0;
  std::vector<runtime::restart> restarts;
  std::vector<std::uint64_t> saved, validated;
  std::optional<std::string> drained;
  std::vector<runtime::ledger::commanded> commands;

  void operator()(const runtime::ledger::begun& x) {
    first = newest = x.at.iteration;
    consumed = x.at.consumed;
  }
  void operator()(const runtime::ledger::committed& x) {
    newest = x.at.iteration;
    consumed = x.at.consumed;
    state = x.state;
  }
  void operator()(const runtime::ledger::replayed&) { ++replays; }
  void operator()(const runtime::ledger::told& x) { told = x.number; }
  void operator()(const runtime::ledger::restarted& x) { restarts.push_back(x.what); }
  void operator()(const runtime::ledger::saved& x) { saved.push_back(x.iteration); }
  void operator()(const runtime::ledger::validated& x) { validated.push_back(x.iteration); }
  void operator()(const runtime::ledger::drained& x) { drained = x.why; }
  void operator()(const runtime::ledger::commanded& x) { commands.push_back(x); }
  void operator()(const runtime::ledger::succeeded&) {}
  void operator()(const runtime::ledger::job&) {}
  void operator()(const runtime::ledger::keepers&) {}
  void operator()(const runtime::ledger::avoided&) {}
  void operator()(const runtime::ledger::position&) {}
  void operator()(const runtime::ledger::tested&) {}
};

std::string page(const std::filesystem::path& file,
                 const ledger_summary& x,
                 const std::vector<std::string>& wrong) {
  std::string out;
  const auto fact = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<11}{}\n", name, value);
  };
  const auto iterations = [](const std::vector<std::uint64_t>& all) {
    return all.empty() ? std::string("-") : fmt::format("{}", fmt::join(all, ", "));
  };
  fact("ledger", file.string());
  if (!x.newest)
    return out + "no iteration is committed: the run has not begun\n";
  fact("committed",
       !x.first ? fmt::format("up to iteration {}; earlier records are missing", *x.newest)
       : *x.newest == *x.first ? fmt::format("nothing since iteration {}", *x.first)
                               : fmt::format("iterations {} to {}{}",
                                             *x.first + 1,
                                             *x.newest,
                                             wrong.empty() ? ", each once" : ""));
  fact("samples", fmt::format("{} consumed", x.consumed));
  if (x.state != runtime::digest{})
    fact("state", fmt::format("{} after iteration {}", to_string(x.state), *x.newest));
  fact("ran again", runtime::counted(x.replays, "iteration"));
  fact("validated", iterations(x.validated));
  fact("saved", iterations(x.saved));
  fact("restarts", std::to_string(x.restarts.size()));
  for (const auto& one : x.restarts)
    fact("", fmt::format("{}, at iteration {}", one.who, one.step));
  if (!x.commands.empty())
    fact("commands", std::to_string(x.commands.size()));
  for (const auto& one : x.commands)
    fact("", fmt::format("{}, from iteration {} on", runtime::text_of(one.what), one.step));
  if (x.drained)
    fact("asked", "to end early: " + *x.drained);
  if (!wrong.empty())
    fact("wrong", runtime::counted(wrong.size(), "thing") + ": --check names them");
  return out;
}

ordered_json json_of(const std::filesystem::path& file,
                     const ledger_summary& x,
                     const std::vector<std::string>& wrong) {
  ordered_json out = {{"ledger", file.string()},
                      {"started_at", nullptr},
                      {"committed", nullptr},
                      {"consumed_samples", x.consumed},
                      {"state_digest", to_string(x.state)},
                      {"ran_again", x.replays},
                      {"validated", x.validated},
                      {"saved", x.saved},
                      {"restarts", ordered_json::array()},
                      {"commands", ordered_json::array()},
                      {"asked_to_end", nullptr},
                      {"wrong", wrong}};
  if (x.newest) {
    out["committed"] = *x.newest;
    if (x.first)
      out["started_at"] = *x.first;
  }
  for (const auto& one : x.restarts)
    out["restarts"].push_back({{"who", one.who}, {"iteration", one.step}});
  for (const auto& one : x.commands)
    out["commands"].push_back(
        ordered_json{{"step", one.step},
                     {"command", runtime::ordered_json_value(runtime::text_of(one.what))},
                     {"by", one.by}});
  if (x.drained)
    out["asked_to_end"] = *x.drained;
  return out;
}

struct ledger_flags {
  std::shared_ptr<named_run_folder> run;
  bool json = false, check = false;
};

int show_ledger(const ledger_flags& flags) {
  const auto file = open_run(*flags.run).ledger();
  if (!std::filesystem::exists(file))
    throw runtime::input_error(
        "there is no ledger '{}': the run has not begun, or is of a build without ledgers",
        file.string());
  const auto all = runtime::read_ledger(file);
  ledger_summary x;
  for (const auto& one : all)
    std::visit(x, one);
  const auto wrong = runtime::complaints_of(all);
  if (flags.json)
    print_json(runtime::json_text_replacing(json_of(file, x, wrong), 1));
  else
    print_page(page(file, x, wrong));
  if (!flags.check)
    return 0;
  for (const auto& one : wrong)
    runtime::log_error("{}", one);
  if (!wrong.empty())
    return not_in_order;
  if (!flags.json)
    runtime::log_info("the ledger is in order: {}", runtime::counted(all.size(), "record"));
  return 0;
}

}  // namespace

void add_ledger(command_line& program) {
  auto& line = program.command(
      "ledger", "shows and checks the iterations that a run committed, saved and ran again.");
  const auto flags = std::make_shared<ledger_flags>();
  flags->run = declare_run(line);
  line.toggle("--json", "Prints JSON, for programs.", [flags] { flags->json = true; });
  line.toggle("--check",
              "Checks the ledger: it begins at the start of the run; iterations are committed once "
              "and ascending, each with its own samples and reported once; an iteration that ran "
              "again has the same state; saved iterations were committed before.",
              [flags] { flags->check = true; });
  line.note(
      "The ledger is written during the run, so this command works at any time. Exit code 0: the "
      "ledger is shown. 1: --check finds an error. 2: the ledger is missing or damaged.");
  line.runs([flags] { return show_ledger(*flags); });
}

}  // namespace troupe::command
