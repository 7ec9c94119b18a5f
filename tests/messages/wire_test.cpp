#include "messages/core/error.hpp"
#include "messages/core/type_ids.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::messages;

namespace {

struct wire {
  struct configuration : caf::actor_system_config {
    configuration() {
      add_message_types<caf::id_block::troupe_messages>();
      set("scheduler.policy", caf::atom("testing"));
    }
  } config;
  caf::actor_system system{config};

  // Through caf::message, as BASP does it: a type that is not registered fails here.
  template <class T>
  T travel(const T& x) {
    auto sent = caf::make_message(x);
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    REQUIRE_FALSE(sent.save(sink));
    caf::message received;
    caf::binary_deserializer source{system, bytes};
    REQUIRE_FALSE(received.load(source));
    REQUIRE(received.match_elements<T>());
    return received.get_as<T>(0);
  }

  template <class T>
  void survives(const T& x) {
    CHECK(travel(x) == x);
  }
};

const pass_id somewhere{.generation = runtime::generation_id(3),
                        .step = runtime::step_id(9),
                        .model = runtime::model_id(1),
                        .chunk = runtime::chunk_id(2),
                        .copy = runtime::copy_id(1),
                        .microbatch = runtime::microbatch_id(5)};

runtime::ticket_bundle tickets() {
  return {{"hidden", "positions"},
          {{3, 41, runtime::generation_id(3), runtime::dtype::bf16, {1, 2, 3}},
           {3, 42, runtime::generation_id(3), runtime::dtype::i32, {1, 2}}}};
}

}  // namespace

TEST_CASE_METHOD(wire, "hand-offs survive the wire", "[messages]") {
  survives(activation{somewhere, tickets()});
  survives(gradient{somewhere, tickets()});
  survives(request_batch{somewhere, 1, 4, 77, true, true, false});
  survives(batch_ready{somewhere, tickets()});
}

TEST_CASE_METHOD(wire, "the messages of a step survive the wire", "[messages]") {
  const auto g = runtime::generation_id(3);
  const auto step = runtime::step_id(9);
  survives(run_step{g, step, 123, true, 7, false});
  survives(run_step{g, step, 123, false, 8, true});
  const runtime::action some{runtime::action_kind::input_gradients,
                             runtime::chunk_id(3),
                             runtime::microbatch_id(9),
                             2,
                             runtime::copy_id(1),
                             true};
  survives(chosen{g, step, some, 7});
  survives(ask_again{g, step, 5});
  survives(vote{g,
                step,
                1,
                2,
                {{1.5, 10, 0}, {2.5, 11, 1}},
                {{"a", runtime::exact_sum(0.25)}, {"b", runtime::exact_sum(1e300)}},
                {1, 2},
                {"b", "1.2", 2, 7},
                12,
                {{1, {{some, 0.5, 2.25}}}}});
  survives(decision{g, step, false, 8, 1e-3, 0.5});
  survives(decision{.generation = g, .step = step, .skip = true});
  survives(applied{g, step, 1, 2, {{"a", {3, 4}}}, {{"b", {5, 6}}}, runtime::exact_sum(0.5)});
  survives(committed{{.iteration = 9,
                      .consumed_tokens = 77,
                      .lm_loss = 2.5,
                      .state = {5, 6},
                      .skipped = {.iterations = 4, .samples = 3, .nan = 2, .in_a_row = 1},
                      .scale = {.value = 64, .finite = 5, .hysteresis = -1, .at_minimum = 2},
                      .params_norm = 1.5,
                      .zero_gradients = 6,
                      .pipeline = {5, 4, 0.25, 0.125, 0.1, 0.2, 0.5, 0.75}},
                     {{1, {{some, 0.5, 2.25}}}},
                     8});
  survives(validated{{9, 2.25}});
}

TEST_CASE_METHOD(wire, "the messages of checkpoints and control survive the wire", "[messages]") {
  const auto g = runtime::generation_id(3);
  const auto step = runtime::step_id(9);
  survives(take_snapshot{g, step});
  survives(save{g,
                step,
                123,
                2,
                {.iterations = 4, .samples = 3, .nan = 2, .in_a_row = 1},
                {.value = 64, .finite = 5, .hysteresis = -1, .at_minimum = 2}});
  const auto told = tickets().tickets;
  const std::vector<runtime::tensor_shard<runtime::ticket>> some
      = {{"matrix", {8, 4}, {{2, 0}, {3, 4}}, told.at(0)}, {"vector", {5}, {{1}, {2}}, told.at(1)}};
  survives(snapshot{g, step, 1, some, some});
  survives(saved{g, step});
  survives(save_failed{g, step, "No space left on device"});
  survives(save_again{g});
  survives(ready{g, 1, 1000});
  survives(drain{"SIGTERM"});
  survives(end_generation{g});
  survives(lane_done{7, "it broke", true, false});
  survives(spawn{g, role::stage, 1, 2, 3});
  survives(meet{});
  survives(dismiss{});
  survives(conclude{});
  survives(concluded{});
}

TEST_CASE("an error is told apart by its code and keeps its text", "[messages]") {
  const auto e = make_error(ec::refused, "no such file");
  CHECK(is(e, ec::refused));
  CHECK_FALSE(is(e, ec::cancelled));
  CHECK_FALSE(is(caf::error(), ec::refused));
  CHECK(text_of(e) == "no such file");
  CHECK(text_of(caf::error()) == "it ended normally");
}
