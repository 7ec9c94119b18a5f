// A job of actors, watched by an actor of your own: two pipeline stages x two replicas, each a
// thread, with everything that `troupe train` does. The watcher ends the job when it has seen
// enough.

#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/log.hpp"
#include "small.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <fmt/format.h>

using namespace troupe::runtime;
namespace actors = troupe::actors;
namespace messages = troupe::messages;

/// Told every committed step, in order. The job does not wait for it: however long it takes, no
/// step takes longer, and if it dies the job goes on.
messages::viewer_actor::behavior_type watcher(const actors::drain_request& drain) {
  return {
      [=](const messages::committed& x) {
        if (x.report.iteration == 1 || x.report.iteration % 20 == 0)
          fmt::print("iteration {:3}  loss {:.1f}\n", x.report.iteration, x.report.lm_loss);
        if (x.report.iteration == 60)
          drain("the watcher has seen enough");  // the running step is finished first
      },
      [](const messages::validated&) {},
  };
}

int main() {
  training_job job;
  job.training = story::small_recipe();
  job.training.batch.data_parallel = 2;
  job.data.mock = true;  // counts too: Megatron-LM's --mock-data
  job.data.end_of_document = 0;
  job.layout = {.world = 4, .pipeline = 2};
  job.train_iterations = 1000;
  job.watch.log_interval = 0;  // Troupe's own monitor: not a word
  job.watch.progress = false;
  set_log_level(severity::warning);
  for (const auto& complaint : validate(job))
    fmt::print("cannot run: {}\n", complaint);

  const auto prepared = actors::prepare(job);  // data sets, the checkpoint to go on from, the plan
  const auto attend = [](caf::actor_system& system, const actors::drain_request& drain) {
    return system.spawn(watcher, drain);
  };
  const auto end = actors::run(prepared, {}, {attend});
  fmt::print("exit code {}; tickets that nobody redeemed: {}\n",
             end.exit_code,
             prepared->node->transport->leased());
}

// Expected output:
//   iteration   1  loss 2.3
//   iteration  20  loss 0.1
//   iteration  40  loss 0.0
//   iteration  60  loss 0.0
//   exit code 0; tickets that nobody redeemed: 0
