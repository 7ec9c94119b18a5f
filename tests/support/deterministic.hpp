// Runs one actor alone: the actor system delivers messages one by one on request, lanes have no
// threads, and the test plays all other actors.

#pragma once

#include "messages/core/error.hpp"
#include "messages/protocol/actors.hpp"
#include "tests/support/tiny_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Messages that an actor of this type received, in order, one list per message type.
template <class Handle>
struct heard_by;

template <class... Message>
struct heard_by<
    caf::typed_actor<caf::typed_mpi<caf::detail::type_list<Message>, caf::output_tuple<void>>...>> {
  using handle = caf::typed_actor<caf::reacts_to<Message>...>;
  std::tuple<std::vector<Message>...> all;

  template <class One>
  std::vector<One>& of() {
    return std::get<std::vector<One>>(all);
  }

  typename handle::behavior_type listen() {
    return {[this](const Message& x) { this->template of<Message>().push_back(x); }...};
  }
};

class deterministic {
 public:
  deterministic() = default;
  ~deterministic() {
    for (const auto& actor : actors_)
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    actors_.clear();
    run();
  }
  deterministic(const deterministic&) = delete;
  deterministic& operator=(const deterministic&) = delete;

  caf::actor_system& home() { return system_; }

  /// Delivers messages until no actor has one; timers do not advance.
  void run() {
    while (scheduler().try_run_once()) {
    }
  }
  void advance(caf::timespan by) {
    scheduler().advance_time(by);
    run();
  }

  template <class Handle>
  Handle keep(Handle actor) {
    actors_.push_back(caf::actor_cast<caf::actor>(actor));
    return actor;
  }
  /// Spawns an actor of this type that only records its messages in `to`. `to` outlives the
  /// system's last run.
  template <class Handle>
  Handle listener(heard_by<Handle>& to) {
    return keep(home().spawn([&to]() { return to.listen(); }));
  }

  template <class Handle, class Message>
  void tell(const Handle& to, const Message& what) {
    caf::anon_send(to, what);
    run();
  }
  /// Ends the actor as if it had failed with `reason`.
  template <class Handle>
  void kill(const Handle& who, const caf::error& reason) {
    caf::anon_send(caf::actor_cast<caf::actor>(who), caf::exit_msg{who.address(), reason});
    run();
  }

 private:
  struct configuration : caf::actor_system_config {
    configuration() {
      messages::add_message_types(*this);
      set("scheduler.policy", caf::atom("testing"));
      set("logger.verbosity", caf::atom("quiet"));
    }
  };
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  configuration config_;
  caf::actor_system system_{config_};
  std::vector<caf::actor> actors_;
};

/// The exit reason of an actor; empty while it runs.
class ending {
 public:
  template <class Handle>
  explicit ending(const Handle& of) {
    caf::actor_cast<caf::actor>(of)->attach_functor(
        [to = reason_](const caf::error& reason) { *to = reason; });
  }
  bool has_come() const { return reason_->has_value(); }
  bool is(messages::ec code) const { return has_come() && messages::is(**reason_, code); }
  std::string text() const { return has_come() ? messages::text_of(**reason_) : "it lives"; }

 private:
  std::shared_ptr<std::optional<caf::error>> reason_
      = std::make_shared<std::optional<caf::error>>();
};

inline constexpr runtime::generation_id first_generation{1};

/// Prepares a job without threads: blocking work runs at once, in the caller.
inline std::shared_ptr<actors::prepared_job> without_threads(const runtime::training_job& job) {
  auto out = tiny_prepared(job);
  out->node->env.make_lane = runtime::make_inline_lane;
  out->node->env.own_threads = false;
  out->node->env.watches_lanes = false;
  return out;
}

}  // namespace troupe::tests
