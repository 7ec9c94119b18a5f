// How a run ends: on request, at its time limit, when it is done, or after an error.

#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/log.hpp"

#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr auto monitor_patience = std::chrono::seconds(5);

}  // namespace

/// Checks the clock after each step, from the program's start on, as in Megatron-LM.
void step_driver::look_at_clock() {
  const auto limit = run_.job->job.exit_minutes;
  const std::chrono::duration<double, std::ratio<60>> passed
      = run_.self->home_system().clock().now() - run_.context->began;
  if (limit <= 0 || time_is_up_ || passed.count() <= limit)
    return;
  time_is_up_ = true;
  if (!is_at_end())
    runtime::log_info(
        " `exit_minutes`: stopping after iteration {}, as {:.{}f} minutes have passed",
        run_.at.iteration,
        passed.count(),
        passed.count() < 1 ? 3 : 1);
}

void step_driver::say_when(const std::string& why) const {
  const bool saves = !run_.job->job.checkpoints.save.empty() && !run_.job->job.skip_train;
  if (now_ && !now_->validation)
    runtime::log_info(" {}: finishing iteration {}, then {}; a second signal ends at once{}",
                      why,
                      run_.at.iteration + 1,
                      saves ? "saving and stopping"
                            : "stopping; nothing is saved, as there is no `checkpoints.save`",
                      saves ? ", without saving" : "");
  else
    runtime::log_info(" {}: stopping after iteration {}", why, run_.at.iteration);
}

void step_driver::receive(const messages::drain& x) {
  const bool first = !std::exchange(draining_, true);
  run_.pen()->drain(x.why);
  // A missing process may never come, and there is nothing to save.
  if (run_.members.waits_for_first()
      && (run_.is_cold || run_.context->ledger->newest() == run_.told.iteration)) {
    runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved",
                      x.why);
    return shut_down();
  }
  if (first)
    say_when(x.why);
  proceed();
}

void step_driver::finish() {
  waits_to_finish_ = !saves_.is_kept(run_.at.iteration) && !gives_up_;
  if (waits_to_finish_)
    return;  // states on their way to keepers will arrive
  if (std::exchange(concluding_, true))
    return;
  run_.show("ending");
  if (!roster_.monitor())
    return shut_down();
  // A monitor that dies or hangs here is replaced and asked again; the next one writes what is
  // missing. When the second one hangs as well, the last log lines are lost, but the job is
  // complete.
  run_.context->messages
      ->request(
          run_.self, roster_.monitor(), monitor_patience, messages::conclude{run_.generation()})
      .then(
          [this](const messages::concluded&) {
            const auto turn = run_.take_turn("concluded");
            shut_down();
          },
          [this](const caf::error& e) {
            const auto turn = run_.take_turn("error");
            if (e != caf::sec::request_timeout)
              return;
            auto why = fmt::format("it did not finish within {} s", monitor_patience.count());
            if (run_.job->job.recovery.on && !std::exchange(has_waited_for_monitor_, true))
              return recovery_.lose(
                  {roster_.monitor().address(),
                   messages::make_error(messages::ec::protocol_violated, std::move(why))});
            runtime::log_warning(
                "the monitor did not finish within {} s; the last log lines may be missing",
                monitor_patience.count());
            shut_down();
          });
}

void step_driver::shut_down() {
  std::string why = diagnosis_;
  const auto unsaved = saves_.unsaved();
  why += (why.empty() || unsaved.empty() ? "" : "; ") + unsaved;
  if (!why.empty())
    return end(2, why);
  shut_down_ = true;
  run_.members.close();
  if (run_.front)
    run_.send_at_once(run_.front, messages::job_over{});
  roster_.end_processes();
  run_.send_at_once(run_.node, messages::shut_down{run_.generation()});
}

void step_driver::conclude_again() {
  if (std::exchange(concluding_, false))
    finish();
}

// Ranks may wait for each other in the abandoned step, so they get no new requests. They do carry
// out a decided step.
void step_driver::give_up(const std::string& why) {
  diagnosis_ = why;
  gives_up_ = true;
  waits_to_decide_ = waits_to_finish_ = false;
  if (!decided_) {
    now_.reset();
    votes_.clear();
  }
  proceed();
}

void step_driver::end(int exit_code, const std::string& why) {
  run_.show("ending");
  run_.members.close();
  if (run_.front)
    run_.send_at_once(run_.front, messages::job_over{exit_code, why});
  roster_.end_processes();
  run_.self->quit(messages::make_error(
      exit_code == 2 ? messages::ec::refused : messages::ec::protocol_violated, why));
}

}  // namespace troupe::actors
