// A deterministic scheduler: actors and lanes take turns in one thread with a virtual clock. A seed
// decides which runs next and when a timer fires; equal seeds and actors give equal turns.
//
// Actors run in CAF's test scheduler, one message per turn. Each turn runs on a fiber, so an actor
// may wait as a lane may; lanes are fibers too (runtime/device/fibers.hpp). When nothing is
// runnable, the clock advances to the next timer.

#pragma once

#include "actors/simulation/mix.hpp"
#include "actors/simulation/turn_trace.hpp"
#include "runtime/device/fibers.hpp"

#include <caf/actor.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/fwd.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/resumable.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

namespace caf::scheduler {
class test_coordinator;
}

namespace troupe::actors::simulation {

class world {
 public:
  world(std::uint64_t seed, mix how, std::shared_ptr<turn_trace> trace);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  caf::actor_system& system() { return *system_; }
  const std::shared_ptr<runtime::fiber_pool>& fibers() const { return fibers_; }
  turn_trace& trace() { return *trace_; }
  std::uint64_t now_ns() const { return fibers_->now_ns(); }
  std::uint64_t turns() const { return turns_; }

  /// Plays one turn. False: nothing is runnable, and no timer is set.
  bool turn();

  /// Each actor then takes this time for a message; its own messages leave at the end.
  /// Actors then run in the order of arrival; of the mix only the network's part counts. A turn
  /// takes the same time for any number of actors.
  void take_time(std::uint64_t ns_per_message) { handling_ns_ = ns_per_message; }

  /// Ends preferences and early timers.
  void calm_down() { mix_ = calm(); }

  /// Calls `act` before the first turn at or after that time, which may be in the past.
  void at(std::uint64_t ns, std::string what, std::function<void()> act);

  /// Sets the callback before each turn of an actor, with its number and the type of its next
  /// message.
  void before_turn(std::function<void(caf::actor_id, std::type_index)> look) {
    look_ = std::move(look);
  }
  /// Sets the callback before each message of an actor.
  void before_message(std::function<void(caf::actor_id, const caf::mailbox_element&)> look) {
    look_at_message_ = std::move(look);
  }
  /// Sets the callback for new actors, numbers [first, last], spawned in a turn of `by`; 0: outside
  /// all turns.
  void on_spawned(
      std::function<void(caf::actor_id by, caf::actor_id first, caf::actor_id last)> f) {
    spawned_ = std::move(f);
  }

  /// A living actor that has had a turn.
  struct known_actor {
    caf::actor_id number;
    std::string name;  ///< "stage"
  };
  std::vector<known_actor> living();
  /// Null if it has ended.
  caf::actor find(caf::actor_id number);
  std::string name_of(caf::actor_id number) const;  ///< "stage#12"
  std::string kind_of(caf::actor_id number) const;  ///< "stage"; empty: it had no turn yet
  /// Type of the last message that it handled: "vote".
  std::string newest_of(caf::actor_id number) const;

  /// Number of actors that CAF counts as running.
  std::size_t running() const;
  /// Lanes and waiting actors: fibers that have not ended.
  std::vector<std::string> on_fibers() const;

  /// Unwinds all fibers and kills all actors. No turn runs afterwards.
  void end();

  /// Kills these actors without another turn, as the death of their process does.
  void end_at_once(const std::vector<caf::actor_id>& which);

 private:
  struct configuration;
  struct candidate {
    std::uint64_t key;    ///< an actor's number; for fibers, their number with the highest bit set
    std::size_t job;      ///< of an actor: index in the scheduler's queue
    std::uint64_t fiber;  ///< of a fiber: its number
  };
  /// A fiber that runs turns of actors, one after the other.
  struct runner {
    runtime::fiber_pool::number fiber = 0;
    bool assigned = false, busy = false;
    caf::actor_id whose = 0;
  };

  std::vector<candidate> candidates();
  const candidate& choose(const std::vector<candidate>& all);
  bool turn_of_fibers();
  bool timed_turn();
  std::uint64_t next_timer() const;
  std::uint64_t next_event() const;
  void run_actor(std::size_t job);
  void run_fiber(std::uint64_t which);
  void tell_spawned(caf::actor_id by);
  std::uint64_t priority(std::uint64_t key) const;
  bool advance(bool early);
  void set_time(std::uint64_t ns);
  runner& idle_runner();
  const runner* runner_on(std::uint64_t fiber) const;
  std::string fiber_text(std::uint64_t which) const;

  mix mix_;
  choices choices_;
  std::shared_ptr<turn_trace> trace_;
  std::unique_ptr<configuration> config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* coordinator_ = nullptr;
  std::shared_ptr<runtime::fiber_pool> fibers_ = std::make_shared<runtime::fiber_pool>();
  std::vector<std::unique_ptr<runner>> runners_;
  struct event {
    std::string what;
    std::function<void()> act;
  };
  std::multimap<std::uint64_t, event> events_;
  struct seen_actor {
    std::string name;
    caf::weak_actor_ptr handle;
    std::type_index newest = typeid(void);
  };
  std::unordered_map<caf::actor_id, seen_actor> seen_;
  std::function<void(caf::actor_id, std::type_index)> look_;
  std::function<void(caf::actor_id, caf::actor_id, caf::actor_id)> spawned_;
  std::function<void(caf::actor_id, const caf::mailbox_element&)> look_at_message_;
  /// An actor with a message, and when it has handled it. Each takes equally long, so the first is
  /// the first to end.
  struct handling {
    std::uint64_t until;
    caf::resumable* job;
  };
  std::deque<handling> handling_;
  std::uint64_t handling_ns_ = 0;                  ///< 0: handling takes no time
  caf::actor_id told_ = 0;                         ///< newest actor reported to `spawned_`
  std::map<std::uint64_t, std::uint64_t> fallen_;  ///< priorities after change points
  std::uint64_t lowest_ = 0, last_key_ = 0, turns_ = 0;
};

}  // namespace troupe::actors::simulation
