// Who is in, and what becomes of a death: a pure machine beside the driver of steps.
//
//   (state, event) -> (state, orders)
//
// It knows no actor, thread or clock: it is told what happened and when, and says what is to be
// done. docs/protocol/membership.md draws it. A generation is the set of ranks that work together,
// in one process or several; loader, keeper, checkpointer, shard writer and monitor serve all
// generations of a run.
//
//   MEMBER-1  A generation is formed only when all that came before it have ended, and every
//             process stands that is to host ranks.
//   MEMBER-2  What was of an older generation, or of an older incarnation of a process, a death
//             included, changes nothing in a newer one.
//   MEMBER-3  The run goes back to the newest step that everybody has kept, or to an older tier,
//             never forward.
//   MEMBER-4  The first cause is told, whatever died of it and in whatever order that is heard.
//   MEMBER-5  Restarts are bounded: in a window of time, and without progress.
//   MEMBER-6  is in stored_steps.hpp.
//   MEMBER-7  Living processes between which connections break again and again do not go on as they
//             are: the second time one of both is exchanged, or whom several others do not reach,
//             and by that no step is lost.

#pragma once

#include "actors/supervisor/restart_limits.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/core/state_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::actors {

/// Whose death it is.
enum class member_role : std::uint8_t {
  rank,  ///< of a generation: a replica, or a stage or lane of it
  loader,
  keeper,
  checkpointer,
  shard_writer,
  monitor,
};

/// Whether a death is the cause of others or one of those that it caused.
enum class death_cause : std::uint8_t {
  own,         ///< it failed by itself
  connection,  ///< two processes that both live cannot reach each other
  peer,        ///< it was told that somebody else is gone
  cancelled,   ///< its generation was ended
};

/// Between two processes, which may both live.
struct broken_link {
  int from = 0, to = 0;  ///< who tells of it, and the other one
  std::uint32_t from_incarnation = 0, to_incarnation = 0;
  bool is_closed = false;  ///< both were ordered to close what is left between them
  bool is_late = false;    ///< heard when everybody had ended: it is closed, and does not count
};

struct member_death {
  runtime::generation_id generation = {};  ///< it belonged to; of a service: the newest
  member_role role = {};
  std::string who;  ///< "replica:0"
  death_cause cause = {};
  bool refused = false;     ///< by the user's input or the system; else we failed
  bool moves = false;       ///< it was ended to go on elsewhere: no accident, which counts
  std::string why;          ///< with the names of those who passed it on
  int process = 0;          ///< whose ranks it serves: a loader, keeper or shard writer
  bool wrong_bits = false;  ///< it was ended because of those that it computed
  bool runs_again = false;  ///< nobody died: a step is to run again, which does not count either
  bool is_accident() const { return !moves && !runs_again; }
};

/// Why a process is gone.
enum class process_loss : std::uint8_t {
  died,
  moves,       ///< it is to be started elsewhere, by our own wish
  wrong_bits,  ///< it computed them, and its place is not to be trusted
};

/// What is left of an ended generation: of one process.
struct generation_remains {
  /// The newest step whose state each rank there has; nothing: some rank has none.
  std::optional<std::uint64_t> newest = {};
  /// The oldest of those.
  std::optional<std::uint64_t> oldest = {};
  /// What it keeps of other processes: the steps of which it has the states of all their ranks.
  std::map<int, std::vector<std::uint64_t>> kept = {};
};

/// Start a process of this number, or find the one that lives; answer with `stands`.
struct order_start {
  int process = 0;
  bool elsewhere = false;  ///< on another host, where there is one
  friend bool operator==(const order_start&, const order_start&) = default;
};
/// End this generation and all before it, in this process; answer with `ended`.
struct order_end {
  runtime::generation_id last = {};
  int process = 0;
  std::vector<int> broken_with = {};  ///< its connections with these are closed before it answers
  friend bool operator==(const order_end&, const order_end&) = default;
};
/// Spawn all ranks, each process's with the state of its source, all after the same step; answer
/// with `ready`.
struct order_form {
  runtime::generation_id generation = {};
  std::vector<runtime::state_source> sources = {};

  runtime::step_id step() const { return sources.front().step; }
  /// The farthest that somebody's state comes from.
  runtime::state_tier tier() const;
  friend bool operator==(const order_form&, const order_form&) = default;
};
/// Ask every process what is on the disk of its host of the states of others; answer with `looked`.
struct order_look {
  std::uint64_t number = 0;  ///< an answer to an older one says nothing any more
  /// Only older steps are of use: what is in memory may be what is wrong. Nothing: all are.
  std::optional<std::uint64_t> before = {};
  friend bool operator==(const order_look&, const order_look&) = default;
};
/// A step whose states are all on local disks, and agree with the ledger.
struct stored_everywhere {
  std::uint64_t step = 0;
  std::vector<int> holders = {};  ///< of each process: the one that has its ranks' states
  friend bool operator==(const stored_everywhere&, const stored_everywhere&) = default;
};
/// Spawn this service again: that of that process's ranks.
struct order_replace {
  member_role role = {};
  int process = 0;
  friend bool operator==(const order_replace&, const order_replace&) = default;
};
/// Go on without this service.
struct order_forgo {
  member_role role = {};
  friend bool operator==(const order_forgo&, const order_forgo&) = default;
};
/// This process lives, and is taken for lost all the same: forget it, and start another one, on
/// another host where there is one; answer with `stands`.
struct order_exchange {
  int process = 0;
  std::string why = {};  ///< what broke last
  friend bool operator==(const order_exchange&, const order_exchange&) = default;
};
/// The run is over, for this reason.
struct order_stop {
  std::string why;
  bool refused = false;
  bool ranks_stand = false;  ///< what they are saving may be finished first
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
    ending,  ///< those of the generation are being stopped, and processes started
    stopped,
  };
  using orders = std::vector<membership_order>;

  /// The first supervisor of a run forms the first generation as soon as all processes stand. A
  /// successor (`epoch` > 0) first ends what the one before it has left, and is told the newest
  /// committed step by `kept`. `start`: the step that the run began after. `processes` that host
  /// ranks; one is this process itself, and always stands.
  membership(restart_limits limits,
             std::uint32_t epoch,
             std::uint64_t start,
             std::vector<runtime::restart> before = {},
             int processes = 1);

  /// `is_cold`: no supervisor of this run came before, though it is of a later epoch.
  orders begin(bool is_cold = false);
  /// A process has come; or it had been there, and may have ranks of older generations.
  orders stands(int process, std::uint32_t incarnation, bool lived, std::uint64_t now_ns);
  /// It is gone, and all that it hosted. `now_ns`: by a steady clock.
  orders lost(int process,
              std::uint32_t incarnation,
              const std::string& why,
              std::uint64_t now_ns,
              process_loss how = process_loss::died);
  /// A connection of data broke in this generation. What becomes of it is settled when everybody
  /// has ended: by then it is known whether one of both has died.
  orders broke(const broken_link& x, runtime::generation_id generation, const std::string& why);
  /// All ranks of the generation stand, with the state that they were to have.
  void ready(runtime::generation_id generation);
  orders lost(const member_death& x, std::uint64_t now_ns);
  /// Everybody of the generation is gone from this process.
  orders ended(runtime::generation_id generation,
               int process,
               generation_remains remains,
               std::uint64_t now_ns);
  /// What order_look has found: the newest step of which everybody's state is there; nothing: there
  /// is none.
  orders looked(std::uint64_t number, std::optional<stored_everywhere> found);
  /// Keepers write states to disks of their hosts: where nobody has the newest in memory, these are
  /// looked at.
  void looks_at_disks(bool yes) { looks_at_disks_ = yes; }
  /// Everybody has kept the state after this step: nobody needs an older one.
  void kept(std::uint64_t step);
  /// It is on the disk, the newest there.
  void saved(std::optional<std::uint64_t> step) { saved_ = step; }
  /// The run ends by itself; what dies from now on changes nothing.
  void close() { phase_ = phase::stopped; }

  phase now() const { return phase_; }
  /// No generation was formed yet: not all processes stand, or what was before has not ended.
  bool waits_for_first() const { return phase_ == phase::ending && !formed_; }
  runtime::generation_id generation() const { return generation_; }
  std::uint64_t kept() const { return kept_; }
  bool stands(int process) const { return processes_[std::size_t(process)].stands; }
  /// Of the process that stands there, or stood last.
  std::uint32_t incarnation(int process) const {
    return processes_[std::size_t(process)].incarnation;
  }
  /// Who died first of the generation that is being ended; nothing: nobody.
  const std::optional<member_death>& cause() const { return cause_; }
  std::vector<runtime::restart> take_restarts() { return restarts_.take_new(); }

 private:
  struct hosting {
    bool stands = false;
    std::uint32_t incarnation = 0;
    bool is_new = false;  ///< it was of no generation yet
    /// Nothing is left there of the generation that is being ended but this.
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
  /// LINK-1. Who has ended before it was told of a break ends once more. Empty: all were told.
  orders close_what_broke();
  bool is_between_living(const broken_link& x) const;
  /// MEMBER-7. Empty: all may go on, over new connections. `why`: the cause of this ending.
  orders exchange_unreachable(const std::string& why, std::uint64_t now_ns);
  /// Of those within the window, how many broke with the process that now is at that place.
  std::ptrdiff_t breaks_of(int process) const;
  /// It cannot be reached by several others, each of which is reached better than it.
  bool is_shunned(int process) const;
  /// Whom to exchange for the breaks of this ending, the better first; empty: nobody.
  std::vector<int> unreachable(const std::vector<past_break>& now) const;
  /// All go on after the same step without what this process has and keeps.
  bool can_spare(int process);
  orders form();
  /// The last generation that is to end before the next one is formed.
  runtime::generation_id newest_formed() const {
    return formed_ ? generation_ : runtime::generation_id(runtime::value(generation_) - 1);
  }
  std::optional<order_stop> stop_if_too_many(const member_death& x, std::uint64_t now_ns);
  /// Where each process finds the states of its ranks after a step; empty: not everybody does.
  std::vector<runtime::state_source> found(std::uint64_t step) const;
  std::vector<runtime::state_source> sources() const;
  /// The newest that everybody has at hand; empty: there is none.
  std::vector<runtime::state_source> at_hand() const;
  /// What strikes again and again may lie in what was kept.
  bool wants_older() const { return by_accident_ && restarts_.is_last(furthest_ + 1); }
  std::vector<runtime::state_source> all_from(runtime::state_tier tier, std::uint64_t step) const;

  restart_limits limits_;
  restart_counter restarts_;
  phase phase_ = phase::forming;
  runtime::generation_id generation_ = {};
  bool formed_ = false;  ///< somebody is, or was, of it
  std::optional<runtime::generation_id> first_
      = {};  ///< of the run; nothing: of a supervisor before
  std::vector<hosting> processes_;
  std::optional<std::uint64_t> saved_;
  bool looks_at_disks_ = false;
  std::uint64_t looks_ = 0;  ///< that were ordered
  bool is_looking_ = false;
  std::optional<stored_everywhere> stored_;  ///< that the newest look has found
  std::uint64_t start_, kept_;
  std::uint64_t furthest_;  ///< step that was ever kept: progress is beyond it
  std::optional<member_death> cause_;
  bool by_accident_ = true;          ///< why the generation is being ended; or it is not known
  std::vector<broken_link> broken_;  ///< in the generation that is being ended: each pair once
  /// All of the generation have ended, and its cause was counted: until the next is formed.
  bool is_settled_ = false;
  bool exchanged_ = false;  ///< somebody was, after the end of that generation: everybody had ended
  std::vector<past_break> past_breaks_;  ///< within the window, of processes that lived
};

}  // namespace troupe::actors
