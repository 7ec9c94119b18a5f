#include "actors/command/chaos/faults.hpp"

#include "runtime/job/fault_rules.hpp"
#include "runtime/job/planted_death.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace troupe::command::chaos {
namespace {

constexpr std::array kind_table = {
    kind_row{fault_kind::sigkill, "SIGKILL", "kill -9", true, "kill"},
    kind_row{fault_kind::sigstop,
             "SIGSTOP",
             "SIGSTOP; SIGCONT after twice --suspicion, if the process still exists"},
    kind_row{fault_kind::pause,
             "pause",
             "SIGSTOP for a third of --suspicion: no process may be replaced"},
    kind_row{fault_kind::sigsegv, "SIGSEGV", "as after a wrong pointer", true, "segv"},
    kind_row{fault_kind::abort, "abort", "SIGABRT", true, "abort"},
    kind_row{fault_kind::exit, "exit", "the process calls exit, planted", true, "exit"},
    kind_row{fault_kind::raise, "throw", "an actor throws, planted", false, "throw"},
    kind_row{fault_kind::hang, "hang", "an actor hangs, planted", false, "hang"},
    kind_row{
        fault_kind::out_of_memory, "out-of-memory", "the process gets no more memory for a while"},
    kind_row{fault_kind::slow, "slow", "the process runs a tenth of the time for a while"},
    kind_row{fault_kind::disk_full, "disk-full", "no file of the process can grow for a second"},
    kind_row{fault_kind::short_write,
             "short-write",
             "the next record of its log is written only in part; no more writes for a second"},
    kind_row{fault_kind::flipped_bits,
             "flipped-bits",
             "a flipped bit, planted: in a reduced gradient (reduce), a weight (updated) or a "
             "state sent to a keeper (redeem); with --verify-fraction 1 in the job, also in an "
             "activation (forward) or a gradient (input-gradient, weight-gradient)",
             false,
             "wrong-bits"},
    kind_row{fault_kind::flipped_moment,
             "flipped-moment",
             "a flipped bit in an updated first moment, planted if two replicas hold the same",
             false,
             "wrong-moment"},
    kind_row{
        fault_kind::flipped_second_moment,
        "flipped-second-moment",
        "a flipped bit in an updated second moment, planted if two replicas hold the same; for "
        "optimizers with second moments",
        false,
        "wrong-second-moment"},
    kind_row{fault_kind::link_down, "link-down", "--cut-link, then --heal-link"},
    kind_row{fault_kind::one_way, "one-way", "--cut-one-way, then --heal-one-way"},
};

constexpr std::string_view built_again
    = "all ranks restart; if its process dies with it, as after the death of a node";
constexpr std::string_view in_supervisor
    = "is replaced; if its process dies with it, as after the death of the supervisor";

constexpr std::array role_table = {
    role_row{role::node,
             "node",
             "is replaced by another process; all others survive",
             true,
             true,
             replaced::victim},
    role_row{role::front,
             "front",
             "the command in the terminal: is not replaced, and the run continues",
             true,
             false,
             replaced::victim,
             false},
    role_row{role::supervisor,
             "supervisor",
             "is replaced by a successor; all others survive",
             true,
             false,
             replaced::supervisor},
    role_row{role::agent,
             "agent",
             "is replaced; all others survive, and no step runs again",
             true,
             false,
             replaced::victim},
    role_row{role::lane, "lane", built_again, false, true, replaced::one_node},
    role_row{role::stage, "stage", built_again, false, true, replaced::one_node},
    role_row{role::replica, "replica", built_again, false, true, replaced::one_node},
    role_row{role::wire, "wire", built_again, false, true, replaced::one_node},
    role_row{
        role::loader,
        "loader",
        "is replaced, and no step runs again; if its process dies with it, as after the death of "
        "a node",
        false,
        true,
        replaced::one_node},
    role_row{role::checkpointer, "checkpointer", in_supervisor, false, false, replaced::supervisor},
    role_row{role::monitor, "monitor", in_supervisor, false, false, replaced::supervisor},
    role_row{
        role::keeper,
        "keeper",
        "is replaced, and ranks send their states again; if its process dies with it, as after "
        "the death of a node",
        false,
        true,
        replaced::one_node},
    role_row{
        role::shard_writer,
        "shard_writer",
        "is replaced, and its checkpoint is tried again; if its process dies with it, as after "
        "the death of a node",
        false,
        true,
        replaced::one_node},
};

/// True if the process of an actor of this role reaches that moment.
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
    case fault_kind::sigstop:  // no process waits for the front
      return who == role::front ? replaced::nobody : of.by_death;
    case fault_kind::flipped_bits:
      if (who == role::keeper)
        return replaced::nobody;
      [[fallthrough]];
    case fault_kind::flipped_moment:
    case fault_kind::flipped_second_moment:  // a process with wrong bits twice is replaced
    case fault_kind::hang:                   // a process with too many hanging threads ends itself
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
  // A stopped agent is not noticed.
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
      return is_service(who) ? possible : due;  // at restore another planted death causes one
    default:
      break;
  }
  if (who == role::front || who == role::agent)
    return wrong;
  return due;  // also for wrong bits found in a lane
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
  // A node on a full disk cannot write to its log either. It reports on local snapshots afterwards.
  static constexpr std::string_view write[] = {"the run continues and will try again",
                                               "is not saved: ",
                                               "states are written to the local disk again"};
  static constexpr std::string_view state[] = {"arrived damaged: "};
  if (x == trace::refused_write)
    return write;
  if (x == trace::refused_state)
    return state;
  return {};
}

double seconds_of(fault_kind kind, double suspicion, double step_seconds) {
  constexpr double part_of_suspicion = 0.3;  // too short for the failure detector
  constexpr double beyond_suspicion = 2;     // long enough for the failure detector
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
      return 5;  // without effect if the process needs no memory in that time
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
        "{} needs hosts with a link that can be cut, such as network namespaces: give the commands "
        "that cut and restore it",
        what.name);
  if (is_link(kind))
    return who == role::node ? "" : "a link is cut between nodes";
  if (over_hosts && what.ends_process
      && (who == role::keeper || who == role::shard_writer || who == role::loader))
    return fmt::format(
        "each host has a {}, and a planted {} strikes all of them: nodes of all hosts would end at "
        "once",
        of.name,
        what.name);
  if (!of.is_process)
    return what.planted.empty() ? fmt::format("{} strikes whole processes", what.name)
           : flips(kind) && who != role::lane
                   && !(kind == fault_kind::flipped_bits && who == role::keeper)
               ? "bits are flipped in results of a lane, or in a state sent to a keeper"
               : "";
  if (!what.ends_process && !what.planted.empty())
    return fmt::format("{} is planted in an actor, such as a lane or a stage", what.name);
  if (kind == fault_kind::exit)
    return "exit is planted in an actor, such as a lane or a stage";
  const bool of_files = kind == fault_kind::disk_full || kind == fault_kind::short_write;
  if (of_files && who != role::supervisor && !(who == role::node && kind == fault_kind::disk_full))
    return fmt::format("a {} writes no files that the run needs", of.name);
  if (kind == fault_kind::out_of_memory && who != role::node)
    return "out-of-memory strikes nodes only";
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
  // A restore needs another death. It comes after all have voted (STEP-4): before that, the restore
  // would return to the previous step.
  if (moment == "restore")
    out.push_back(fmt::format("lane:0.{}@{}:decided", cut_of(job).stages - 1, step));
  return out;
}

}  // namespace troupe::command::chaos
