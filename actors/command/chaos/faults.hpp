// What chaos does to whom: the kinds of faults and the roles that they strike, one table each, and
// which go together.

#pragma once

#include "runtime/trainer/job.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::command::chaos {

enum class fault_kind : std::uint8_t {
  sigkill,
  sigstop,  ///< and SIGCONT after longer than the suspicion
  pause,    ///< the same, for a part of the suspicion
  sigsegv,
  abort,
  exit,
  raise,  ///< an actor throws; its process lives on
  hang,   ///< an actor or lane does nothing more
  out_of_memory,
  slow,
  disk_full,
  short_write,
  flipped_bits,
  flipped_moment,
  flipped_second_moment,
  link_down,
  one_way,
};

struct kind_row {
  fault_kind kind;
  std::string_view name;  ///< "SIGKILL"
  std::string_view about;
  bool ends_process = false;  ///< at once
  /// HOW of a planted death; empty: it is not planted.
  std::string_view planted = {};
};
std::span<const kind_row> kinds();
const kind_row& row_of(fault_kind x);

/// Which processes may be others after a fault that its victim does not outlive.
enum class replaced : std::uint8_t {
  nobody,
  victim,
  one_node,         ///< the one that the planted actor is in
  supervisor,       ///< the process that the planted actor is in
  agent_and_guard,  ///< of a host
  agents_and_nodes  ///< of hosts that lose each other
};

enum class role : std::uint8_t {
  node,
  front,
  supervisor,
  agent,
  guard,
  // Actors and lanes, struck by planted deaths at a moment of the step:
  lane,
  stage,
  replica,
  wire,
  loader,
  checkpointer,
  monitor,
  keeper,
  shard_writer,
};

struct role_row {
  role who;
  std::string_view name;
  std::string_view about;  ///< what is expected of its death
  bool is_process = false;
  bool in_node = false;  ///< an actor that lives in a node; else in the supervisor's process
  replaced by_death = replaced::nobody;
  bool succeeded = true;  ///< another one takes its place
};
std::span<const role_row> roles();
const role_row& row_of(role x);

bool is_link(fault_kind x);
/// What ranks are served by: another one takes its place, and they live on.
bool is_service(role x);
/// Nobody dies of it: a bit is another.
bool flips(fault_kind x);

/// Who may be another process after that.
replaced allowed_after(fault_kind kind, role who);
/// Whether one of these must be: the fault ends a process whose place another one takes.
bool is_replaced_after(fault_kind kind, role who);
/// Whether the fault ends a process whose place nobody takes.
bool leaves_nobody(fault_kind kind, role who);

/// Whether all ranks are built anew after that, as the run's log then says.
enum class restart_is : std::uint8_t { due, wrong, possible };
restart_is restart_after(fault_kind kind, role who);

/// By what it is seen that a fault had an effect.
enum class trace : std::uint8_t {
  certain,        ///< whoever it strikes has it
  restart,        ///< all ranks are built anew, or somebody is another process
  successor,      ///< the same, or the run tells who was replaced
  refused_write,  ///< the same, or the run tells what could not be written
  refused_state   ///< a keeper tells that what came is not what was sealed
};
trace trace_of(fault_kind kind, role who);
/// What the logs of a run have where there is that trace; none: no log has it.
std::span<const std::string_view> words_of(trace x);

/// For how long it lasts, at most, where it is carried out from outside: 0 of what is over at once.
double seconds_of(fault_kind kind, double suspicion, double step_seconds);

/// Why this kind cannot strike that role; empty: it can. `link_commands`: how a link is cut was
/// said. `over_hosts`: standing nodes start the processes that compute.
std::string why_not(fault_kind kind, role who, bool link_commands, bool over_hosts);

/// The names of all moments at which that role can be struck so in this job; of a process none.
std::vector<std::string> moments_for(fault_kind kind, role who, const runtime::training_job& job);

/// Of an actor of that role to whom that moment comes, drawn by `draw`, which gives a number below
/// its argument: "lane:0.1".
template <class Draw>
std::string actor_of(role who,
                     const std::string& moment,
                     const runtime::training_job& job,
                     Draw draw);

/// How many replicas, stages and tensor ranks there are.
struct cut {
  int replicas = 1, stages = 1, tensor = 1;
};
cut cut_of(const runtime::training_job& job);
/// The same of those to whom that moment comes: of replicas that have the same state the first
/// alone gives it to a checkpoint.
cut cut_at(const std::string& moment, const runtime::training_job& job);

/// `--plant-death` takes them together, if the moment needs another death to come: one at restore.
std::vector<std::string> plants_of(fault_kind kind,
                                   const std::string& actor,
                                   std::uint64_t step,
                                   const std::string& moment,
                                   const runtime::training_job& job);

template <class Draw>
std::string actor_of(role who,
                     const std::string& moment,
                     const runtime::training_job& job,
                     Draw draw) {
  const auto size = cut_at(moment, job);
  std::string out(row_of(who).name);
  if (who == role::replica)
    return out + ":" + std::to_string(draw(size.replicas));
  if (who != role::lane && who != role::stage && who != role::wire)
    return out;
  out += ":" + std::to_string(draw(size.replicas));
  out += "." + std::to_string(draw(size.stages));
  return size.tensor == 1 ? out : out + "." + std::to_string(draw(size.tensor));
}

}  // namespace troupe::command::chaos
