#include "actors/command/print.hpp"
#include "actors/command/schedule_plans.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/schedule/accumulation.hpp"
#include "runtime/schedule/simulate.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

struct simulate_flags : schedule_flags {
  bool json = false, series = false;
};

struct simulated {
  std::string name;
  chosen_plan made;
  runtime::timeline seen;
};

/// Twelve digits; the digits behind them are rounding errors of sums.
double rounded(double x) {
  return std::stod(fmt::format("{:.12g}", x));
}

ordered_json as_json(const simulated& x, const simulate_flags& flags) {
  const auto& plan = x.made.what;
  ordered_json out = {{"name", x.name},
                      {"stages", plan.chunks},
                      {"microbatches", plan.microbatches},
                      {"copies", plan.copies},
                      {"makespan", rounded(x.seen.makespan)},
                      {"bubble", rounded(x.seen.bubble())},
                      {"notes", runtime::accumulation_notes(plan)}};
  if (x.made.lower_bound) {
    out["from"] = x.made.from;
    out["lower_bound"] = rounded(*x.made.lower_bound);
  }
  for (std::size_t r = 0; r < x.seen.ranks.size(); ++r) {
    const auto& rank = x.seen.ranks[r];
    auto& row = out["ranks"].emplace_back();
    row = {{"rank", r},
           {"busy", rounded(rank.busy)},
           {"idle", rounded(x.seen.idle(int(r)))},
           {"span_idle", rounded(rank.span_idle())},
           {"first_begin", rounded(rank.first_begin)},
           {"last_end", rounded(rank.last_end)},
           {"peak_memory", rounded(rank.peak_memory)},
           {"peak_chunks", rank.peak_chunks}};
    if (flags.series)
      for (const auto& [time, held] : rank.memory)
        row["memory"].push_back({rounded(time), rounded(held)});
  }
  return out;
}

std::string number(double x) {
  return fmt::format("{:.6g}", x);
}

std::string costs_text(const schedule_flags& flags) {
  const auto& t = flags.times;
  auto out = fmt::format("F {}, I {}, W {} of a rank's whole share, {} from rank to rank",
                         number(t.forward),
                         number(t.input_gradients),
                         number(t.weight_gradients),
                         number(flags.transfer));
  if (t.overlapped > 0)
    out += fmt::format(", {} for an overlapped pair", number(t.overlapped));
  return out;
}

std::string page(const simulated& x, const simulate_flags& flags) {
  auto out = fmt::format("{}: {}; {}\n\nmakespan {}, bubble {:.2f} %\n",
                         x.name,
                         size_of(x.made.what),
                         costs_text(flags),
                         number(x.seen.makespan),
                         100 * x.seen.bubble());
  if (const auto bound = x.made.lower_bound; bound && *bound > 0)
    out += fmt::format("found by {}; at most {:.2f} % above the lower bound {}\n",
                       x.made.from,
                       100 * (x.seen.makespan / *bound - 1),
                       number(*bound));
  const auto row = [&](const auto&... cells) {
    out += fmt::format("{:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}  {:>11}\n", cells...);
  };
  out += "\n";
  row("rank", "busy", "idle", "span-idle", "last end", "peak memory", "peak chunks");
  for (std::size_t r = 0; r < x.seen.ranks.size(); ++r) {
    const auto& rank = x.seen.ranks[r];
    row(r,
        number(rank.busy),
        number(x.seen.idle(int(r))),
        number(rank.span_idle()),
        number(rank.last_end),
        number(rank.peak_memory),
        rank.peak_chunks);
  }
  for (const auto& note : runtime::accumulation_notes(x.made.what))
    out += "note: " + note + "\n";
  return out;
}

/// The maximum over all ranks.
template <class Of>
double most(const runtime::timeline& x, Of&& of) {
  double out = 0;
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    out = std::max(out, double(of(r)));
  return out;
}

std::string table(const std::vector<simulated>& all, const simulate_flags& flags) {
  std::size_t widest = 8;
  for (const auto& x : all)
    widest = std::max(widest, x.name.size());
  auto out = costs_text(flags) + "\n\n";
  const auto row = [&](const auto&... cells) {
    out += fmt::format("{:<{}}  {:>10}  {:>8}  {:>10}  {:>10}  {:>11}  {:>6}  {}\n", cells...);
  };
  row("schedule",
      widest,
      "makespan",
      "bubble",
      "most idle",
      "span-idle",
      "peak memory",
      "stages",
      "bits");
  for (const auto& x : all)
    row(x.name,
        widest,
        number(x.seen.makespan),
        fmt::format("{:.2f} %", 100 * x.seen.bubble()),
        number(most(x.seen, [&](std::size_t r) { return x.seen.idle(int(r)); })),
        number(most(x.seen, [&](std::size_t r) { return x.seen.ranks[r].span_idle(); })),
        number(most(x.seen, [&](std::size_t r) { return x.seen.ranks[r].peak_memory; })),
        x.made.what.chunks,
        runtime::accumulation_notes(x.made.what).empty() ? "the same" : "others");
  return out
         + "\nidle, span-idle and memory are the maximum over the ranks. Bits: if a "
           "run ends with the same bits as with other schedules.\n";
}

int simulate_plans(const simulate_flags& flags, const command_line& line) {
  if (flags.names.empty())
    only_name(flags, line);
  if (flags.series && !flags.json)
    throw usage_error("--series needs --json: give both");
  std::vector<simulated> all;
  for (const auto& name : flags.names) {
    auto made = sound_plan_of(name, flags);
    auto seen = runtime::simulate(made.what, costs_of(made.what, flags));
    all.push_back({name, std::move(made), std::move(seen)});
  }
  if (flags.json) {
    auto out = ordered_json::array();
    for (const auto& x : all)
      out.push_back(as_json(x, flags));
    print_json(runtime::json_text_replacing(out.size() == 1 ? out.front() : out, 1));
    return 0;
  }
  print_page(all.size() == 1 ? page(all.front(), flags) : table(all, flags));
  return 0;
}

}  // namespace

void add_schedule_simulate(command_line& group) {
  const auto flags = std::make_shared<simulate_flags>();
  auto& line = group.command("simulate", "simulates a plan: its time, idle ranks, and memory.");
  line.words("NAME|FILE",
             "Schedules by name; plans, FILE.csv; or scripts, FILE.lua. Several are compared in a "
             "table.",
             flags->names);
  declare_plan(line, *flags);
  declare_costs(line, *flags);
  line.group("Form");
  line.toggle("--json", "Prints JSON (docs/formats/schedule.md).", [flags] { flags->json = true; });
  line.toggle("--series", "With --json: the memory of each rank over time.", [flags] {
    flags->series = true;
  });
  line.note(
      "Idle is the time in which a rank does not work, until the last rank ends; span-idle counts "
      "only between its own first and last action. The bubble is the idle fraction of all ranks' "
      "time. Peak memory is in activations of one micro-batch through a rank's whole share (--held "
      "gives other units), peak chunks counts micro-batches of each chunk, from F to B or W.");
  line.note(
      "Example: troupe schedule simulate 1f1b interleaved zb-h1 zb-v --ranks 4 --microbatches 16 "
      "--times 1,1.1,0.9 --comm 0.05");
  line.note("Next: `troupe schedule plan NAME` prints the simulated plan.");
  line.runs([flags, &line] { return simulate_plans(*flags, line); });
}

}  // namespace troupe::command
