#include "actors/monitor/shown_records.hpp"

#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::actors {
namespace {

std::string_view kind_of(const runtime::step_report&) {
  return "step";
}
std::string_view kind_of(const runtime::validation_report&) {
  return "validation";
}
std::string_view kind_of(const runtime::run_event&) {
  return "event";
}

std::size_t bytes_of(const runtime::step_report& x) {
  auto out = runtime::record_ring::usual_bytes;
  for (const auto& of : x.experts)
    out += sizeof of + of.layer.size() + of.counts.size() * sizeof(of.counts[0]);
  return out;
}
std::size_t bytes_of(const runtime::run_event& x) {
  return runtime::record_ring::usual_bytes + x.who.size() + x.why.size();
}
template <class Report>
std::size_t bytes_of(const Report&) {
  return runtime::record_ring::usual_bytes;
}

std::string text_of(const runtime::step_report& x, const runtime::log_settings& how) {
  return runtime::json_record(x, how);
}
template <class Report>
std::string text_of(const Report& x, const runtime::log_settings&) {
  return runtime::json_record(x);
}

using rows = std::vector<std::vector<runtime::timed_action>>;

/// Maximum number of executed actions in a timeline. With the planned ones: about 1 MB of text.
constexpr std::size_t most_shown_actions = 16384;

double begin_of(const rows& all) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& row : all)
    for (const auto& x : row)
      out = std::min(out, x.begin);
  return out;
}

/// The first `most` actions, with times in ms since `from`.
nlohmann::json actions_of(const std::vector<runtime::timed_action>& all,
                          double from,
                          std::size_t most,
                          int copies) {
  auto out = nlohmann::json::array();
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
    out.push_back({to_string(all[i].what, copies), all[i].begin - from, all[i].end - from});
  return out;
}

nlohmann::json json_of(const messages::measured_device& x) {
  nlohmann::json out{{"device", x.device}, {"name", x.name}};
  const auto add = [&out](const char* name, double value) {
    if (value >= 0)
      out[name] = value;
  };
  add("power_w", x.power_w);
  add("clock_mhz", x.clock_mhz);
  add("temperature_c", x.temperature_c);
  add("utilisation", x.utilisation);
  if (x.memory_total_bytes > 0) {
    out["memory_bytes"] = x.memory_bytes;
    out["memory_total_bytes"] = x.memory_total_bytes;
  }
  return out;
}

nlohmann::json traffic_of(const std::map<std::string, messages::measured_traffic>& all) {
  auto out = nlohmann::json::array();
  for (const auto& [peer, x] : all)
    out.push_back(nlohmann::json{{"peer", peer}, {"messages", x.messages}, {"bytes", x.bytes}});
  return out;
}

std::string timeline_text(const messages::committed& x, const opened_job& job) {
  const auto plan = job.pipeline.schedule->training(x.microbatches);
  const auto found = compared(x, job);
  const auto from = begin_of(found.executed);
  const auto ranks = found.planned.ranks.size();  // 0 if no rank has an action
  const auto most = most_shown_actions / std::max<std::size_t>(1, ranks);
  std::size_t left_out = 0;
  auto all = nlohmann::json::array();
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto& row = found.executed[i];
    left_out += row.size() - std::min(row.size(), most);
    all.push_back(nlohmann::json{
        {"rank", i},
        {"executed", actions_of(row, from, most, plan->copies)},
        {"planned", actions_of(found.planned.ranks[i].actions, 0, most, plan->copies)}});
  }
  return runtime::json_text(nlohmann::json{{"iteration", x.report.iteration},
                                           {"left_out", left_out},
                                           {"planned_ms", found.planned_makespan},
                                           {"executed_ms", found.makespan},
                                           {"bubble", found.bubble},
                                           {"planned_bubble", found.planned_bubble},
                                           {"rows", std::move(all)}});
}

}  // namespace

runtime::execution compared(const messages::committed& x, const opened_job& job) {
  rows executed(x.executed.size());
  std::vector<std::uint64_t> clocks(x.executed.size());
  for (const auto& row : x.executed) {
    executed.at(std::size_t(row.rank)) = row.actions;
    clocks.at(std::size_t(row.rank)) = row.clock;
  }
  return runtime::compare(
      *job.pipeline.schedule->training(x.microbatches), std::move(executed), clocks);
}

void show(runtime::record_ring& to,
          const runtime::watched& x,
          const runtime::log_settings& settings,
          bool past) {
  std::visit(
      [&](const auto& report) {
        auto text = [report, settings] { return text_of(report, settings); };
        if (past)
          to.add_past(kind_of(report), std::move(text));
        else
          to.add(kind_of(report), std::move(text), bytes_of(report));
      },
      x);
}

void show(runtime::record_ring& to, const runtime::ledger::commanded& x, bool past) {
  auto text = [x] {
    auto arguments = runtime::json_value(runtime::text_of(x.what));
    arguments.erase("command");
    return runtime::json_text_replacing(nlohmann::json{{"name", runtime::name_of(x.what)},
                                                       {"step", x.step},
                                                       {"by", x.by},
                                                       {"arguments", std::move(arguments)}});
  };
  if (past)
    to.add_past("command", std::move(text));
  else
    to.add("command", std::move(text));
}

void show_timeline(runtime::record_ring& to,
                   const messages::committed& x,
                   const std::shared_ptr<const opened_job>& job) {
  constexpr std::size_t bytes_of_action = 64;
  std::size_t actions = 0;
  for (const auto& row : x.executed)
    actions += row.actions.size();
  to.add_sample(
      "timeline", "", actions * bytes_of_action, [x, job] { return timeline_text(x, *job); });
}

shown_process process_here(const opened_job& job) {
  shown_process out{.name = "supervisor", .role = "supervisor", .ranks = {}};
  if (job.job.layout.processes > 1)
    return out;
  out.ranks.resize(std::size_t(job.job.layout.world));
  std::iota(out.ranks.begin(), out.ranks.end(), 0);
  return out;
}

shown_process process_of(const opened_job& job, int process) {
  return {.name = fmt::format("node-{}", process),
          .role = "node",
          .ranks = job.placed.ranks_of(process)};
}

void show_process(runtime::record_ring& to, const shown_process& who, const messages::measured& x) {
  for (const auto& one : x.warnings)
    to.add(
        "warning",
        [one, process = who.name] {
          return runtime::json_text_replacing(
              nlohmann::json{{"severity", one.is_error ? "error" : "warning"},
                             {"process", process},
                             {"text", one.text}});
        },
        runtime::record_ring::usual_bytes + one.text.size());
  constexpr std::size_t bytes_of_sample = 600, bytes_of_member = 150;
  to.add_sample(
      "process", who.name, bytes_of_sample + x.members.size() * bytes_of_member, [who, x] {
        auto members = nlohmann::json::array();
        for (const auto& one : x.members)
          members.push_back(nlohmann::json{{"who", one.who},
                                           {"state", one.state},
                                           {"work", one.work},
                                           {"on", one.on},
                                           {"for_s", one.for_s},
                                           {"step", one.step}});
        nlohmann::json out{{"name", who.name},
                           {"role", who.role},
                           {"ranks", who.ranks},
                           {"host", x.host},
                           {"pid", x.pid},
                           {"up_s", x.up_s},
                           {"cpu_s", x.cpu_s},
                           {"resident_bytes", x.resident_bytes},
                           {"peak_resident_bytes", x.peak_resident_bytes},
                           {"memory", x.memory},
                           {"transfers", x.transfers},
                           {"leases", x.leases},
                           {"sent", traffic_of(x.sent)},
                           {"received", traffic_of(x.received)},
                           {"queues", x.queues},
                           {"lanes", std::move(members)}};
        if (x.energy_j >= 0)
          out["energy_j"] = x.energy_j;
        for (const auto& one : x.devices)
          out["devices"].push_back(json_of(one));
        return runtime::json_text_replacing(out);
      });
}

}  // namespace troupe::actors
