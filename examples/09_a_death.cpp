// A stage dies during training and restarts; the weights equal those of an undisturbed run. The log
// has one line about it.

#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/compare.hpp"
#include "runtime/core/log.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;
namespace actors = troupe::actors;

namespace {

/// Trains two stages in two replicas for 20 iterations. `death`: the value of --plant-death. Reads
/// committed steps and restarts from the ledger; the log has the same records.
void train(const std::filesystem::path& save, const std::string& death) {
  training_job job;
  job.training = story::small_recipe();
  job.training.batch.data_parallel = 2;
  job.data.mock = true;
  job.layout = {.world = 4, .pipeline = 2};
  job.checkpoints.save = save;
  job.train_iterations = 20;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  job.recovery.on = true;
  job.faults.death = death;
  const auto prepared = actors::prepare(job);
  const auto end = actors::run(prepared);
  fmt::print(
      "{}: exit code {}{}\n", death.empty() ? "undisturbed" : death, end.exit_code, end.reason);
  std::uint64_t steps = 0;
  for (const auto& [number, fact] : prepared->node->ledger->facts())
    if (const auto* const event = std::get_if<run_event>(&fact))
      fmt::print("  {}: {}\n  each rank continues from its {} of iteration {}\n",
                 event->kind,
                 event->why,
                 event->from,
                 event->resumed);
    else
      steps += std::holds_alternative<step_report>(fact);
  fmt::print("  {} iterations are in the ledger\n", steps);
}

/// Compares two checkpoints, like `troupe checkpoint diff A B`.
void compare_all(const std::filesystem::path& a, const std::filesystem::path& b) {
  const checkpoint_reader one(*latest_checkpoint(a).folder), two(*latest_checkpoint(b).folder);
  std::int64_t elements = 0, different = 0;
  for (const auto name : one.names()) {
    const auto found = compare(one, two, name);
    elements += found.elements;
    different += found.different;
  }
  fmt::print("iteration {}: {} of {} weights and moments differ\n",
             two.manifest().iteration,
             different,
             elements);
}

}  // namespace

int main() {
  set_log_level(severity::error);
  const story::scratch folder("death");
  train(folder / "calm", "");
  // The stage dies after the update of step 11, before it reports it; other ranks may have updated
  // or not.
  train(folder / "killed", "stage:0.1@11:updated");
  compare_all(folder / "calm", folder / "killed");
}

// Expected output:
//   undisturbed: exit code 0
//     20 iterations are in the ledger
//   stage:0.1@11:updated: exit code 0
//     restart: replica:0: stage:0.1: the death planted for stage:0.1@11:updated
//     each rank continues from its estate of iteration 10
//     20 iterations are in the ledger
//   iteration 20: 0 of 63840 weights and moments differ
