// Members of a run, and the response to their deaths: a state machine without actors, threads and
// clock.
//
//   (state, event) -> (state, orders)
//
// It is told events and times, and returns orders. docs/protocol/membership.md draws it. A
// generation is the set of ranks that work together, in one process or several. Loader, keeper,
// checkpointer, shard writer and monitor serve all generations of a run.
//
//   MEMBER-1  A generation is formed only when all earlier ones have ended and every process that
//             is to host ranks stands.
//   MEMBER-2  Events of an older generation or process incarnation, deaths included, change nothing
//             in a newer one.
//   MEMBER-3  The run goes back to the newest step that all have kept, or to an older tier, never
//             forward.
//   MEMBER-4  The first cause is reported, even if deaths that it caused are reported earlier.
//   MEMBER-5  Restarts are limited: in a time window, and without progress.
//   MEMBER-6  See stored_steps.hpp.
//   MEMBER-7  Living processes are separated when their connection breaks repeatedly: at the second
//             break one of the two is exchanged, or the one that several others cannot reach. No
//             step is lost by that.

#pragma once

#include "actors/supervisor/restart_limits.hpp"
#include "actors/support/all_by_now.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/state/state_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::actors {

/// The role of a dead member.
enum class member_role : std::uint8_t {
  rank,  ///< a replica of a generation, or one of its stages or lanes
  loader,
  keeper,
  checkpointer,
  shard_writer,
  monitor,
};

/// Whether a death caused others or was caused by one.
enum class death_cause : std::uint8_t {
  own,         ///< failed by itself
  connection,  ///< two living processes cannot reach each other
  peer,        ///< reported that another member is gone
  cancelled,   ///< ended with its generation
};

/// A broken connection between two processes, which may both live.
struct broken_link {
  int from = 0, to = 0;  ///< the reporting process, and the other one
  std::uint32_t from_incarnation = 0, to_incarnation = 0;
  bool is_closed = false;  ///< both were ordered to close their connections
  bool is_late = false;    ///< reported after all had ended: closed, but not counted
};

struct member_death {
  runtime::generation_id generation = {};  ///< its generation; for a service: the newest
  member_role role = {};
  std::string who;  ///< "replica:0"
  death_cause cause = {};
  bool refused = false;     ///< by the user's input or the system; else an internal error
  bool moves = false;       ///< ended in order to move: not an accident, and counted separately
  std::string why;          ///< with the names of the actors that passed it on
  int process = 0;          ///< for loader, keeper and shard writer: the process that it serves
  bool wrong_bits = false;  ///< ended because it computed wrong bits
  bool runs_again = false;  ///< not a death: a step runs again; not counted
  bool is_accident() const { return !moves && !runs_again; }
};

/// Why a process was lost.
enum class process_loss : std::uint8_t {
  died,
  moves,       ///< this run moves it to another host
  wrong_bits,  ///< it computed wrong bits, and its place is no longer trusted
};

/// The remains of an ended generation in one process.
struct generation_remains {
  /// The newest step that all ranks there have; empty: some rank has none.
  std::optional<std::uint64_t> newest = {};
  /// The oldest step that all ranks there have.
  std::optional<std::uint64_t> oldest = {};
  /// Steps of which this process keeps the states of all ranks of another process, by that process.
  std::map<int, std::vector<std::uint64_t>> kept = {};
};

/// Start this process, or find the running one; answered by `stands`.
struct order_start {
  int process = 0;
  bool elsewhere = false;  ///< on another host if possible
  friend bool operator==(const order_start&, const order_start&) = default;
};
/// End this generation and all before it in this process; answered by `ended`.
struct order_end {
  runtime::generation_id last = {};
  int process = 0;
  std::vector<int> broken_with = {};  ///< connections to close before the answer
  friend bool operator==(const order_end&, const order_end&) = default;
};
/// Spawn all ranks with their states, all after the same step; answered by `ready`.
struct order_form {
  runtime::generation_id generation = {};
  std::vector<runtime::state_source> sources = {};

  runtime::step_id step() const { return sources.front().step; }
  /// The farthest tier of all sources.
  runtime::state_tier tier() const;
  friend bool operator==(const order_form&, const order_form&) = default;
};
/// Ask every process which states of others are on its host's disk; answered by `looked`.
struct order_look {
  std::uint64_t number = 0;  ///< answers to older searches are ignored
  /// Only older steps are useful, because the states in memory may be wrong. Empty: all steps.
  std::optional<std::uint64_t> before = {};
  friend bool operator==(const order_look&, const order_look&) = default;
};
/// A step with all states on local disks, in agreement with the ledger.
struct stored_everywhere {
  std::uint64_t step = 0;
  std::vector<int> holders = {};  ///< for each process, the process that has its ranks' states
  friend bool operator==(const stored_everywhere&, const stored_everywhere&) = default;
};
/// Spawn this service of that process's ranks again.
struct order_replace {
  member_role role = {};
  int process = 0;
  friend bool operator==(const order_replace&, const order_replace&) = default;
};
/// Continue without this service.
struct order_forgo {
  member_role role = {};
  friend bool operator==(const order_forgo&, const order_forgo&) = default;
};
/// Abandon this process, although it lives, and start another one, on another host if possible;
/// answered by `stands`.
struct order_exchange {
  int process = 0;
  std::string why = {};  ///< the last broken connection
  friend bool operator==(const order_exchange&, const order_exchange&) = default;
};
/// End the run, for this reason.
struct order_stop {
  std::string why;
  bool refused = false;
  bool ranks_stand = false;  ///< a save in progress may finish first
  friend bool operator==(const order_stop&, const order_stop&) = default;
};
using membership_order = std::variant<order_start,
                                      order_end,
                                      order_look,
                                      order_form,
                                      order_replace,
                                      order_forgo,
                                      order_exchange,
                                      order_stop>;

class membership {
 public:
  enum class phase : std::uint8_t {
    forming,  ///< ranks are being built
    running,
    ending,  ///< ranks of the generation end, and processes start
    stopped,
  };
  using orders = std::vector<membership_order>;

  /// The first supervisor of a run forms the first generation as soon as all processes stand. A
  /// successor (`epoch` > 0) first ends what its predecessor left, and gets the newest committed
  /// step by `kept`. `start`: the step after which the run began. `processes`: number that host
  /// ranks; with one, it is this process itself and always stands.
  membership(restart_limits limits,
             std::uint32_t epoch,
             std::uint64_t start,
             std::vector<runtime::restart> before = {},
             int processes = 1);

  /// `is_cold`: the run was started again in a later epoch, without a living predecessor.
  orders begin(bool is_cold = false);
  /// A process joined; or it lived before (`lived`) and may have ranks of older generations.
  orders stands(int process, std::uint32_t incarnation, bool lived, std::uint64_t now_ns);
  /// The process is gone with all it hosted. `now_ns`: time of a steady clock.
  orders lost(int process,
              std::uint32_t incarnation,
              const std::string& why,
              std::uint64_t now_ns,
              process_loss how = process_loss::died);
  /// A data connection broke in this generation. It is handled when all have ended: by then it is
  /// known whether one of the two processes has died.
  orders broke(const broken_link& x, runtime::generation_id generation, const std::string& why);
  /// All ranks of the generation are built and have their states.
  void ready(runtime::generation_id generation);
  orders lost(const member_death& x, std::uint64_t now_ns);
  /// The generation has ended in this process.
  orders ended(runtime::generation_id generation,
               int process,
               generation_remains remains,
               std::uint64_t now_ns);
  /// Result of order_look: the newest step of which all states are there; empty: none.
  orders looked(std::uint64_t number, std::optional<stored_everywhere> found);
  /// Enables searches of local disks, for when no process has the newest state in memory.
  void looks_at_disks(bool yes) { looks_at_disks_ = yes; }
  /// All ranks have kept the state after this step; older ones are no longer needed.
  void kept(std::uint64_t step);
  /// The newest step in a checkpoint.
  void saved(std::optional<std::uint64_t> step) { saved_ = step; }
  /// The run ends by itself; later deaths change nothing.
  void close() { phase_ = phase::stopped; }

  phase now() const { return phase_; }
  /// No generation was formed yet: processes are missing, or earlier ranks have not ended.
  bool waits_for_first() const { return phase_ == phase::ending && !formed_; }
  runtime::generation_id generation() const { return generation_; }
  std::uint64_t kept() const { return kept_; }
  bool stands(int process) const { return processes_[std::size_t(process)].stands; }
  bool is_looking() const { return phase_ == phase::ending && is_looking_; }
  /// The process was ordered to end a generation, and has not answered.
  bool is_ending(int process) const {
    return phase_ == phase::ending && stands(process) && !processes_[std::size_t(process)].remains;
  }
  /// The incarnation of the current or last process at that place.
  std::uint32_t incarnation(int process) const {
    return processes_[std::size_t(process)].incarnation;
  }
  /// First death of the generation that is ending; empty: none.
  const std::optional<member_death>& cause() const { return cause_; }
  std::vector<runtime::restart> take_restarts() { return restarts_.take_new(); }

 private:
  struct hosting {
    bool stands = false;
    std::uint32_t incarnation = 0;
    bool is_new = false;  ///< in no generation yet
    /// Set when the ending generation has ended there.
    std::optional<generation_remains> remains = {};
  };

  orders end_all();
  orders form_if_all_ended(std::uint64_t now_ns);
  struct past_break {
    int from, to;  ///< the lower place first
    std::uint32_t from_incarnation, to_incarnation;
    std::uint64_t at_ns;
    bool is_of(int process) const { return from == process || to == process; }
  };

  order_end end_of(int process) const;
  /// LINK-1. Ends the processes again that ended before they knew of a break. Empty: all knew.
  orders close_what_broke();
  bool is_between_living(const broken_link& x) const;
  /// MEMBER-7. Empty: all may continue over new connections. `why`: the cause of this ending.
  orders exchange_unreachable(const std::string& why, std::uint64_t now_ns);
  /// Number of breaks in the window with the current process at that place.
  std::ptrdiff_t breaks_of(int process) const;
  /// Several other processes cannot reach it, and each of them is reached better.
  bool is_shunned(int process) const;
  /// Candidates for an exchange after the breaks of this ending, best first; empty: none.
  std::vector<int> unreachable(const std::vector<past_break>& now) const;
  /// Whether the run goes back to the same step without what this process has and keeps.
  bool can_spare(int process);
  orders form();
  /// The last generation that must end before the next one is formed.
  runtime::generation_id newest_formed() const {
    return formed_ ? generation_ : runtime::generation_id(runtime::value(generation_) - 1);
  }
  std::optional<order_stop> stop_if_too_many(const member_death& x, std::uint64_t now_ns);
  /// The source of each process's states after a step; empty: some are missing.
  std::vector<runtime::state_source> found(std::uint64_t step) const;
  std::vector<runtime::state_source> sources() const;
  /// Sources of the newest step that all have in memory; empty: none.
  std::vector<runtime::state_source> at_hand() const;
  /// A fault that strikes repeatedly may lie in the kept state.
  bool wants_older() const { return by_accident_ && restarts_.is_last(furthest_ + 1); }
  std::vector<runtime::state_source> all_from(runtime::state_tier tier, std::uint64_t step) const;

  restart_limits limits_;
  restart_counter restarts_;
  phase phase_ = phase::forming;
  runtime::generation_id generation_ = {};
  bool formed_ = false;  ///< the current generation was formed
  std::optional<runtime::generation_id> first_
      = {};  ///< of the run; empty: formed by an earlier supervisor
  std::vector<hosting> processes_;
  all_by_now all_ended_;
  std::optional<std::uint64_t> saved_;
  bool looks_at_disks_ = false;
  std::uint64_t looks_ = 0;  ///< number of searches ordered
  bool is_looking_ = false;
  std::optional<stored_everywhere> stored_;  ///< found by the newest search
  std::uint64_t start_, kept_;
  std::uint64_t furthest_;  ///< newest step ever kept; progress is beyond it
  std::optional<member_death> cause_;
  bool by_accident_ = true;          ///< why the generation ends; also true when unknown
  std::vector<broken_link> broken_;  ///< in the ending generation, each pair once
  /// All of the generation have ended, and its cause was counted; reset when the next is formed.
  bool is_settled_ = false;
  bool exchanged_ = false;               ///< a process was exchanged after all had ended
  std::vector<past_break> past_breaks_;  ///< within the window, between living processes
};

}  // namespace troupe::actors
