// One thread in which actors and lanes take turns, with a clock of its own: who runs next, and when
// a timer fires, a seed decides. The same seed and the same actors give the same turns.
//
// Actors run in CAF's scheduler for tests, one message a turn, each turn on a fiber, so that an
// actor may wait as a lane may; lanes are fibers (runtime/device/fibers.hpp). When nobody can run,
// the clock goes on to the next timer.

#pragma once

#include "actors/simulation/mix.hpp"
#include "actors/simulation/turn_trace.hpp"
#include "runtime/device/fibers.hpp"

#include <caf/actor.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
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

  /// One turn. False: nobody can run, and no timer is set.
  bool turn();

  /// From now on nobody is preferred and no timer is early.
  void calm_down() { mix_ = calm(); }

  /// Before the first turn at or after that time; it may be in the past.
  void at(std::uint64_t ns, std::string what, std::function<void()> act);

  /// Called before each turn of an actor, with its number and the type of the message that it is
  /// about to handle.
  void before_turn(std::function<void(caf::actor_id, std::type_index)> look) {
    look_ = std::move(look);
  }
  /// Called with the numbers of actors that came to be in the turn of `by`: [first, last]. 0: in
  /// the turn of no actor.
  void on_spawned(
      std::function<void(caf::actor_id by, caf::actor_id first, caf::actor_id last)> f) {
    spawned_ = std::move(f);
  }

  /// Actors that have had a turn, and live.
  struct known_actor {
    caf::actor_id number;
    std::string name;  ///< "stage"
  };
  std::vector<known_actor> living();
  /// Null: it has ended.
  caf::actor find(caf::actor_id number);
  std::string name_of(caf::actor_id number) const;  ///< "stage#12"
  /// The newest message that it has handled: "vote".
  std::string newest_of(caf::actor_id number) const;

  /// Those that CAF still counts.
  std::size_t running() const;
  /// Lanes, and turns of actors that wait: what is on a fiber and has not ended.
  std::vector<std::string> on_fibers() const;

  /// Whoever is left is ended: fibers unwound, actors killed. Nobody takes a turn any more.
  void end();

  /// Ends it, and lets it do nothing else: what death of its process is for an actor.
  void end_at_once(const std::vector<caf::actor_id>& which);

 private:
  struct configuration;
  struct candidate {
    std::uint64_t key;    ///< an actor's number; a fiber's with the highest bit
    std::size_t job;      ///< of an actor: its place in the queue
    std::uint64_t fiber;  ///< of a fiber
  };
  /// A fiber that carries out turns of actors, one after the other.
  struct runner {
    runtime::fiber_pool::number fiber = 0;
    bool assigned = false, busy = false;
    caf::actor_id whose = 0;
  };

  std::vector<candidate> candidates();
  const candidate& choose(const std::vector<candidate>& all);
  bool turn_of_fibers();
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
  std::map<caf::actor_id, seen_actor> seen_;
  std::function<void(caf::actor_id, std::type_index)> look_;
  std::function<void(caf::actor_id, caf::actor_id, caf::actor_id)> spawned_;
  caf::actor_id told_ = 0;                         ///< the newest actor that `spawned_` was told of
  std::map<std::uint64_t, std::uint64_t> fallen_;  ///< priorities after change points
  std::uint64_t lowest_ = 0, last_key_ = 0, turns_ = 0;
};

}  // namespace troupe::actors::simulation
