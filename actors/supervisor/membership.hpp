// Who is in, and what becomes of a death: a pure machine beside the driver of steps.
//
//   (state, event) -> (state, orders)
//
// It knows no actor, thread or clock: it is told what happened and when, and says what is to be
// done. docs/protocol/membership.md draws it. A generation is the set of ranks that work together;
// loader, checkpointer and monitor serve all generations of a run.
//
//   MEMBER-1  A generation is formed only when all that came before it have ended.
//   MEMBER-2  What was of an older generation, a death included, changes nothing in a newer one.
//   MEMBER-3  The run goes back to the newest step that everybody has kept, or to an older tier,
//             never forward.
//   MEMBER-4  The first cause is told, whatever died of it and in whatever order that is heard.
//   MEMBER-5  Restarts are bounded: in a window of time, and without progress.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/core/state_source.hpp"
#include "runtime/trainer/step_ledger.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::actors {

/// How often somebody may be replaced.
struct restart_limits {
  bool on = false;  ///< nobody is, else
  int most = 10;    ///< within the window
  std::uint64_t window_ns = 3'600'000'000'000;
  /// Deaths in a row without a step more committed: the last but one goes back to an older tier,
  /// the last ends the run, because what strikes each time is no accident.
  int without_progress = 4;
};

/// Whose death it is.
enum class member_role : std::uint8_t {
  rank,  ///< of a generation: a replica, or a stage or lane of it
  loader,
  checkpointer,
  monitor,
};

/// Whether a death is the cause of others or one of those that it caused.
enum class death_cause : std::uint8_t {
  own,        ///< it failed by itself
  peer,       ///< it was told that somebody else is gone
  cancelled,  ///< its generation was ended
};

struct member_death {
  runtime::generation_id generation = {};  ///< it belonged to; of a service: the newest
  member_role role = {};
  std::string who;  ///< "replica:0"
  death_cause cause = {};
  bool refused = false;  ///< by the user's input or the system; else we failed
  std::string why;       ///< with the names of those who passed it on
};

/// What is left of an ended generation: of one process.
struct generation_remains {
  /// The newest step whose state each rank there has; nothing: some rank has none.
  std::optional<std::uint64_t> newest = {};
  /// The oldest of those.
  std::optional<std::uint64_t> oldest = {};
};

/// End this generation and all before it, and answer with `ended`.
struct order_end {
  runtime::generation_id last = {};
  friend bool operator==(const order_end&, const order_end&) = default;
};
/// Spawn all ranks, with the state after this step; answer with `ready`.
struct order_form {
  runtime::generation_id generation = {};
  runtime::state_source source = {};
  friend bool operator==(const order_form&, const order_form&) = default;
};
/// Spawn this service again.
struct order_replace {
  member_role role = {};
  friend bool operator==(const order_replace&, const order_replace&) = default;
};
/// Go on without this service.
struct order_forgo {
  member_role role = {};
  friend bool operator==(const order_forgo&, const order_forgo&) = default;
};
/// The run is over, for this reason.
struct order_stop {
  std::string why;
  bool refused = false;
  friend bool operator==(const order_stop&, const order_stop&) = default;
};
using membership_order
    = std::variant<order_end, order_form, order_replace, order_forgo, order_stop>;

class membership {
 public:
  enum class phase : std::uint8_t {
    forming,  ///< ranks are being built
    running,
    ending,  ///< those of the generation are being stopped
    stopped,
  };
  using orders = std::vector<membership_order>;

  /// The first supervisor of a run forms the first generation at once. A successor (`epoch` > 0)
  /// first ends what the one before it has left. `step`: the newest that everybody has kept.
  /// `start`: that whose state the run has begun with; nothing: it begins with `step`.
  membership(restart_limits limits,
             std::uint32_t epoch,
             std::uint64_t step,
             std::vector<runtime::restart> before = {},
             std::optional<std::uint64_t> start = {});

  orders begin();
  /// All ranks of the generation stand, with the state that they were to have.
  void ready(runtime::generation_id generation);
  /// `now_ns`: by a steady clock.
  orders lost(const member_death& x, std::uint64_t now_ns);
  /// Everybody of the generation is gone. `remains`: of each process. `saved`: the newest
  /// checkpoint on the disk, if any.
  orders ended(runtime::generation_id generation,
               const std::vector<generation_remains>& remains,
               std::optional<std::uint64_t> saved,
               std::uint64_t now_ns);
  /// Everybody has kept the state after this step: nobody needs an older one.
  void kept(std::uint64_t step);
  /// The run ends by itself; what dies from now on changes nothing.
  void close() { phase_ = phase::stopped; }

  phase now() const { return phase_; }
  runtime::generation_id generation() const { return generation_; }
  std::uint64_t kept() const { return kept_; }
  /// Who died first of the generation that is being ended; nothing: nobody.
  const std::optional<member_death>& cause() const { return cause_; }
  std::vector<runtime::restart> take_restarts();  ///< new since last asked

 private:
  orders end(std::uint64_t now_ns);
  std::optional<order_stop> stop_if_too_many(const member_death& x, std::uint64_t now_ns);
  void count(const member_death& x, std::uint64_t now_ns);
  int without_progress() const;
  std::optional<order_form> source_of(const std::vector<generation_remains>& remains,
                                      std::optional<std::uint64_t> saved) const;

  restart_limits limits_;
  phase phase_ = phase::forming;
  runtime::generation_id generation_ = {};
  std::uint64_t start_, kept_;
  std::uint64_t furthest_;  ///< step that was ever kept: progress is beyond it
  std::optional<member_death> cause_;
  std::vector<runtime::restart> restarts_;
  std::size_t taken_ = 0;
};

}  // namespace troupe::actors
