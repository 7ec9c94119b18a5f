#include "actors/command/chaos/report.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/terminal_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::command::chaos {
namespace {

using nlohmann::ordered_json;

struct time_row {
  const char* name;
  std::optional<double> struck_fault::*value;
};

constexpr time_row times[] = {{"detect", &struck_fault::detect},
                              {"release", &struck_fault::release},
                              {"respawn", &struck_fault::respawn},
                              {"transfer", &struck_fault::transfer},
                              {"rebuild", &struck_fault::rebuild},
                              {"replay", &struck_fault::replay},
                              {"first_new_step", &struck_fault::first_new}};

template <class T>
ordered_json or_null(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

ordered_json json_of(const struck_fault& x) {
  ordered_json out = {{"number", x.what.number},
                      {"run", x.what.run},
                      {"role", row_of(x.what.who).name},
                      {"kind", row_of(x.what.kind).name},
                      {"moment", nullptr},
                      {"step", x.what.step},
                      {"plants", x.what.plants},
                      {"victim", x.victim},
                      {"pid", nullptr},
                      {"at_seconds", x.at},
                      {"committed", x.committed}};
  if (!x.what.moment.empty())
    out["moment"] = x.what.moment;
  if (x.pid != 0)
    out["pid"] = x.pid;
  for (const auto& time : times)
    out[time.name] = or_null(x.*time.value);
  out["resumed_from"] = or_null(x.resumed_from);
  out["replayed"] = x.replayed;
  out["computed_again"] = x.again;
  out["lost"] = x.lost;
  out["told"] = x.why;
  out["replaced"] = x.replaced_ones;
  out["survivors"] = {{"count", x.survivors.size()}, {"processes", x.survivors}};
  out["processes_seen"] = x.processes_seen;
  out["had_effect"] = x.had_effect;
  out["wrong"] = x.wrong;
  return out;
}

ordered_json json_of(const run_result& x) {
  return {{"number", x.number},
          {"folder", x.folder.empty() ? ordered_json(nullptr) : ordered_json(x.folder.string())},
          {"exit_code", x.exit_code},
          {"seconds", x.seconds},
          {"steps", x.steps},
          {"state_digest", x.digest},
          {"moves", x.moves},
          {"replayed_by_moves", x.replayed_by_moves},
          {"oracles",
           {{"ended", x.ended},
            {"state", x.state},
            {"checkpoint", x.checkpoint},
            {"ledger", x.ledger},
            {"log", x.log},
            {"leftovers", x.left}}},
          {"holds", x.holds()}};
}

std::vector<double> values_of(const chaos_report& x, const time_row& time) {
  std::vector<double> out;
  for (const auto* fault : x.faults())
    if (const auto& value = fault->*time.value)
      out.push_back(*value);
  return out;
}

std::string cell(const std::optional<double>& x) {
  return x ? fmt::format("{:.3f}", *x) : "-";
}

constexpr const char* row_form
    = "{:>4} {:>4} {:>6}  {:<12} {:<21} {:<15} {:<12} {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>8} "
      "{:>5}  {}\n";

std::string verdict_of(const struck_fault& x) {
  if (!x.wrong.empty())
    return "WRONG: " + fmt::format("{}", fmt::join(x.wrong, "; "));
  const auto kept = fmt::format("{} kept ({})", x.survivors.size(), fmt::join(x.survivors, ", "));
  const auto seen = x.processes_seen ? "" : "; struck before the processes were listed";
  return (!x.had_effect ? "no effect, " + kept
          : x.replaced_ones.empty()
              ? kept
              : fmt::format("replaced {}, {}", fmt::join(x.replaced_ones, ", "), kept))
         + seen;
}

std::string markdown_table(const std::string& corner,
                           const std::vector<std::string>& rows,
                           const std::vector<std::string>& columns,
                           const auto& cell_of) {
  std::string out = "| " + corner + " |";
  for (const auto& column : columns)
    out += " " + column + " |";
  out += "\n|";
  for (std::size_t i = 0; i <= columns.size(); ++i)
    out += "---|";
  out += "\n";
  for (const auto& row : rows) {
    out += "| " + row + " |";
    for (const auto& column : columns)
      out += " " + cell_of(row, column) + " |";
    out += "\n";
  }
  return out;
}

void add_once(std::vector<std::string>& to, const std::string& x) {
  if (std::find(to.begin(), to.end(), x) == to.end())
    to.push_back(x);
}

}  // namespace

bool chaos_report::holds() const {
  return undisturbed.holds()
         && std::all_of(runs.begin(), runs.end(), [](const run_result& x) { return x.holds(); });
}

sentences chaos_report::all_wrong() const {
  sentences out;
  for (const auto& x : undisturbed.all_wrong())
    out.push_back("undisturbed, " + x);
  for (const auto& run : runs)
    for (const auto& x : run.all_wrong())
      out.push_back(fmt::format("run {} ('{}'), {}", run.number, run.folder.string(), x));
  return out;
}

std::vector<const struck_fault*> chaos_report::faults() const {
  std::vector<const struck_fault*> out;
  for (const auto& run : runs)
    for (const auto& x : run.faults)
      out.push_back(&x);
  return out;
}

std::size_t chaos_report::without_effect() const {
  const auto all = faults();
  return std::size_t(
      std::count_if(all.begin(), all.end(), [](const auto* x) { return !x->had_effect; }));
}

std::optional<double> percentile(std::vector<double> all, double hundredths) {
  if (all.empty())
    return std::nullopt;
  std::sort(all.begin(), all.end());
  const auto rank = std::size_t(std::ceil(hundredths / 100 * double(all.size())));
  return all[std::clamp<std::size_t>(rank, 1, all.size()) - 1];
}

std::optional<double> effective_share(const chaos_report& x, double every_seconds) {
  double lost = 0;
  int count = 0;
  for (const auto* fault : x.faults())
    if (fault->first_new) {
      lost += std::max(0.0, *fault->first_new - x.step_seconds);
      ++count;
    }
  if (count == 0)
    return std::nullopt;
  return every_seconds / (every_seconds + lost / count);
}

ordered_json json_of(const chaos_report& x) {
  constexpr double usual_interval = 60;
  ordered_json out = {{"program", x.program},
                      {"command", x.command},
                      {"seed", x.seed},
                      {"replay", x.replay},
                      {"holds", x.holds()},
                      {"wrong", x.all_wrong()},
                      {"step_seconds", x.step_seconds},
                      {"undisturbed", json_of(x.undisturbed)},
                      {"percentiles", ordered_json::object()}};
  for (const auto& time : times) {
    const auto all = values_of(x, time);
    out["percentiles"][time.name] = {{"count", all.size()},
                                     {"p50", or_null(percentile(all, 50))},
                                     {"p99", or_null(percentile(all, 99))},
                                     {"most", or_null(percentile(all, 100))}};
  }
  out["without_effect"] = x.without_effect();
  std::uint64_t lost = 0, again = 0;
  for (const auto* fault : x.faults()) {
    lost += fault->lost;
    again = std::max(again, fault->again);
  }
  out["steps_lost"] = lost;
  out["most_computed_again"] = again;
  out["effective_share_every_60_s"] = or_null(effective_share(x, usual_interval));
  out["faults"] = ordered_json::array();
  for (const auto* fault : x.faults())
    out["faults"].push_back(json_of(*fault));
  out["runs"] = ordered_json::array();
  for (const auto& run : x.runs)
    out["runs"].push_back(json_of(run));
  return out;
}

std::string table_head() {
  return fmt::format(row_form,
                     "#",
                     "run",
                     "step",
                     "role",
                     "kind",
                     "moment",
                     "victim",
                     "detect",
                     "release",
                     "respawn",
                     "transfer",
                     "rebuild",
                     "replay",
                     "new step",
                     "again",
                     "processes");
}

std::string table_row(const struck_fault& x) {
  return runtime::without_control(fmt::format(row_form,
                                              x.what.number,
                                              x.what.run,
                                              x.what.step,
                                              row_of(x.what.who).name,
                                              row_of(x.what.kind).name,
                                              x.what.moment.empty() ? "-" : x.what.moment,
                                              x.victim,
                                              cell(x.detect),
                                              cell(x.release),
                                              cell(x.respawn),
                                              cell(x.transfer),
                                              cell(x.rebuild),
                                              cell(x.replay),
                                              cell(x.first_new),
                                              x.again,
                                              verdict_of(x)));
}

std::string summary_of(const chaos_report& x) {
  std::string out
      = fmt::format("\n{:<16}{:>7}{:>9}{:>9}{:>9}\n", "seconds", "count", "p50", "p99", "most");
  for (const auto& time : times) {
    const auto all = values_of(x, time);
    out += fmt::format("{:<16}{:>7}{:>9}{:>9}{:>9}\n",
                       time.name,
                       all.size(),
                       cell(percentile(all, 50)),
                       cell(percentile(all, 99)),
                       cell(percentile(all, 100)));
  }
  const auto wrong = x.all_wrong();
  const auto idle = x.without_effect();
  out += fmt::format(
      "\n{} in {}: {}{}\n",
      runtime::counted(x.faults().size(), "fault"),
      runtime::counted(x.runs.size(), "run"),
      wrong.empty() ? "all checks hold" : runtime::counted(wrong.size(), "thing") + " wrong",
      idle == 0 ? "" : fmt::format("; {} had no effect", idle));
  return out;
}

std::string markdown_of(const chaos_report& x) {
  std::vector<std::string> kind_names, process_roles, planted_rows, moments;
  const auto row_name = [](const struck_fault& f) {
    return fmt::format("{}, {}", row_of(f.what.who).name, row_of(f.what.kind).name);
  };
  for (const auto* f : x.faults())
    if (f->what.moment.empty()) {
      add_once(kind_names, std::string(row_of(f->what.kind).name));
      add_once(process_roles, std::string(row_of(f->what.who).name));
    } else {
      add_once(planted_rows, row_name(*f));
      add_once(moments, f->what.moment);
    }
  const auto verdict = [&](const auto& is_wanted) -> std::string {
    std::size_t held = 0, all = 0, idle = 0;
    for (const auto& run : x.runs)
      for (const auto& f : run.faults)
        if (is_wanted(f)) {
          ++all;
          held += run.holds() ? 1 : 0;
          idle += f.had_effect ? 0 : 1;
        }
    const auto shown = all - idle;
    return all == 0     ? ""
           : held < all ? "**FAIL**"
           : shown == 0 ? "no effect"
           : shown == 1 ? "ok"
                        : fmt::format("{} ok", shown);
  };
  std::string out;
  if (!process_roles.empty())
    out += markdown_table("struck", process_roles, kind_names, [&](auto& role, auto& kind) {
      return verdict([&](const struck_fault& f) {
        return f.what.moment.empty() && row_of(f.what.who).name == role
               && row_of(f.what.kind).name == kind;
      });
    });
  if (!planted_rows.empty())
    out += (out.empty() ? "" : "\n")
           + markdown_table("planted", planted_rows, moments, [&](auto& row, auto& moment) {
               return verdict([&](const struck_fault& f) {
                 return f.what.moment == moment && row_name(f) == row;
               });
             });
  return out;
}

}  // namespace troupe::command::chaos
