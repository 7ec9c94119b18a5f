// The actor system, actors and tickets that examples of messages use.

#pragma once

#include "messages/protocol/actors.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <utility>

namespace troupe::tests {

/// A type with a serializer that forgets a field.
struct forgetful {
  int kept = 0, forgotten = 0;

  friend bool operator==(const forgetful&, const forgetful&) = default;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, forgetful& x) {
  return f(caf::meta::type_name("forgetful"), x.kept);
}

}  // namespace troupe::tests

CAF_BEGIN_TYPE_ID_BLOCK(troupe_wire_test, caf::id_block::troupe_messages::end)
  CAF_ADD_TYPE_ID(troupe_wire_test, (troupe::tests::forgetful))
CAF_END_TYPE_ID_BLOCK(troupe_wire_test)

namespace troupe::tests {
namespace {

using namespace troupe;
using namespace troupe::messages;

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

constexpr runtime::generation_id g{3};
constexpr runtime::step_id step{9};
const pass_id pass{.generation = g,
                   .step = step,
                   .validation = true,
                   .model = runtime::model_id(1),
                   .chunk = runtime::chunk_id(2),
                   .copy = runtime::copy_id(1),
                   .microbatch = runtime::microbatch_id(5)};
const runtime::action some_action{runtime::action_kind::input_gradients,
                                  runtime::chunk_id(3),
                                  runtime::microbatch_id(9),
                                  2,
                                  runtime::copy_id(1),
                                  true};
const runtime::skipped_steps skipped{.iterations = 4, .samples = 3, .nan = 2, .in_a_row = 1};
const runtime::loss_scale scale{.value = 64, .finite = 5, .hysteresis = -1, .at_minimum = 2};

runtime::ticket_bundle tickets() {
  return {{"hidden", "positions"},
          {{3, 41, g, runtime::dtype::bf16, {1, 2, 3}}, {3, 42, g, runtime::dtype::i32, {1, 2}}}};
}

job_description job() {
  return {.settings = "{}",
          .identity = "{\"seed\":1}",
          .iteration = 7,
          .consumed = 56,
          .start = "saved/iter_0000007",
          .with_moments = true,
          .save = "/some/checkpoints",
          .skipped = skipped,
          .scale = scale,
          .validates = true,
          .tests = true,
          .matrix_rate = 1e12,
          .viewers = {"mine"}};
}

}  // namespace
}  // namespace troupe::tests
