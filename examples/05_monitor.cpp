// A job of actors with your own watching actor: two pipeline stages x two replicas, one thread
// each, with all features of `troupe train`. The watcher ends the job after 60 iterations.

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

/// Gets all committed steps, in order. The job does not wait for it: a slow watcher delays no step,
/// and the job continues if it dies.
messages::viewer_actor::behavior_type watcher(const actors::drain_request& drain) {
  return {
      [=](const messages::committed& x) {
        if (x.report.iteration == 1 || x.report.iteration % 20 == 0)
          fmt::print("iteration {:3}  loss {:.1f}\n", x.report.iteration, x.report.loss);
        if (x.report.iteration == 60)
          drain("the watcher has seen enough");  // ends the job after the running step
      },
      [](const messages::validated&) {},
  };
}

int main() {
  training_job job;
  job.training = story::small_recipe();
  job.training.batch.data_parallel = 2;
  job.data.mock = true;  // also a counting data set: Megatron-LM's --mock-data
  job.data.end_of_document = 0;
  job.layout = {.world = 4, .pipeline = 2};
  job.train_iterations = 1000;
  job.watch.log_interval = 0;  // no output of Troupe's own monitor
  job.watch.progress = false;
  set_log_level(severity::warning);
  for (const auto& complaint : validate(job))
    fmt::print("cannot run: {}\n", complaint);

  const auto prepared = actors::prepare(job);  // data sets, a checkpoint to resume from, the plan
  const auto attend = [](caf::actor_system& system, const actors::drain_request& drain) {
    return system.spawn(watcher, drain);
  };
  const auto end = actors::run(prepared, {}, {attend});
  fmt::print(
      "exit code {}; open tickets: {}\n", end.exit_code, prepared->node->transport->leased());
}

// Expected output:
//   iteration   1  loss 2.3
//   iteration  20  loss 0.1
//   iteration  40  loss 0.0
//   iteration  60  loss 0.0
//   exit code 0; open tickets: 0
