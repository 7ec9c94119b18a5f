#include "actors/command/chaos/faults.hpp"

#include "runtime/trainer/fault_rules.hpp"
#include "runtime/trainer/planted_death.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace troupe::command::chaos {
namespace {

constexpr std::array kind_table = {
    kind_row{fault_kind::sigkill, "SIGKILL", "kill -9", true, "kill"},
    kind_row{fault_kind::sigstop,
             "SIGSTOP",
             "it is stopped, and goes on after twice the suspicion, if it is still there"},
    kind_row{fault_kind::pause,
             "pause",
             "it is stopped for a third of the suspicion: nobody may be replaced"},
    kind_row{fault_kind::sigsegv, "SIGSEGV", "as by a wrong pointer", true, "segv"},
    kind_row{fault_kind::abort, "abort", "SIGABRT", true, "abort"},
    kind_row{fault_kind::exit, "exit", "somebody in it calls exit, planted", true, "exit"},
    kind_row{fault_kind::raise, "throw", "an actor fails, planted", false, "throw"},
    kind_row{fault_kind::hang, "hang", "an actor does nothing more, planted", false, "hang"},
    kind_row{fault_kind::out_of_memory,
             "out-of-memory",
             "it gets no more memory, until it has needed some"},
    kind_row{fault_kind::slow, "slow", "it runs a tenth of the time for a while"},
    kind_row{fault_kind::disk_full, "disk-full", "none of its files grows for a second"},
    kind_row{fault_kind::short_write,
             "short-write",
             "of its log the next record is written by a part, and nothing more for a second"},
    kind_row{fault_kind::flipped_bits,
             "flipped-bits",
             "a bit of a reduced gradient (reduce), a weight (updated), a state on its way to a "
             "keeper (redeem), or, with --verify-fraction 1 in the job, of an activation (forward) "
             "or a gradient of a pass (input-gradient, weight-gradient), planted",
             false,
             "wrong-bits"},
    kind_row{fault_kind::flipped_moment,
             "flipped-moment",
             "a bit of a first moment that was updated, planted where two replicas hold the same",
             false,
             "wrong-moment"},
    kind_row{
        fault_kind::flipped_second_moment,
        "flipped-second-moment",
        "a bit of a second moment that was updated, planted where two replicas hold the same, of "
        "optimizers that keep one",
        false,
        "wrong-second-moment"},
    kind_row{fault_kind::link_down, "link-down", "--cut-link, then --heal-link"},
    kind_row{fault_kind::one_way, "one-way", "--cut-one-way, then --heal-one-way"},
};

constexpr std::string_view built_again
    = "all ranks are built again; where its process dies of it, as when a node dies";
constexpr std::string_view in_supervisor
    = "another one takes its place; where its process dies of it, as when the supervisor's dies";

constexpr std::array role_table = {
    role_row{role::node,
             "node",
             "another process takes its place; all others live on",
             true,
             true,
             replaced::victim},
    role_row{role::front,
             "front",
             "the command that was typed: nobody takes its place, and the run goes on",
             true,
             false,
             replaced::victim,
             false},
    role_row{role::supervisor,
             "supervisor",
             "a successor takes its place; all others live on",
             true,
             false,
             replaced::supervisor},
    role_row{
        role::agent,
        "agent",
        "another one takes its place, with a guard; all others live on, and no step runs again",
        true,
        false,
        replaced::agent_and_guard},
    role_row{role::guard,
             "guard",
             "the parent of the agent: nobody takes its place, and the agent goes on",
             true,
             false,
             replaced::agent_and_guard,
             false},
    role_row{role::lane, "lane", built_again, false, true, replaced::one_node},
    role_row{role::stage, "stage", built_again, false, true, replaced::one_node},
    role_row{role::replica, "replica", built_again, false, true, replaced::one_node},
    role_row{role::wire, "wire", built_again, false, true, replaced::one_node},
    role_row{
        role::loader,
        "loader",
        "another one takes its place, and no step is disturbed; where its process dies of it, as "
        "when a node dies",
        false,
        true,
        replaced::one_node},
    role_row{role::checkpointer, "checkpointer", in_supervisor, false, false, replaced::supervisor},
    role_row{role::monitor, "monitor", in_supervisor, false, false, replaced::supervisor},
    role_row{
        role::keeper,
        "keeper",
        "another one takes its place, to which ranks give their states again; where its process "
        "dies of it, as when a node dies",
        false,
        true,
        replaced::one_node},
    role_row{
        role::shard_writer,
        "shard_writer",
        "another one takes its place, and the checkpoint that it wrote for is tried again; where "
        "its process dies of it, as when a node dies",
        false,
        true,
        replaced::one_node},
};

/// Who comes by in that actor's process at that moment, so that it may be struck there.
bool comes_by(role who, runtime::moment_of_step at) {
  using enum runtime::moment_of_step;
  if (who == role::wire)
    return at == reduce;
  if (row_of(who).in_node)
    return at != save || who == role::shard_writer;
  return at != input_gradient && at != weight_gradient && at != redeem && at != reduce;
}

}  // namespace

std::span<const kind_row> kinds() {
  return kind_table;
}

const kind_row& row_of(fault_kind x) {
  return kind_table[std::size_t(x)];
}

std::span<const role_row> roles() {
  return role_table;
}

bool is_link(fault_kind x) {
  return x == fault_kind::link_down || x == fault_kind::one_way;
}

bool is_service(role x) {
  return x == role::loader || x == role::checkpointer || x == role::monitor || x == role::keeper
         || x == role::shard_writer;
}

bool flips(fault_kind x) {
  return x == fault_kind::flipped_bits || x == fault_kind::flipped_moment
         || x == fault_kind::flipped_second_moment;
}

const role_row& row_of(role x) {
  return role_table[std::size_t(x)];
}

replaced allowed_after(fault_kind kind, role who) {
  const auto& of = row_of(who);
  if (row_of(kind).ends_process)
    return of.by_death;
  switch (kind) {
    case fault_kind::sigstop:  // of the command that was typed nobody waits for anything
      return who == role::front ? replaced::nobody : of.by_death;
    case fault_kind::flipped_bits:
      if (who == role::keeper)
        return replaced::nobody;
      [[fallthrough]];
    case fault_kind::flipped_moment:
    case fault_kind::flipped_second_moment:  // who had wrong bits again is exchanged
    case fault_kind::hang:                   // a process in which too many hang ends itself
      return of.in_node ? replaced::one_node : replaced::nobody;
    case fault_kind::out_of_memory:
    case fault_kind::disk_full:
      return who == role::node ? replaced::victim : replaced::nobody;
    case fault_kind::link_down:
    case fault_kind::one_way:
      return replaced::agents_and_nodes;
    default:
      return replaced::nobody;
  }
}

bool is_replaced_after(fault_kind kind, role who) {
  if (!row_of(who).succeeded)
    return false;
  // Of an agent that stands still nobody takes notice.
  return row_of(kind).ends_process
         || (kind == fault_kind::sigstop && (who == role::node || who == role::supervisor));
}

bool leaves_nobody(fault_kind kind, role who) {
  return row_of(kind).ends_process && !row_of(who).succeeded;
}

restart_is restart_after(fault_kind kind, role who) {
  using enum restart_is;
  if (flips(kind) && who == role::keeper)
    return wrong;
  switch (kind) {
    case fault_kind::pause:
    case fault_kind::slow:
    case fault_kind::short_write:
      return wrong;
    case fault_kind::disk_full:
      return who == role::node ? possible : wrong;
    case fault_kind::out_of_memory:
    case fault_kind::link_down:
    case fault_kind::one_way:
      return possible;
    case fault_kind::raise:
    case fault_kind::hang:
      return is_service(who) ? possible : due;  // one at restore strikes beside another death
    default:
      break;
  }
  if (who == role::front || who == role::agent || who == role::guard)
    return wrong;
  // Bits that are found wrong in a lane are a restart, too.
  return due;
}

trace trace_of(fault_kind kind, role who) {
  switch (kind) {
    case fault_kind::out_of_memory:
    case fault_kind::link_down:
    case fault_kind::one_way:
      return trace::restart;
    case fault_kind::disk_full:
    case fault_kind::short_write:
      return trace::refused_write;
    case fault_kind::raise:
    case fault_kind::hang:
      return is_service(who) ? trace::successor : trace::certain;
    case fault_kind::flipped_bits:
      return who == role::keeper ? trace::refused_state : trace::certain;
    default:
      return trace::certain;
  }
}

std::span<const std::string_view> words_of(trace x) {
  // A node that may not write cannot write to its log either: it tells of local states afterwards.
  static constexpr std::string_view write[] = {"the run goes on, and it is tried again",
                                               "is not saved: ",
                                               "states are written to the local disk again"};
  static constexpr std::string_view state[] = {"did not come as it was sealed"};
  if (x == trace::refused_write)
    return write;
  if (x == trace::refused_state)
    return state;
  return {};
}

double seconds_of(fault_kind kind, double suspicion, double step_seconds) {
  constexpr double part_of_suspicion = 0.3;  // in which nobody is suspected yet
  constexpr double beyond_suspicion = 2;     // after which somebody was
  switch (kind) {
    case fault_kind::sigstop:
    case fault_kind::link_down:
    case fault_kind::one_way:
      return beyond_suspicion * suspicion;
    case fault_kind::pause:
      return part_of_suspicion * suspicion;
    case fault_kind::slow:
      return std::clamp(10 * step_seconds, 1.0, 30.0);
    case fault_kind::out_of_memory:
      return 5;  // who needs none in that time notices nothing
    case fault_kind::disk_full:
    case fault_kind::short_write:
      return 1;
    default:
      return 0;
  }
}

std::string why_not(fault_kind kind, role who, bool link_commands, bool over_hosts) {
  const auto& of = row_of(who);
  const auto& what = row_of(kind);
  if (is_link(kind) && !link_commands)
    return fmt::format(
        "{} needs hosts whose link can be cut, as network namespaces have: say by "
        "which commands that is done and undone",
        what.name);
  if (is_link(kind))
    return who == role::node ? "" : "a link is cut between nodes";
  if (over_hosts && what.ends_process
      && (who == role::keeper || who == role::shard_writer || who == role::loader))
    return fmt::format(
        "each host has a {} that dies where {} is planted: over several hosts nodes of all would "
        "end at once",
        of.name,
        what.name);
  if (!of.is_process)
    return what.planted.empty() ? fmt::format("{} strikes whole processes", what.name)
           : flips(kind) && who != role::lane
                   && !(kind == fault_kind::flipped_bits && who == role::keeper)
               ? "bits are flipped in what a lane computes, or in a state that a keeper gets"
               : "";
  if (!what.ends_process && !what.planted.empty())
    return fmt::format("{} is planted in an actor: a lane, a stage", what.name);
  if (kind == fault_kind::exit)
    return "exit is planted in an actor: a lane, a stage";
  const bool of_files = kind == fault_kind::disk_full || kind == fault_kind::short_write;
  if (of_files && who != role::supervisor && !(who == role::node && kind == fault_kind::disk_full))
    return fmt::format("a {} writes nothing that others need", of.name);
  if (kind == fault_kind::out_of_memory && who != role::node)
    return "out-of-memory strikes who computes: a node";
  return {};
}

cut cut_of(const runtime::training_job& job) {
  return {int(job.training.batch.data_parallel / std::max(1, job.layout.replicas_per_worker)),
          job.layout.pipeline,
          job.layout.tensor};
}

cut cut_at(const std::string& moment, const runtime::training_job& job) {
  auto out = cut_of(job);
  if (moment == "snapshot" && !job.reduction.distributed_optimizer)
    out.replicas = 1;
  return out;
}

std::vector<std::string> moments_for(fault_kind kind, role who, const runtime::training_job& job) {
  std::vector<std::string> out;
  if (row_of(who).is_process)
    return out;
  const auto actor = actor_of(who, {}, job, [](int) { return 0; });
  auto trial = job;
  for (std::size_t m = 0; m < runtime::moment_names().size(); ++m) {
    const std::string moment(runtime::moment_names()[m]);
    if (!comes_by(who, runtime::moment_of_step(m)))
      continue;
    trial.faults.death = fmt::format("{}@1:{}:{}", actor, moment, row_of(kind).planted);
    if (runtime::validate_faults(trial).empty())
      out.push_back(moment);
  }
  return out;
}

std::vector<std::string> plants_of(fault_kind kind,
                                   const std::string& actor,
                                   std::uint64_t step,
                                   const std::string& moment,
                                   const runtime::training_job& job) {
  std::vector<std::string> out{
      fmt::format("{}@{}:{}:{}", actor, step, moment, row_of(kind).planted)};
  // Somebody is restored when another one has died: where all have voted, and so had the step
  // before (STEP-4), or that one would be what is restored.
  if (moment == "restore")
    out.push_back(fmt::format("lane:0.{}@{}:decided", cut_of(job).stages - 1, step));
  return out;
}

}  // namespace troupe::command::chaos
