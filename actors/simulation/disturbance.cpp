#include "actors/simulation/disturbance.hpp"

#include "runtime/job/planted_death.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors::simulation {
namespace {

using kind = disturbance::kind;

std::string_view text_of(kind x) {
  switch (x) {
    case kind::kill_actor:
      return "kill";
    case kind::kill_process:
      return "kill process";
    case kind::kill_lane:
      return "fail";
    case kind::drain:
      return "ask for an early end";
    case kind::part:
      return "part";
    case kind::break_link:
      return "break the link of";
    case kind::slow_disk:
      return "slow disk";
    case kind::refuse_disk:
      return "failing disk";
    case kind::hang:
      return "hang";
    case kind::wrong_bits:
      return "flip a bit of";
    case kind::damage:
      return "damage the kept state of";
    case kind::refuse_last:
      return "disk that fails the last checkpoint";
    case kind::refuse_reads:
      return "disk that fails reads";
    default:
      return "stale messages to";
  }
}

disturbance draw_hang(choices& from) {
  constexpr std::uint64_t s = 1'000'000'000;
  if (from.happens(0.3)) {
    const auto names = runtime::moment_names();
    return {
        .what = kind::hang,
        .who = from.one_of({"supervisor", "node"}),
        .moment = moment_of_step{std::string(names[from.below(names.size())]), 1 + from.below(4)},
        .lasts_ns = from.one_of({std::uint64_t{0}, 20 * s, 45 * s, 70 * s, 100 * s})};
  }
  if (from.happens(0.15))
    return {.what = kind::hang,
            .who = "wire",
            .which = from.below(8),
            .moment = moment_of_step{"reduce", 1 + from.below(4)},
            .lasts_ns = from.one_of({std::uint64_t{0}, 45 * s})};
  return {.what = kind::hang,
          .who = "lane",
          .which = from.below(8),
          .moment = moment_of_step{from.one_of({"forward",
                                                "input-gradient",
                                                "weight-gradient",
                                                "redeem",
                                                "reduce",
                                                "updated",
                                                "updated",
                                                "snapshot",
                                                "validate"}),
                                   1 + from.below(4)},
          // The hang ends before the suspicion timeout, during recovery, or after the replacement
          // has begun.
          .lasts_ns = from.one_of({std::uint64_t{0}, 20 * s, 45 * s, 70 * s, 100 * s})};
}

disturbance draw_wrong_bits(choices& from) {
  return {.what = kind::wrong_bits,
          .who = "lane",
          .which = from.below(8),
          .moment = moment_of_step{from.one_of({"reduce", "updated"}), 1 + from.below(4)}};
}

disturbance draw_death(choices& from) {
  if (from.happens(0.3))
    return {.what = kind::kill_lane,
            .who = from.one_of({"lane", "lane", "reduce"}),
            .which = from.below(8),
            .at_ns = 1 + from.below(from.one_of({3, 30, 150}))};
  disturbance out{.what = kind::kill_actor,
                  .who = from.one_of({"stage",
                                      "stage",
                                      "stage",
                                      "replica",
                                      "loader",
                                      "checkpointer",
                                      "monitor",
                                      "node",
                                      "supervisor"}),
                  .which = from.below(8)};
  if (out.who == "loader" && from.happens(0.7)) {
    out.moment = moment_of_step{from.one_of({"request_batch", "batch_ready"}),
                                1 + from.below(from.one_of({6, 24}))};
  } else if (from.happens(0.7)) {
    const auto all = moments();
    out.moment
        = moment_of_step{all[from.below(all.size())], 1 + from.below(from.one_of({2, 6, 40}))};
  } else {
    out.at_ns = from.below(from.one_of({1'000, 1'000'000, 1'000'000'000}));
  }
  return out;
}

/// A death during the recovery from another death.
disturbance draw_death_in_recovery(choices& from) {
  auto out = draw_death(from);
  if (out.what != kind::kill_actor)
    return out;
  out.at_ns = 0;
  out.moment = moment_of_step{from.one_of({"end_generation",
                                           "generation_ended",
                                           "spawn_replica",
                                           "spawn_stage",
                                           "spawn_loader",
                                           "meet",
                                           "ready",
                                           "ready",
                                           "ready",
                                           "abandon",
                                           "abandoned",
                                           "all_restored",
                                           "run_step"}),
                              1 + from.below(from.one_of({2, 6, 16}))};
  return out;
}

/// Three deaths of one kind within one step: the run rolls back to an older state.
void draw_row(choices& from, std::vector<disturbance>& to) {
  const auto* const who = from.one_of({"stage", "stage", "replica"});
  const auto* const message
      = from.one_of({"run_step", "activation", "vote", "decision", "applied", "lane_done"});
  const auto apart = 1 + from.below(from.one_of({2, 8}));
  const auto first = 1 + from.below(from.one_of({6, 40}));
  for (std::uint64_t n = 0; n < 3; ++n)
    to.push_back({.what = kind::kill_actor,
                  .who = who,
                  .which = from.below(8),
                  .moment = moment_of_step{message, first + n * apart}});
}

/// Turns some deaths into hangs or wrong bits. The kept state may be damaged, and reads may fail.
void draw_silent(choices from, bool recovers, std::size_t deaths, std::vector<disturbance>& to) {
  for (std::size_t i = 0; i < deaths; ++i) {
    if (recovers && from.happens(0.15))  // only recovering runs have a failure detector
      to[i] = draw_hang(from);
    else if (from.happens(0.12))
      to[i] = draw_wrong_bits(from);
  }
  for (auto& x : to)
    if (x.what == kind::refuse_disk && from.happens(0.5))
      x.what = kind::refuse_last;
  const bool damages = recovers && deaths == 1 && from.happens(0.25);
  if (damages)
    to.push_back({.what = kind::damage, .which = from.below(8)});
  if (recovers && (damages || deaths > 2) && from.happens(0.4))
    to.push_back({.what = kind::refuse_reads, .how_often = 1});
}

/// A moment at which two processes exchange a message.
moment_of_step moment_between_processes(choices& from) {
  return {from.one_of({"keep",
                       "keep",
                       "kept",
                       "kept",
                       "fetch_kept",
                       "kept_state",
                       "spawn_keeper",
                       "process_started",
                       "process_died",
                       "use_keeper",
                       "end_generation",
                       "generation_ended",
                       "activation",
                       "vote",
                       "decision",
                       "applied",
                       "ready"}),
          1 + from.below(from.one_of({2, 6, 24}))};
}

/// Moves some deaths of processes and keepers into the writing of shards, and turns some into
/// deaths of shard writers. `from` is a copy, so that other draws do not change.
void strike_savings(choices from, std::vector<disturbance>& to) {
  for (auto& x : to) {
    const bool keeper = x.who == "keeper";
    if ((!keeper && x.what != kind::kill_process) || !from.happens(keeper ? 0.4 : 0.2))
      continue;
    if (keeper)
      x.who = "shard_writer";
    x.at_ns = 0;
    x.moment = moment_of_step{
        from.one_of({"write_shards", "write_shards", "shards_written", "use_shard_writer"}),
        1 + from.below(from.one_of({2, 6}))};
  }
}

std::uint64_t draw_time_of_hearing(choices& from) {
  return from.below(from.one_of({1LL, 20'000LL, 1'000'000LL, 100'000'000LL, 5'000'000'000LL}));
}

/// Often breaks the same connection again, so that one of its ends is replaced. `from` is a copy.
void break_links(choices from, std::vector<disturbance>& to) {
  const auto breaks = from.one_of({0, 0, 0, 0, 0, 1, 1, 2, 3});
  auto which = from.below(64);
  for (int n = 0; n < breaks; ++n) {
    if (from.happens(0.3))
      which = from.below(64);
    to.push_back({.what = kind::break_link,
                  .who = from.one_of({"all", "all", "groups", "tickets"}),
                  .which = which,
                  .moment = moment_between_processes(from),
                  .heard_ns = {draw_time_of_hearing(from), draw_time_of_hearing(from)}});
  }
}

/// Turns some deaths into deaths of processes or keepers, and partitions some links for a while.
void part_processes(choices& from, std::vector<disturbance>& to) {
  for (auto& x : to) {
    const bool process = from.happens(0.45);
    if (!process && !from.happens(0.15))
      continue;
    x.what = process ? kind::kill_process : kind::kill_actor;
    x.who = process ? "" : "keeper";
    if (x.moment && from.happens(0.5))
      continue;
    x.at_ns = 0;
    x.moment = moment_between_processes(from);
  }
  strike_savings(from, to);
  const auto parts = from.one_of({0, 0, 1, 2});
  for (int n = 0; n < parts; ++n)
    to.push_back({.what = kind::part,
                  .which = from.below(64),
                  .moment = moment_between_processes(from),
                  .lasts_ns = 1 + from.below(from.one_of({5'000'000LL, 5'000'000'000LL}))});
}

}  // namespace

std::vector<std::string> moments() {
  return {"ready",          "run_step",
          "activation",     "gradient",
          "batch_ready",    "vote",
          "decision",       "applied",
          "take_snapshot",  "snapshot",
          "save",           "saved",
          "lane_done",      "committed",
          "validated",      "conclude",
          "shut_down",      "meet",
          "end_generation", "generation_ended",
          "spawn_loader",   "spawn_checkpointer",
          "spawn_replica",  "spawn_stage",
          "all_restored",   "abandon",
          "abandoned"};
}

std::vector<disturbance> draw_disturbances(choices& from, bool recovers, int processes) {
  std::vector<disturbance> out;
  const auto deaths = recovers ? from.one_of({0, 1, 1, 2, 2, 3}) : from.one_of({0, 0, 0, 1, 1, 2});
  if (recovers && from.happens(0.15))
    draw_row(from, out);
  for (int n = 0; out.size() < 3 && n < deaths; ++n)
    out.push_back(recovers && from.happens(n > 0 ? 0.5 : 0.25) ? draw_death_in_recovery(from)
                                                               : draw_death(from));
  if (processes > 1)
    part_processes(from, out);
  const auto deaths_drawn = std::size_t(
      std::count_if(out.begin(), out.end(), [](const auto& x) { return x.what != kind::part; }));
  if (from.happens(0.2))
    out.push_back({.what = kind::slow_disk, .lasts_ns = 1 + from.below(2'000'000'000)});
  if (from.happens(0.2))
    out.push_back({.what = kind::refuse_disk, .how_often = 1 + from.below(3)});
  if (from.happens(0.25))
    out.push_back(
        {.what = kind::stale,
         .who = "stage",
         .which = from.below(8),
         .moment = moment_of_step{from.one_of({"run_step", "lane_done", "activation", "vote"}),
                                  1 + from.below(10)}});
  if (from.happens(0.15))
    out.push_back(
        {.what = kind::stale,
         .who = "supervisor",
         .moment = moment_of_step{from.one_of({"spawn_replica", "meet", "vote", "applied", "kept"}),
                                  1 + from.below(8)}});
  if (from.happens(0.1)) {
    const auto all = moments();
    out.push_back({.what = kind::drain,
                   .moment = moment_of_step{all[from.below(all.size())], 1 + from.below(6)}});
  }
  draw_silent(choices(from.next(), 4), recovers, deaths_drawn, out);
  if (processes > 1)
    break_links(choices(from.next(), 5), out);
  return out;
}

std::string to_string(const disturbance& x) {
  auto out = std::string(text_of(x.what));
  if (x.what == kind::kill_process || x.what == kind::part)
    out += fmt::format(" {}", x.which);
  if (!x.who.empty())
    out += fmt::format(" {} {}", x.who, x.which);
  if (x.moment)
    out += x.what == kind::hang || x.what == kind::wrong_bits
               ? fmt::format(" in step {} at {}", x.moment->count, x.moment->message)
               : fmt::format(" at {} no. {}", x.moment->message, x.moment->count);
  else if (x.what == kind::kill_lane)
    out += fmt::format(" at task {} of its lane", x.at_ns);
  else if (x.what == kind::kill_actor)
    out += fmt::format(" at {} ns", x.at_ns);
  if (x.lasts_ns > 0)
    out += fmt::format(", {} ns", x.lasts_ns);
  if (x.how_often > 0)
    out += fmt::format(", {} times", x.how_often);
  if (x.what == kind::break_link)
    out += fmt::format(", heard after {} and {} ns", x.heard_ns[0], x.heard_ns[1]);
  return out;
}

}  // namespace troupe::actors::simulation
