#include "actors/command/simulate_size.hpp"

#include "actors/command/print.hpp"
#include "actors/simulation/cluster.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/process/huge_pages.hpp"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace troupe::command {
namespace {

using actors::simulation::cluster_run;
using actors::simulation::cluster_settings;
using actors::simulation::counted_messages;
using actors::simulation::kind_counts;
using actors::simulation::message_count;

constexpr std::int64_t most_simulated_workers = 1'000'000;
constexpr int workers_in_simulated_process = 8;
/// More than the actors of a worker, and their messages, take.
constexpr std::size_t bytes_of_simulated_worker = 96 << 10;

cluster_settings settings_of(const size_flags& flags, int workers) {
  cluster_settings out;
  out.workers = workers;
  const int each = workers_in_simulated_process;
  out.processes = int(flags.processes.value_or(std::max(2, (workers + each - 1) / each)));
  out.hosts = int(flags.hosts.value_or(out.processes));
  out.steps = int(flags.steps.value_or(out.steps));
  if (flags.kill)
    out.kill = *flags.kill == "process" ? actors::simulation::failing_part::process
               : *flags.kill == "host"  ? actors::simulation::failing_part::host
                                        : actors::simulation::failing_part::rack;
  return out;
}

std::string text_of(const kind_counts& x) {
  return fmt::format("  {:12} {:8} {:12} {:14} {:10} {:12} {:10} {:12}\n",
                     x.kind,
                     x.actors,
                     x.handled.messages,
                     x.handled.bytes,
                     x.most_handled.messages,
                     x.most_handled.bytes,
                     x.most_sent.messages,
                     x.most_sent.bytes);
}

std::string text_of(const cluster_run& x) {
  const auto& of = x.of;
  auto out = fmt::format(
      "{} workers in {} processes on {} hosts: TP {}, PP {}, DP {}, {} micro-batches a replica\n"
      "  start {:.3f} s, {} messages, {} bytes; step {:.3f} ms from order to commit\n",
      of.workers,
      of.processes,
      of.hosts,
      x.tensor,
      x.pipeline,
      x.replicas,
      actors::simulation::cluster_microbatches,
      x.start_seconds,
      x.start.all.messages,
      x.start.all.bytes,
      x.step_seconds * 1e3);
  if (x.recovery)
    out += fmt::format(
        "  {} processes die: the run goes back to step {} (states from: {}), restart {:.3f} s, the "
        "next new step is committed after {:.3f} s, {} messages, {} bytes\n",
        x.recovery->processes,
        x.recovery->resumed,
        x.recovery->from,
        x.recovery->restart_seconds,
        x.recovery->outage_seconds,
        x.recovery->messages.all.messages,
        x.recovery->messages.all.bytes);
  out += fmt::format("  simulated in {:.1f} s, {} turns, {:.1f} KiB of memory a worker\n",
                     x.seconds,
                     x.turns,
                     double(x.bytes_per_worker) / 1024);
  out += fmt::format("\n  {:12} {:>8} {:>12} {:>14} {:>23} {:>23}\n",
                     "a step",
                     "",
                     "all handle",
                     "",
                     "most of one: handled",
                     "sent");
  out += fmt::format("  {:12} {:>8} {:>12} {:>14} {:>10} {:>12} {:>10} {:>12}\n",
                     "actor",
                     "number",
                     "messages",
                     "bytes",
                     "messages",
                     "bytes",
                     "messages",
                     "bytes");
  for (const auto& kind : x.step.kinds)
    out += text_of(kind);
  out += fmt::format("\n  {:12} {:20} {:>12} {:>14}\n", "to", "message", "a step", "bytes");
  for (const auto& type : x.step.types)
    out += fmt::format(
        "  {:12} {:20} {:12} {:14}\n", type.to, type.message, type.all.messages, type.all.bytes);
  return out + "\n";
}

std::optional<double> exponent(const cluster_run& a, const cluster_run& b, std::size_t figure) {
  return actors::simulation::growth({a.of.workers, b.of.workers},
                                    {actors::simulation::figures_of(a)[figure].value,
                                     actors::simulation::figures_of(b)[figure].value});
}

std::string growth_text(const std::vector<cluster_run>& all) {
  if (all.size() < 2)
    return {};
  auto out = fmt::format("{:40}", "growth: a figure is workers^x, x =");
  for (std::size_t i = 1; i < all.size(); ++i)
    out += fmt::format(" {:>16}", fmt::format("{}-{}", all[i - 1].of.workers, all[i].of.workers));
  const auto names = actors::simulation::figures_of(all.front());
  for (std::size_t f = 0; f < names.size(); ++f) {
    out += fmt::format("\n  {:38}", names[f].name);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const auto x = exponent(all[i - 1], all[i], f);
      out += fmt::format(" {:>16}", x ? fmt::format("{:.2f}", *x) : "-");
    }
  }
  return out + "\n";
}

nlohmann::ordered_json json_of(const message_count& x) {
  return {{"messages", x.messages}, {"bytes", x.bytes}};
}

nlohmann::ordered_json json_of(const counted_messages& x) {
  auto kinds = nlohmann::ordered_json::array(), types = kinds;
  for (const auto& one : x.kinds)
    kinds.push_back({{"actor", one.kind},
                     {"number", one.actors},
                     {"handled", json_of(one.handled)},
                     {"sent", json_of(one.sent)},
                     {"most_handled", json_of(one.most_handled)},
                     {"most_sent", json_of(one.most_sent)}});
  for (const auto& one : x.types)
    types.push_back({{"to", one.to},
                     {"message", one.message},
                     {"messages", one.all.messages},
                     {"bytes", one.all.bytes}});
  return {{"all", json_of(x.all)}, {"actors", std::move(kinds)}, {"types", std::move(types)}};
}

nlohmann::ordered_json json_of(const cluster_run& x) {
  nlohmann::ordered_json out = {{"workers", x.of.workers},
                                {"processes", x.of.processes},
                                {"hosts", x.of.hosts},
                                {"tensor", x.tensor},
                                {"pipeline", x.pipeline},
                                {"replicas", x.replicas},
                                {"start_s", x.start_seconds},
                                {"start", json_of(x.start)},
                                {"step_s", x.step_seconds},
                                {"step", json_of(x.step)},
                                {"turns", x.turns},
                                {"simulated_in_s", x.seconds},
                                {"bytes_per_worker", x.bytes_per_worker}};
  if (x.recovery)
    out["recovery"] = {{"processes", x.recovery->processes},
                       {"from", x.recovery->from},
                       {"resumed", x.recovery->resumed},
                       {"restart_s", x.recovery->restart_seconds},
                       {"outage_s", x.recovery->outage_seconds},
                       {"counted", json_of(x.recovery->messages)}};
  return out;
}

nlohmann::ordered_json growth_json(const std::vector<cluster_run>& all) {
  auto out = nlohmann::ordered_json::array();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto names = actors::simulation::figures_of(all[i]);
    for (std::size_t f = 0; f < names.size(); ++f)
      if (const auto x = exponent(all[i - 1], all[i], f))
        out.push_back({{"figure", names[f].name},
                       {"from", all[i - 1].of.workers},
                       {"to", all[i].of.workers},
                       {"exponent", *x}});
  }
  return out;
}

}  // namespace

int simulate_size(const size_flags& flags) {
  runtime::set_log_level(runtime::severity::error);
  runtime::progress_bar bar("simulating", flags.workers.size(), "sizes");
  std::vector<cluster_run> all;
  for (const int workers : flags.workers) {
    runtime::allocate_in_huge_pages(std::size_t(workers) * bytes_of_simulated_worker);
    all.push_back(actors::simulation::run_cluster(settings_of(flags, workers)));
    bar.advance_to(all.size());
  }
  const cluster_settings& of = all.front().of;
  if (flags.json) {
    auto runs = nlohmann::ordered_json::array();
    for (const auto& x : all)
      runs.push_back(json_of(x));
    print_json(
        runtime::json_text(nlohmann::ordered_json{{"latency_s", double(of.latency_ns) / 1e9},
                                                  {"handling_s", double(of.handling_ns) / 1e9},
                                                  {"runs", std::move(runs)},
                                                  {"growth", growth_json(all)}},
                           2));
    return 0;
  }
  print_page("a message between processes takes {} us, and each actor {} us to handle one\n\n",
             double(of.latency_ns) / 1e3,
             double(of.handling_ns) / 1e3);
  for (const auto& x : all)
    print_page(text_of(x));
  print_page(growth_text(all));
  return 0;
}

void add_size(command_line& to, size_flags& flags) {
  to.group("Size");
  to.values("--workers",
            "N",
            1,
            8,
            "Runs the actors of a training on this many workers, without tensor work, and counts "
            "messages, bytes and virtual time instead of searching for errors. With several sizes, "
            "ascending, also prints how each figure grows.",
            [&flags](const std::string& flag, const auto& words) {
              flags.workers.clear();
              for (const auto& word : words)
                flags.workers.push_back(
                    int(parse_whole(flag, word, {.least = 2, .most = most_simulated_workers})));
            });
  to.value({.name = "--processes",
            .type = "N",
            .default_value = "one for 8 workers, at least 2",
            .help = "Processes that host the workers."},
           whole(flags.processes, 2, most_simulated_workers));
  to.value({.name = "--hosts",
            .type = "N",
            .default_value = "one for each process",
            .help = "Hosts of the processes. 16 hosts are a rack."},
           whole(flags.hosts, 1, most_simulated_workers));
  to.value({.name = "--steps",
            .type = "N",
            .default_value = "5",
            .help = "Training steps; the one before the last is measured."},
           whole(flags.steps, 4, 1000));
  to.value({.name = "--kill",
            .type = "PART",
            .help = "Kills a part of the cluster after these steps, and measures the recovery."},
           one_of(flags.kill, {"process", "host", "rack"}));
  to.toggle("--json", "Prints JSON, for programs.", [&flags] { flags.json = true; });
}

}  // namespace troupe::command
