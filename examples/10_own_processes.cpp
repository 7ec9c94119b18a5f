// Your own program over several processes, with its own layer and watcher. One process is killed
// during training; the weights equal those of the same job in one process, bit for bit.

#include "actors/job/own_program.hpp"
#include "actors/job/prepare.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/process_entry.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <utility>
#include <variant>
#include <vector>

using namespace troupe::runtime;
namespace actors = troupe::actors;
namespace messages = troupe::messages;

/// Replaces SwiGLU by a bottleneck: down to a quarter of the width, GELU, up again.
/// 03_own_layer.cpp explains how to write a layer and shard it over tensor ranks.
void bottleneck(module_builder& to, const feed_forward_spec& in_place_of) {
  const auto C = in_place_of.hidden, N = C / 4;
  const int gain
      = to.add({.name = "norm.weight", .extents = {C}, .initial = distribution::constant(1)});
  const int down
      = to.add({.name = "down.weight", .extents = {N, C}, .initial = distribution::normal(0.02)});
  const int up
      = to.add({.name = "up.weight", .extents = {C, N}, .initial = distribution::normal(0.02)});
  to.segment("norm", [=](tape& on, pass& p) {
    p.x = norm(on, p.hidden, {troupe::kernels::normalization::rms}, gain, no_parameter);
  });
  to.segment("bottleneck", [=](tape& on, pass& p) {
    const auto gelu = troupe::kernels::epilogue::gelu_tanh;
    const auto x = copy_to_tensor_region(on, p.x);
    const auto narrow = linear(on, x, product::column, N, down, no_parameter, gelu);
    p.x = linear(on, narrow, product::row, C, up, no_parameter);
  });
  to.segment("residual", [](tape& on, pass& p) {
    p.hidden = dropout_add(
        on, reduce_from_tensor_region(on, std::exchange(p.x, {})), p.hidden, 0, 0, p.rows);
  });
}

/// Two pipeline stages, 200 iterations.
training_job job_over(int processes) {
  training_job job;
  job.training = story::small_recipe();
  job.training.own = {.name = "story 10: bottleneck", .feed_forward = bottleneck};
  job.data.mock = true;
  job.layout = {.world = 2, .pipeline = 2, .processes = processes};
  job.recovery.on = true;
  job.train_iterations = 200;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  return job;
}

using history = std::vector<step_report>;

/// Gets all committed steps; runs in the process that the user started. After the tenth step it
/// kills the process of the second stage, if there is one and it is not a replacement.
messages::viewer_actor::behavior_type watcher(history& seen, const std::filesystem::path& run) {
  return {[&seen, run](const messages::committed& x) {
            seen.push_back(x.report);
            if (seen.size() < 10)
              return;
            for (const auto& [it, runs] : seen_processes(run_folder::open(run), {}))
              if (it.name == "node-1" && it.incarnation == 1 && runs == true)
                ::kill(pid_t(it.process.pid), SIGKILL);
          },
          [](const messages::validated&) {}};
}

history train(int processes, const actors::own_program& program) {
  const story::scratch folder("processes");
  const auto run = folder / "run";  // for logs and `troupe status`; default: a temporary folder
  history out;
  const auto attend = [&](caf::actor_system& system, const actors::drain_request&) {
    return system.spawn([&] { return watcher(out, run); });
  };
  const auto prepared = actors::prepare(job_over(processes));
  const auto end = actors::run(prepared, program, {}, {attend}, run);
  int deaths = 0;
  for (const auto& [number, fact] : prepared->node->ledger->facts())
    if (const auto* const event = std::get_if<run_event>(&fact))
      deaths += event->kind == "restart";
  fmt::print("processes: {}, deaths: {}, iterations: {}, exit code: {}\n",
             processes,
             deaths,
             out.size(),
             end.exit_code);
  if (end.exit_code != 0) {
    fmt::print("{}\n", end.reason);
    std::fflush(stdout);
    std::_Exit(end.exit_code);  // no cleanup: a thread may hang
  }
  return out;
}

int main(int argc, char** argv) {
  // The other processes run this same program: they provide the job's functions and end here.
  actors::own_program program(argc, argv, functions_of(job_over(2)));
  if (const auto code = program.take_part())
    return *code;

  set_log_level(severity::error);
  const auto one = train(1, program), two = train(2, program);
  const auto same_state
      = [](const step_report& a, const step_report& b) { return a.state == b.state; };
  const bool same = std::ranges::equal(one, two, same_state);
  fmt::print("all digests are equal: {}\n", same);
  return same ? 0 : 1;
}

// Expected output:
//   processes: 1, deaths: 0, iterations: 200, exit code: 0
//   processes: 2, deaths: 1, iterations: 200, exit code: 0
//   all digests are equal: true
