#include "actors/supervisor/supervisor.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/system_messages.hpp>

#include <utility>

namespace troupe::actors {
namespace {

/// Handles `Message` with a part of the supervisor.
template <class Message, class Self, class Part>
auto received_by(Self* self, Part& part) {
  const auto& run = self->state.parts().run;
  return on_board<Message>(
      self, run.context->messages, self->state.place(), [&part](const Message& x) {
        part.receive(x);
      });
}

}  // namespace

supervisor_part::supervisor_part(supervisor_parts& all)
    : run_(all.run),
      roster_(all.actors),
      saves_(all.saves),
      checks_(all.checks),
      commands_(all.commands),
      steps_(all.steps),
      recovery_(all.recovery) {}

// Viewers are stopped at any end of the job, after their messages. A successor keeps them.
supervisor_state::~supervisor_state() {
  if (!parts_)
    return;
  const auto& run = parts_->run;
  if (run.job->job.recovery.on && !parts_->steps.is_shut_down()
      && run.members.now() != membership::phase::stopped)
    return;
  for (const auto& viewer : parts_->actors.viewers())
    caf::anon_send(
        caf::actor_cast<caf::actor>(viewer),
        caf::exit_msg{viewer.address(), caf::make_error(caf::exit_reason::user_shutdown)});
}

void supervisor_state::start(messages::node_actor node,
                             messages::job_description told,
                             std::shared_ptr<const supervisor_resources> context,
                             messages::front_actor front,
                             const succession& after) {
  end_on_exception(self_, "supervisor");
  parts_.emplace(
      self_, std::move(node), std::move(told), std::move(context), std::move(front), after);
  auto& run = parts_->run;
  if (run.job->job.recovery.on && run.context->env.watches_lanes)
    place_ = run.context->lanes->add(
        {.who = "supervisor", .actor = self_->id(), .shares_thread = true});
  run.place = place_.get();
  {
    const auto turn = run.take_turn("start");
    begin(after);
  }
  if (place_)  // last: it reads all of the above
    place_->describe_by([this] { return parts_->steps.waits_for(); });
}

void supervisor_state::begin(const succession& after) {
  auto& run = parts_->run;
  run.begin(after);
  if (run.job->job.recovery.verify_fraction > 0 && run.job->replicas() == run.job->span
      && (after.epoch == 0 || after.is_cold))
    runtime::log_warning(
        "`recovery.verify_fraction`: {}, so each pass is computed again in the same place: errors "
        "that repeat are not found",
        run.job->span == 1 ? "there is one replica" : "all replicas exchange rows of experts");
  parts_->commands.take_up();
  if (run.processes() > 1 && !run.context->agent)
    throw runtime::input_error(
        "the job needs {} processes besides this one, but no launcher is set up: use one process",
        run.processes());
  self_->set_down_handler([this](const caf::down_msg& x) {
    const auto turn = parts_->run.take_turn("down_msg");
    parts_->recovery.lose(x);
  });
  self_->set_exit_handler([this](const caf::exit_msg& x) {
    const auto turn = parts_->run.take_turn("exit_msg");
    if (x.reason && parts_->run.context->messages->arrives(self_, x))
      self_->quit(x.reason);
  });
  parts_->recovery.begin(after);
}

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    messages::job_description told,
    std::shared_ptr<const supervisor_resources> context,
    messages::front_actor front,
    const succession& after) {
  self->state.start(std::move(node), std::move(told), std::move(context), std::move(front), after);
  auto& at = self->state.parts();
  return {
      received_by<messages::group_opened>(self, at.actors),
      received_by<messages::ready>(self, at.recovery),
      received_by<messages::vote>(self, at.steps),
      received_by<messages::applied>(self, at.steps),
      received_by<messages::check_pass>(self, at.checks),
      received_by<messages::saved>(self, at.saves),
      received_by<messages::save_failed>(self, at.saves),
      received_by<messages::abandoned>(self, at.saves),
      received_by<messages::kept>(self, at.saves),
      received_by<messages::process_started>(self, at.recovery),
      received_by<messages::process_died>(self, at.recovery),
      received_by<messages::process_may_move>(self, at.recovery),
      received_by<messages::save_again>(self, at.saves),
      received_by<messages::commands_wait>(self, at.commands),
      received_by<messages::taken_for_dead>(self, at.recovery),
      received_by<messages::drain>(self, at.steps),
  };
}

}  // namespace troupe::actors
