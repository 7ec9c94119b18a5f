// An actor of your own that watches a run: when the loss rises, it prints an alarm, sends the run a
// command, and calls a web service. Use: 13_watch_a_run.cpp.

#pragma once

#include "actors/monitor/attach.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/watch/webhook.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace story {

struct loss_alarm {
  troupe::runtime::followed_run run;
  troupe::runtime::run_command command;  ///< sent at the alarm
  std::string webhook = {};              ///< URL; empty: none
};

/// Spawn it with caf::detached: it waits for the run's answer and the web service.
inline troupe::messages::observer_actor::behavior_type watch_loss(
    troupe::messages::observer_actor::pointer self, const loss_alarm& how) {
  using namespace troupe;
  const auto best = std::make_shared<double>(std::numeric_limits<double>::infinity());
  const auto is_new = std::make_shared<bool>(false);  // false: steps before this actor came
  const auto alarmed = std::make_shared<bool>(false);
  return {[=](const messages::committed& x) {
            const bool rises = !(x.report.loss <= 1.5 * *best);  // true for NaN
            *best = std::min(*best, x.report.loss);
            if (!*is_new || !rises || std::exchange(*alarmed, true))
              return;
            fmt::print("alarm: the loss rises\n");
            std::fflush(stdout);
            try {
              actors::command_to(how.run, how.command);
              if (!how.webhook.empty())
                runtime::post_webhook(
                    how.webhook,
                    fmt::format(R"({{"text":"the loss rises at {}"}})", x.report.iteration));
            } catch (const runtime::error& failure) {
              fmt::print(stderr, "{}\n", failure.what());
            }
          },
          [](const messages::validated& x) { fmt::print("validation {:.4f}\n", x.report.loss); },
          [](const messages::happened& x) { fmt::print("{}: {}\n", x.event.kind, x.event.why); },
          [](const messages::told_record&) {},  // saves, samples: docs/formats/telemetry.md
          [=](const messages::connection_changed& x) { *is_new = *is_new || x.state.empty(); },
          [=](const messages::run_ended& x) {
            fmt::print("{}\n", x.text);
            self->quit();
          }};
}

}  // namespace story
