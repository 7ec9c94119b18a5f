// Your own pipeline schedule: a behaviour that decides during the step, from the messages that have
// arrived. It is rehearsed and checked, then used for training, with the same bits as 1F1B.
// docs/guides/write_a_schedule.md shows the same as a script.

#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/log.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/simulate.hpp"
#include "small.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <array>
#include <fmt/format.h>

using namespace troupe::runtime;
namespace actors = troupe::actors;
namespace messages = troupe::messages;

/// Runs input gradients first, because another stage waits for them. Runs forward passes up to the
/// memory limit, here that of 1F1B. Runs weight gradients when nothing else is ready.
class eager final : public behaviour {
 public:
  std::optional<action> next(const stage_view& now) override {
    std::array<std::optional<action>, 5> ready;  // by kind: this rank hosts one chunk
    for (const auto& x : now.ready)
      ready[std::size_t(x.kind)] = x;
    const auto& done = now.finished[0];
    if (const auto& i = ready[std::size_t(action_kind::input_gradients)])
      return i;
    if (const auto& f = ready[std::size_t(action_kind::forward)];
        f && done.forward - done.weight_gradients < now.ranks)
      return f;
    return ready[std::size_t(action_kind::weight_gradients)];  // empty: wait
  }
};

/// Trains ten steps with two stages; returns the digest of weights and moments after the last one.
std::string trained_by(const schedule_settings& schedule) {
  training_job job;
  job.training = story::small_recipe();
  job.training.batch = {.micro = 2, .global = 16};  // 8 micro-batches per step
  job.data.mock = true;
  job.data.end_of_document = 0;
  job.layout = {.world = 2, .pipeline = 2};
  job.layout.schedule = schedule;
  job.train_iterations = 10;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  std::string out;
  const auto attend = [&](caf::actor_system& system, const actors::drain_request&) {
    return system.spawn([&out]() -> messages::viewer_actor::behavior_type {
      return {[&out](const messages::committed& x) { out = to_string(x.report.state); },
              [](const messages::validated&) {}};
    });
  };
  const auto end = actors::run(actors::prepare(job), {}, {attend});  // waits for all actors
  return end.exit_code == 0 ? out : end.reason;
}

int main() {
  set_log_level(severity::warning);
  const behaviour_factory own{"eager",
                              [](int, int, int, int) { return std::make_unique<eager>(); }};

  // The decisions of two stages with four micro-batches, if all actions take equally long.
  fmt::print("{}", to_csv(rehearse(own, 2, 4)));

  // Four stages; the third is slow. The record of the rehearsal is a plan and is checked like all
  // plans, before any worker starts.
  cost_model uneven;
  uneven.costs = {{1, 1, 1}, {1, 1, 1}, {1.5, 1.6, 1.2}, {1, 1, 1}};
  uneven.transfer = 0.2;
  const auto decided = rehearse(own, 4, 12, uneven);
  fmt::print("the plan is sound: {}\n", check_plan(decided).is_sound());
  fmt::print("takes {:.1f}, 1F1B {:.1f}\n",
             simulate(decided, uneven).makespan,
             simulate(one_forward_one_backward(4, 12), uneven).makespan);

  // Two workers decide during training. The micro-batches stay in order, so the bits are the same.
  fmt::print("same bits as 1F1B: {}\n", trained_by({.own = own}) == trained_by({.source = "1f1b"}));
}

// Expected output:
//   0F0,0F1,0I0,0W0,0I1,0F2,0W1,0F3,0I2,0W2,0I3,0W3
//   1F0,1I0,1F1,1I1,1W0,1W1,1F2,1I2,1F3,1I3,1W2,1W3
//   the plan is sound: true
//   takes 54.0, 1F1B 60.9
//   same bits as 1F1B: true
