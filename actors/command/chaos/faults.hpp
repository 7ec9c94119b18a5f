// Tables of the faults of chaos: kinds, roles that they strike, allowed pairs, and expected
// effects.

#pragma once

#include "runtime/job/job.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::command::chaos {

enum class fault_kind : std::uint8_t {
  sigkill,
  sigstop,  ///< SIGSTOP, then SIGCONT after more than the timeout of the failure detector
  pause,    ///< SIGSTOP, then SIGCONT within the timeout
  sigsegv,
  abort,
  exit,
  raise,  ///< an actor throws; its process survives
  hang,   ///< an actor or lane hangs
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
  bool ends_process = false;  ///< immediately
  /// HOW of --plant-death; empty: cannot be planted.
  std::string_view planted = {};
};
std::span<const kind_row> kinds();
const kind_row& row_of(fault_kind x);

/// Processes that may be replaced after a fault.
enum class replaced : std::uint8_t {
  nobody,
  victim,
  one_node,         ///< the node of the planted actor
  supervisor,       ///< the supervisor's process
  agents_and_nodes  ///< of hosts that lose their connection
};

enum class role : std::uint8_t {
  node,
  front,
  supervisor,
  agent,
  // Actors and lanes, struck by planted deaths at a moment of a step:
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
  std::string_view about;  ///< expected effect of its death
  bool is_process = false;
  bool in_node = false;  ///< for an actor: in a node; else in the supervisor's process
  replaced by_death = replaced::nobody;
  bool succeeded = true;  ///< is replaced after its death
};
std::span<const role_row> roles();
const role_row& row_of(role x);

bool is_link(fault_kind x);
/// True for actors that serve ranks: they are replaced while the ranks continue.
bool is_service(role x);
/// True for kinds that flip a bit.
bool flips(fault_kind x);

/// The processes that may be replaced after the fault.
replaced allowed_after(fault_kind kind, role who);
/// True if the fault ends a process that must be replaced.
bool is_replaced_after(fault_kind kind, role who);
/// True if the fault ends a process that is not replaced.
bool leaves_nobody(fault_kind kind, role who);

/// States if a restart of all ranks must, must not or may follow the fault, according to the log.
enum class restart_is : std::uint8_t { due, wrong, possible };
restart_is restart_after(fault_kind kind, role who);

/// Evidence that a fault had an effect.
enum class trace : std::uint8_t {
  certain,        ///< not needed: the fault always has an effect
  restart,        ///< a restart of all ranks, or a replaced process
  successor,      ///< as `restart`, or a logged replacement
  refused_write,  ///< as `restart`, or a logged failure to write
  refused_state   ///< a keeper's log line: the received state is not the sealed one
};
trace trace_of(fault_kind kind, role who);
/// Phrases in the logs of a run that show this trace; none: the logs do not show it.
std::span<const std::string_view> words_of(trace x);

/// Longest duration of a fault from outside; 0: it ends at once.
double seconds_of(fault_kind kind, double suspicion, double step_seconds);

/// The reason why this kind cannot strike that role; empty: it can. `link_commands`: commands that
/// cut a link are given. `over_hosts`: standing nodes start the nodes of the job.
std::string why_not(fault_kind kind, role who, bool link_commands, bool over_hosts);

/// Names of all moments at which the fault can strike that role in this job; none for a process.
std::vector<std::string> moments_for(fault_kind kind, role who, const runtime::training_job& job);

/// Name of an actor of that role that reaches the moment: "lane:0.1". `draw` returns a random
/// number below its argument.
template <class Draw>
std::string actor_of(role who,
                     const std::string& moment,
                     const runtime::training_job& job,
                     Draw draw);

/// Numbers of replicas, stages and tensor ranks.
struct cut {
  int replicas = 1, stages = 1, tensor = 1;
};
cut cut_of(const runtime::training_job& job);
/// Numbers of the ranks that reach the moment. Only the first of the replicas with equal state
/// takes a snapshot.
cut cut_at(const std::string& moment, const runtime::training_job& job);

/// The values for --plant-death. A fault at restore needs a second planted death, which causes the
/// restore.
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
