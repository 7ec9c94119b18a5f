// Runs one stage actor alone; the test plays its replica, its loader and the other stage.

#pragma once

#include "actors/stage/stage.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "tests/support/deterministic.hpp"

#include <algorithm>
#include <functional>

namespace troupe::tests {

inline constexpr int microbatches = 2;
inline constexpr std::uint64_t samples = 2 * microbatches;  ///< per step

inline runtime::training_job job_of_two_stages() {
  auto job = tests::tiny_job(2, 1);
  job.training.model.as<runtime::gpt_config>().tied_embeddings
      = false;  // tied embeddings would need both stages
  job.training.batch.global = 2 * microbatches;
  return job;
}

/// One stage of a pipeline of two.
struct staged {
  explicit staged(int pipeline_rank,
                  const std::string& fault = {},
                  bool meets = true,
                  bool keeps = false,
                  const std::function<void(runtime::training_job&)>& change = {}) {
    auto job = job_of_two_stages();
    if (change)
      change(job);
    job.recovery.on = keeps;
    job.faults.fault = fault;
    prepared = tests::without_threads(job);
    auto& node = *prepared->node;
    loader = new_loader();
    const auto groups = std::make_shared<actors::group_registry>(runtime::cancel_token(),
                                                                 value(first_generation));
    stage = system.keep(
        system.home().spawn(actors::stage,
                            messages::spawn_stage{first_generation,
                                                  prepared->description,
                                                  {},
                                                  pipeline_rank,
                                                  fmt::format("0.{}", pipeline_rank)},
                            node.jobs->open(prepared->description),
                            std::shared_ptr<const actors::node_context>(prepared->node),
                            groups));
    messages::meet peers{.generation = runtime::generation_id(value(first_generation) + 1),
                         .replica = system.listener(replica),
                         .loader = loader,
                         .checkpointer = system.listener(checkpointer)};
    if (keeps)
      peers.keeper = system.listener(keeper);
    const auto other = system.listener(neighbour);
    peers.pipeline = {pipeline_rank == 0 ? stage : other, pipeline_rank == 0 ? other : stage};
    end.emplace(stage);
    system.tell(stage, peers);  // has another generation: dropped
    met_strangers = replica.of<messages::ready>().size();
    peers.generation = first_generation;
    if (meets)
      system.tell(stage, peers);
  }

  messages::loader_actor new_loader() {
    return system.keep(system.home().spawn(
        [this](messages::loader_actor::pointer) -> messages::loader_actor::behavior_type {
          return {[this](const messages::request_batch& x) -> caf::result<messages::batch_ready> {
            asked.push_back(x);
            if (!answers)
              return caf::delegated<messages::batch_ready>();
            return answer(x);
          }};
        }));
  }
  messages::batch_ready answer(const messages::request_batch& x) {
    const auto takes = [&](const char* name) {
      return std::find(x.names.begin(), x.names.end(), name) != x.names.end();
    };
    return {x.at, batch(x.microbatch, takes("tokens"), takes("labels"))};
  }
  /// A step that announces the samples of the next step.
  static messages::run_step followed(std::uint64_t number) {
    auto out = step(number);
    out.consumed = samples * (number - 1);
    out.next_consumed = samples * number;
    out.next_microbatches = microbatches;
    return out;
  }
  /// Redeems the activations that the stage sent, as the next stage does, so that credits return.
  void redeem_handed() {
    const auto& all = neighbour.of<messages::activation>();
    for (; redeemed < all.size(); ++redeemed)
      runtime::redeem(*prepared->node->transport, all[redeemed].data);
    system.run();
  }
  /// Runs a whole step, from its begin to its update.
  void take(const messages::run_step& x) {
    system.tell(stage, x);
    redeem_handed();
    for (int m = 0; m < microbatches; ++m)
      system.tell(stage, gradient(m, value(x.step)));
    system.tell(stage, decision(value(x.step)));
  }

  runtime::ticket_bundle deposit(const runtime::bundle& x) {
    return runtime::deposit(*prepared->node->transport, x, first_generation);
  }
  runtime::ticket_bundle batch(std::uint64_t microbatch, bool inputs, bool labels) {
    runtime::bundle out;
    const auto all = prepared->node->training->microbatch({0, microbatch, 0});
    const auto add = [&](std::initializer_list<const char*> names) {
      for (const auto* name : names)
        out.add(name, all.at(name));
    };
    if (inputs)
      add({"tokens", "positions", "samples"});
    if (labels)
      add({"labels", "mask"});
    return deposit(out);
  }
  static messages::pass_id pass(int chunk,
                                int microbatch,
                                std::uint64_t step = 1,
                                runtime::generation_id generation = first_generation) {
    return {.generation = generation,
            .step = runtime::step_id(step),
            .chunk = runtime::chunk_id(std::uint32_t(chunk)),
            .microbatch = runtime::microbatch_id(std::uint32_t(microbatch))};
  }
  /// A tensor with the extents of a hidden state: zeros, or a gradient that depends on
  /// `microbatch`.
  runtime::tensor hidden(int microbatch = -1) {
    const runtime::shape extents{2, 16, 32};
    runtime::tensor x(
        pool.allocate(std::size_t(extents.size()) * sizeof(float)), runtime::dtype::f32, extents);
    for (std::int64_t i = 0; i < extents.size(); ++i)
      x.data<float>()[i] = microbatch < 0 ? 0.0F : float((i * 7 + microbatch * 13) % 11 - 5) / 64;
    return x;
  }
  messages::gradient gradient(int microbatch, std::uint64_t step = 1) {
    runtime::bundle x;
    x.add("decoder", hidden(microbatch));
    return {pass(0, microbatch, step), deposit(x)};
  }
  messages::activation activation(int microbatch, std::uint64_t step = 1) {
    runtime::bundle x;
    x.add("decoder", hidden());
    const auto all = prepared->node->training->microbatch({0, std::uint64_t(microbatch), 0});
    x.add("positions", all.at("positions"));
    x.add("samples", all.at("samples"));
    return {pass(1, microbatch, step), deposit(x)};
  }
  static messages::run_step step(std::uint64_t number) {
    return {.generation = first_generation,
            .step = runtime::step_id(number),
            .microbatches = microbatches};
  }
  static messages::decision decision(std::uint64_t number) {
    return {.generation = first_generation,
            .step = runtime::step_id(number),
            .update = number,
            .learning_rate = 1e-3};
  }
  std::size_t redeemed = 0;                    ///< activations already redeemed
  bool answers = true;                         ///< the loader answers
  std::vector<messages::request_batch> asked;  ///< requests to all loaders
  std::size_t met_strangers = 0;  ///< `ready` messages after meeting actors of another generation

  std::vector<messages::vote>& votes() { return replica.of<messages::vote>(); }

  tests::heard_by<messages::replica_actor> replica;
  tests::heard_by<messages::checkpointer_actor> checkpointer;
  tests::heard_by<messages::stage_actor> neighbour;
  tests::heard_by<messages::keeper_actor> keeper;
  runtime::memory_pool pool;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::loader_actor loader;
  messages::stage_actor stage;
  std::optional<tests::ending> end;
};

}  // namespace troupe::tests
