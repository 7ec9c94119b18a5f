#include "actors/command/ended_run.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/state/ledger_record.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "runtime/watch/follower.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <variant>
#include <vector>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

/// Last facts in the ledger.
struct last_facts {
  std::optional<std::uint64_t> committed, saved;
  std::vector<runtime::restart> restarts;
  std::optional<runtime::step_report> step;
  std::string damage;

  void take(const runtime::ledger_record& x) {
    if (std::holds_alternative<runtime::ledger::committed>(x))
      committed = std::get<runtime::ledger::committed>(x).at.iteration;
    if (std::holds_alternative<runtime::ledger::saved>(x))
      saved = std::get<runtime::ledger::saved>(x).iteration;
    if (std::holds_alternative<runtime::ledger::restarted>(x))
      restarts.push_back(std::get<runtime::ledger::restarted>(x).what);
    if (const auto* const fact = std::get_if<runtime::ledger::told>(&x))
      if (const auto* const report = std::get_if<runtime::step_report>(&fact->fact))
        step = *report;
  }
};

last_facts last_facts_of(const runtime::run_folder& folder) {
  last_facts out;
  std::error_code ignored;
  if (!std::filesystem::exists(folder.ledger(), ignored))
    return out;
  try {
    for (const auto& one : runtime::read_ledger(folder.ledger()))
      out.take(one);
  } catch (const runtime::error& failure) {
    out.damage = failure.what();
  }
  return out;
}

/// "300 of 300, loss 3.5117".
std::string last_step_text(const last_facts& facts, const runtime::run_status& x) {
  auto out = facts.committed ? std::to_string(*facts.committed) : std::string("none");
  for (const auto& one : x.processes)
    if (const auto& training = one.entry.progress.training) {
      out += fmt::format(" of {}", training->steps);
      break;
    }
  if (facts.step && !facts.step->has_no_loss())
    out += fmt::format(", loss {:.4f}", facts.step->loss);
  return out;
}

std::string end_sentence(const runtime::run_status& x) {
  if (!x.record.ended)
    return "the run died: none of its processes runs, and no end was recorded; read its logs in "
           "the folder 'logs'";
  const auto& end = *x.record.ended;
  return fmt::format("the run has ended at {} with exit code {}{}{}",
                     end.at,
                     end.exit_code,
                     end.reason.empty() ? "" : ": ",
                     end.reason);
}

ordered_json run_json(const runtime::run_folder& folder, const runtime::run_status& x) {
  return {{"version", runtime::hub_version},
          {"id", x.record.id},
          {"name", folder.name()},
          {"folder", std::filesystem::absolute(folder.path()).string()},
          {"program", x.record.program},
          {"command", x.record.command},
          {"started_at", runtime::unix_seconds(x.record.started)}};
}

/// The records that a live run would send last.
std::vector<ordered_json> last_records(const last_facts& facts, const runtime::run_status& x) {
  std::vector<ordered_json> out;
  if (facts.step) {
    auto& step = out.emplace_back();
    step = {{"kind", "step"}, {"iteration", facts.step->iteration}};
    for (const auto& [key, mean] : runtime::loss_fields(*facts.step))
      step[key] = mean;
    step["learning_rate"] = facts.step->learning_rate;
  }
  if (facts.saved)
    out.push_back({{"kind", "save"}, {"state", "written"}, {"iteration", *facts.saved}});
  if (const auto& end = x.record.ended)
    out.push_back({{"kind", "end"}, {"exit_code", end->exit_code}, {"reason", end->reason}});
  return out;
}

}  // namespace

std::string ended_run_page(const runtime::run_folder& folder, const runtime::run_status& x) {
  std::string out;
  const auto fact = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<9}{}\n", name, value);
  };
  const auto facts = last_facts_of(folder);
  fact("run", std::filesystem::absolute(folder.path()).string() + " (" + x.record.id + ")");
  fact("state", runtime::name_of(x.condition));
  fact("started", x.record.started);
  fact("step", last_step_text(facts, x));
  if (facts.saved)
    fact("saved", fmt::format("iteration {}", *facts.saved));
  for (const auto& one : facts.restarts)
    fact("restart", fmt::format("{}, at iteration {}", one.who, one.step));
  if (!facts.damage.empty())
    fact("ledger", facts.damage);
  fact("command", fmt::format("{}", fmt::join(x.record.command, " ")));
  return out + "\n" + end_sentence(x) + "\n";
}

std::string ended_run_json(const runtime::run_folder& folder, const runtime::run_status& x) {
  return runtime::json_text_replacing(
      ordered_json{{"run", run_json(folder, x)},
                   {"state", runtime::name_of(x.condition)},
                   {"next", ""},
                   {"records", last_records(last_facts_of(folder), x)}});
}

std::vector<std::string> ended_run_lines(const runtime::run_folder& folder,
                                         const runtime::run_status& x) {
  auto run = run_json(folder, x);
  run["kind"] = "run";
  std::vector out{runtime::json_text_replacing(run)};
  for (const auto& one : last_records(last_facts_of(folder), x))
    out.push_back(runtime::json_text_replacing(one));
  return out;
}

}  // namespace troupe::command
