// Your own actor watches a run of another program (loss_alarm.hpp). It receives each committed step
// as a message, raises an alarm when the loss rises, and sends the run a command.
//
//   story_13_watch_a_run              starts a small run and stops it at the alarm; its learning
//                                     rate is 20 times too high after 800 samples
//   story_13_watch_a_run RUN [URL]    watches the run in the folder RUN, pauses it at the
//                                     alarm, and posts the alarm to URL

#include "actors/job/own_program.hpp"
#include "actors/job/prepare.hpp"
#include "loss_alarm.hpp"
#include "runtime/core/log.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <exception>
#include <optional>

using namespace troupe::runtime;
namespace actors = troupe::actors;
namespace messages = troupe::messages;

/// Learning rate by consumed samples: makes the loss rise after 800.
double too_high(std::int64_t consumed) {
  return consumed < 800 ? 1e-2 : 0.2;
}

training_job small_job() {
  training_job job;
  job.training = story::small_recipe();
  job.training.rate_of = {.name = "too high", .at = too_high};
  job.data.mock = true;
  job.train_iterations = 20'000;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  return job;
}

int main(int argc, char** argv) {
  actors::own_program program(argc, argv);
  if (const auto code = program.take_part())
    return *code;
  set_log_level(severity::error);
  caf::actor_system_config config;
  messages::add_message_types(config);
  caf::actor_system system(config);
  std::optional<actors::attachment> attached;
  const auto watch
      = [&](const std::filesystem::path& folder, const run_command& command, const char* url) {
          const story::loss_alarm alarm{actors::run_in(folder), command, url};
          attached = actors::attach(
              system, alarm.run, system.spawn<caf::detached>(story::watch_loss, alarm));
        };
  if (argc > 1) {
    try {
      watch(argv[1], commands::pause{}, argc > 2 ? argv[2] : "");
    } catch (const std::exception& failure) {  // not the folder of a run
      log_error("{}", failure.what());
      return 2;
    }
    system.await_all_actors_done();
    return 0;
  }
  const story::scratch folder("watch");
  const auto started
      = [&](const actors::drain_request&) { watch(folder / "run", commands::stop{}, ""); };
  actors::run(actors::prepare(small_job()), program, started, {}, folder / "run");
  system.await_all_actors_done();
}

// Expected output:
//   alarm: the loss rises
//   the run has ended with exit code 0
