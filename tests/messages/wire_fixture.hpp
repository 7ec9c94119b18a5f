// The actor system and the actor that examples of messages use.

#pragma once

#include "messages/protocol/actors.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <catch2/catch_test_macros.hpp>

namespace troupe::tests {

/// A type with a serializer that forgets a field.
struct forgetful {
  int kept = 0, forgotten = 0;

  friend bool operator==(const forgetful&, const forgetful&) = default;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, forgetful& x) {
  return f(x.kept);
}

}  // namespace troupe::tests

CAF_BEGIN_TYPE_ID_BLOCK(troupe_wire_test, caf::id_block::troupe_messages::end)
  CAF_ADD_TYPE_ID(troupe_wire_test, (troupe::tests::forgetful))
CAF_END_TYPE_ID_BLOCK(troupe_wire_test)

namespace troupe::tests {

struct wire {
  struct configuration : caf::actor_system_config {
    configuration() {
      messages::add_message_types(*this);
      add_message_types<caf::id_block::troupe_wire_test>();
      set("scheduler.policy", caf::atom("testing"));
    }
  } config;
  caf::actor_system system{config};
  caf::actor actor = system.spawn([]() -> caf::behavior { return {[](int) {}}; });

  wire() = default;
  ~wire() {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run();
  }
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;

  /// A handle of any type; only the actor's identity is sent.
  template <class Handle>
  Handle handle() const {
    return caf::actor_cast<Handle>(actor);
  }
};

}  // namespace troupe::tests
