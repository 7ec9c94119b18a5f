// Your own actor watches a run of another program. It receives each committed step as a message,
// raises an alarm when the loss rises, and sends the run a command.
//
//   story_13_watch_a_run              starts a small run and stops it at the alarm; its learning
//                                     rate is 20 times too high after 800 samples
//   story_13_watch_a_run RUN [URL]    watches the run in the folder RUN, pauses it at the first
//                                     alarm, and posts the alarm to URL

#include "actors/job/own_program.hpp"
#include "actors/job/prepare.hpp"
#include "actors/monitor/attach.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/watch/webhook.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>

using namespace troupe::runtime;
namespace actors = troupe::actors;
namespace messages = troupe::messages;

class loss_watch {
 public:
  /// True if the loss is NaN, or more than 6 standard deviations above the mean of the last 20.
  bool rises(double loss) {
    constexpr std::size_t most = 20;
    double mean = 0, square = 0;
    for (const double x : last_)
      mean += x / double(last_.size());
    for (const double x : last_)
      square += (x - mean) * (x - mean) / double(last_.size());
    const double deviation = std::max(std::sqrt(square), 0.01 * mean);  // at least 1 % of the mean
    const bool out = last_.size() == most && !(loss <= mean + 6 * deviation);
    if (std::isfinite(loss))
      last_.push_back(loss);
    if (last_.size() > most)
      last_.pop_front();
    return out;
  }

 private:
  std::deque<double> last_;
};

/// Reaction to an alarm, in addition to a line on the console.
struct reaction {
  run_command command;
  std::string webhook = {};
};

/// The observer. Its handlers wait for the run and the web service, so it is spawned detached.
messages::observer_actor::behavior_type observer(messages::observer_actor::pointer self,
                                                 const followed_run& run,
                                                 const reaction& how) {
  const auto watch = std::make_shared<loss_watch>();
  const auto alarmed = std::make_shared<bool>(false);
  return {[=](const messages::committed& x) {
            if (!watch->rises(x.report.lm_loss) || std::exchange(*alarmed, true))
              return;
            fmt::print("alarm: the loss rises\n");
            std::fflush(stdout);
            try {
              actors::command_to(run, how.command);
              if (!how.webhook.empty())
                post_webhook(how.webhook,
                             fmt::format(R"({{"text":"the loss rises at iteration {}"}})",
                                         x.report.iteration));
            } catch (const error& failure) {
              fmt::print(stderr, "{}\n", failure.what());
            }
          },
          [](const messages::validated& x) { fmt::print("validation {:.4f}\n", x.report.loss); },
          [](const messages::happened& x) { fmt::print("{}: {}\n", x.event.kind, x.event.why); },
          // Saves, warnings, samples of processes: docs/formats/telemetry.md.
          [](const messages::told_record&) {},
          [](const messages::connection_changed& x) {
            if (!x.state.empty())
              fmt::print(stderr, "{}\n", x.state);
          },
          [=](const messages::run_ended& x) {
            if (x.how == messages::run_ended::outcome::ended)
              fmt::print("the run has ended with exit code {}\n", x.exit_code);
            else
              fmt::print("{}\n", x.text);
            self->quit();
          }};
}

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
  const auto watch = [&](const std::filesystem::path& folder, const reaction& how) {
    const auto run = actors::run_in(folder);
    attached = actors::attach(system, run, system.spawn<caf::detached>(observer, run, how));
  };
  if (argc > 1) {
    watch(argv[1], {commands::pause{}, argc > 2 ? argv[2] : ""});
    system.await_all_actors_done();
    return 0;
  }
  const story::scratch folder("watch");
  const auto started
      = [&](const actors::drain_request&) { watch(folder / "run", {commands::stop{}}); };
  actors::run(actors::prepare(small_job()), program, started, {}, folder / "run");
  system.await_all_actors_done();
}

// Expected output:
//   alarm: the loss rises
//   the run has ended with exit code 0
