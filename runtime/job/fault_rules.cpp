#include "runtime/job/fault_rules.hpp"

#include "runtime/core/error.hpp"
#include "runtime/job/planted_death.hpp"
#include "runtime/schedule/generators.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

/// Cuts a number off the front of `text`. True if the number is in [0, `end`).
bool takes_number(std::string_view& text, int end) {
  int x = -1;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), x);
  text.remove_prefix(std::size_t(stop - text.data()));
  return failure == std::errc{} && x >= 0 && x < end;
}

/// Physical replicas: one worker computes several logical replicas in turn.
int replica_actors(const training_job& job) {
  return int(job.training.batch.data_parallel / std::max(1, job.layout.replicas_per_worker));
}

bool has_wires(const training_job& job) {
  return job.reduction.overlap_gradients && replica_actors(job) > 1;
}

/// "R.P" or "R.P.T"
bool is_rank(std::string_view rank, const training_job& job) {
  const auto takes = [&](int end) {
    const bool dotted = rank.starts_with('.');
    rank.remove_prefix(dotted ? 1 : 0);
    return dotted && takes_number(rank, end);
  };
  return takes_number(rank, replica_actors(job)) && takes(job.layout.pipeline)
         && (rank.empty() || takes(job.layout.tensor)) && rank.empty();
}

/// True if each process keeps the states of another process.
bool has_keepers(const training_job& job) {
  return job.layout.processes > 1 && job.recovery.on;
}

/// True if each process writes the checkpoint shards of its ranks.
bool has_shard_writers(const training_job& job) {
  return job.layout.processes > 1 && !job.checkpoints.save.empty();
}

bool is_actor(std::string_view who, const training_job& job) {
  for (const auto* one : {"supervisor", "node", "loader", "checkpointer", "monitor"})
    if (who == one)
      return true;
  const auto colon = std::min(who.find(':'), who.size());
  const auto kind = who.substr(0, colon);
  auto rank = who.substr(std::min(colon + 1, who.size()));
  if (kind == "replica")
    return takes_number(rank, replica_actors(job)) && rank.empty();
  const bool has_rank = kind == "stage" || kind == "lane" || kind == "nan" || kind == "nan-once"
                        || (kind == "wire" && has_wires(job));
  return has_rank && is_rank(rank, job);
}

void validate_fault(const training_job& job, std::string_view fault, sentences& wrong) {
  const auto at = std::min(fault.rfind('@'), fault.size());
  auto steps = fault.substr(std::min(at + 1, fault.size()));
  const auto takes_step = [&steps] {
    std::uint64_t number = 0;
    const auto [stop, failure] = std::from_chars(steps.data(), steps.data() + steps.size(), number);
    steps.remove_prefix(std::size_t(stop - steps.data()));
    return failure == std::errc{} ? number : 0;
  };
  const auto first = takes_step();
  auto last = first;
  if (steps.starts_with('-')) {
    steps.remove_prefix(1);
    last = takes_step();
  }
  if (!is_actor(fault.substr(0, at), job))
    wrong.push_back(fmt::format(
        "`faults.fault` '{}' names no actor of this run: before the @ give supervisor, node, "
        "loader, "
        "checkpointer, monitor, replica:R, stage:R.P.T, lane:R.P.T, nan:R.P.T or "
        "nan-once:R.P.T{}, with R "
        "below {}, P below {} and T below {}; T may be left out and is 0",
        fault,
        has_wires(job) ? " or wire:R.P.T"
                       : " (wire:R.P.T with `reduction.overlap_gradients` and several replicas)",
        replica_actors(job),
        job.layout.pipeline,
        job.layout.tensor));
  else if (!steps.empty() || first < 1 || last < first)
    wrong.push_back(
        fmt::format("`faults.fault` '{0}' names no step: after the @ give a number from 1, e.g. "
                    "{1}@3, or the first and the last of several, e.g. {1}@3-5",
                    fault,
                    fault.substr(0, at)));
  else if (job.train_iterations > 0 && first > job.train_iterations)
    wrong.push_back(fmt::format(
        "`faults.fault` '{}' never occurs: the run has {} steps", fault, job.train_iterations));
}

/// True if the first rank certainly has only the first chunk of the model. Unknown, and so false,
/// if a search chooses the schedule or a file contains it.
bool first_has_one_chunk(const schedule_settings& x) {
  const auto* const named = find_schedule(x.source);
  const bool in_turn = x.source.empty() || (named != nullptr && named->copies == 1);
  const int chunks = x.chunks_per_rank > 0 ? x.chunks_per_rank
                     : named != nullptr    ? named->chunks_per_rank
                                           : 1;
  return in_turn && !x.own && chunks == 1;
}

/// Wrong bits of a pass are found only by computing the pass again. Empty: they are found.
std::string why_no_pass_is_seen(const training_job& job, const planted_death& x) {
  using enum moment_of_step;
  if (job.recovery.verify_fraction < 1)
    return "flips a bit that no check would detect: the sum of a wrong pass is the same on all "
           "replicas; plant it in a lane's reduce or updated, or give "
           "`recovery.verify_fraction` 1";
  const auto stage = x.who.substr(std::min(x.who.find('.') + 1, x.who.size()));
  if (x.at == input_gradient
      && (job.layout.pipeline == 1
          || (stage.starts_with("0") && first_has_one_chunk(job.layout.schedule))))
    return "flips a bit that no check would detect: the first stage sends no gradient";
  if (x.at == input_gradient && job.recompute.granularity != recompute_granularity::none)
    return "never occurs: recomputation takes the passes before it; plant it at forward";
  return {};
}

/// Each rule keeps a first moment, or a momentum. With muon, the rule of the other parameters may
/// keep two moments.
bool has_second_moments(const optimizer_settings& x) {
  return state_names(x.kind == optimizer_kind::muon ? x.muon.others : x.kind).size() > 1;
}

/// Why this death would never occur, or change nothing, in this job; empty: it would.
std::string why_in_vain(const training_job& job, const planted_death& x) {
  using enum moment_of_step;
  if (job.train_iterations > 0 && x.step > job.train_iterations)
    return fmt::format("never occurs: the run has {} steps", job.train_iterations);
  if (x.at == validate && job.watch.eval_interval == 0)
    return "never occurs: the run has no validations (`watch.eval_interval`)";
  if ((x.at == snapshot || x.at == save) && job.checkpoints.save.empty())
    return "never occurs: the run has no checkpoints (`checkpoints.save`)";
  if (x.how == death_kind::by_hanging && !job.recovery.on)
    return "would hang forever: the failure detector needs `recovery.on`";
  if (ends_process(x.how) && job.layout.processes == 1)
    return "would end the whole run with its only process: give several (`layout.processes`)";
  const auto replica = x.who.substr(std::min(x.who.find(':') + 1, x.who.size()));
  if (x.how == death_kind::by_hanging && x.at == snapshot && x.who.find(':') != std::string::npos
      && !replica.starts_with("0") && !job.reduction.distributed_optimizer)
    return "never occurs: of replicas with the same state, only the first gives it to a checkpoint";
  if (x.how == death_kind::wrong_bits
      && (x.at == forward || x.at == input_gradient || x.at == weight_gradient))
    return why_no_pass_is_seen(job, x);
  if (x.kind() == "keeper")
    return {};  // a keeper compares its own fingerprints (KEEPER-2)
  if (flips_bit(x.how) && (replica_actors(job) < 2 || job.reduction.distributed_optimizer))
    return fmt::format(
        "flips a bit that no check would detect: {}; a check detects it where two workers have "
        "the same gradients and states, in several replicas without a distributed optimizer",
        replica_actors(job) < 2 ? "one worker computes all replicas of a stage"
                                : "with `reduction.distributed_optimizer` each replica has its own "
                                  "share");
  if (x.how == death_kind::wrong_second_moment && !has_second_moments(job.training.optimizer))
    return fmt::format(
        "needs a second moment: {} keeps one array for each parameter; plant wrong-moment",
        state_kind(job.training.optimizer));
  return {};
}

/// The reason why this job has no such actor; empty if it has one.
std::string why_nobody(const training_job& job, const planted_death& death, std::string_view who) {
  if (who == "keeper")
    return has_keepers(job) ? ""
                            : "only a run with several processes (`layout.processes`) and recovery "
                              "(`recovery.on`) has keepers";
  if (who == "shard_writer")
    return has_shard_writers(job) ? ""
                                  : "only a run with several processes (`layout.processes`) that "
                                    "saves (`checkpoints.save`) has shard writers";
  if (death.kind() != "nan" && is_actor(who, job))
    return {};
  return fmt::format(
      "before the @ give supervisor, node, loader, checkpointer, monitor, keeper, shard_writer, "
      "replica:R, stage:R.P.T or lane:R.P.T{}, with R below {}, P below {} and T below {}; T may "
      "be left out and is 0",
      has_wires(job) ? " or wire:R.P.T"
                     : " (wire:R.P.T with `reduction.overlap_gradients` and several replicas)",
      replica_actors(job),
      job.layout.pipeline,
      job.layout.tensor);
}

void validate_death(const training_job& job, std::string_view text, sentences& wrong) {
  try {
    const auto death = planted_death_from(text);
    auto who = std::string_view(death.who);
    if (who.ends_with(":0") && (who == "loader:0" || who == "monitor:0" || who == "checkpointer:0"))
      who.remove_suffix(2);
    if (const auto why = why_nobody(job, death, who); !why.empty())
      wrong.push_back(fmt::format("`faults.death` '{}' names no actor of this run: {}", text, why));
    if (death.step < 1)
      wrong.push_back(
          fmt::format("`faults.death` '{}' names no step: after the @ give a number from 1", text));
    if (const auto why = why_in_vain(job, death); !why.empty())
      wrong.push_back(fmt::format("`faults.death` '{}' {}", text, why));
  } catch (const input_error& failure) {
    wrong.emplace_back(failure.what());
  }
}

}  // namespace

std::vector<std::string_view> faults_in(std::string_view all) {
  std::vector<std::string_view> out;
  while (!all.empty()) {
    const auto end = all.find(',');
    out.push_back(all.substr(0, end));
    if (end == std::string_view::npos)
      return out;
    all.remove_prefix(end + 1);
    if (all.empty())
      out.push_back(all);
  }
  return out;
}

std::vector<std::string> validate_faults(const training_job& job) {
  sentences wrong;
  for (const auto fault : faults_in(job.faults.fault))
    validate_fault(job, fault, wrong);
  for (const auto death : faults_in(job.faults.death))
    validate_death(job, death, wrong);
  return wrong;
}

}  // namespace troupe::runtime
