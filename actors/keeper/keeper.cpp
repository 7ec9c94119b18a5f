#include "actors/keeper/keeper.hpp"

#include "actors/host/rank_states.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/state/state_check.hpp"

#include <utility>

namespace troupe::actors {

void keeper_state::start(const messages::spawn_keeper& told,
                         std::shared_ptr<const opened_job> job,
                         std::shared_ptr<const keeper_resources> context,
                         runtime::cancel_token token) {
  reports_to_ = told.reports_to;
  process_ = told.process;
  job_ = std::move(job);
  context_ = std::move(context);
  token_ = std::move(token);
  end_on_exception(self_, "keeper");
  if (context_->env.own_threads)
    place_ = context_->lanes->add({.who = "keeper",
                                   .generation = value(told.generation),
                                   .service = true,
                                   .patience = context_->stored ? patience_with_disks : 1});
}

void keeper_state::receive(const messages::keep& x) {
  forget_others(x);
  try {
    if (x.unchanged) {
      context_->kept->extend(x.generation, x.rank, value(x.step));
    } else {
      auto came = redeemed(*context_->transport, x.state, {.until = token_});
      if (!is_sound(x, came))
        return;
      context_->kept->put(x.generation, x.rank, {value(x.since), value(x.step)}, std::move(came));
    }
  } catch (const runtime::cancelled&) {
    return;  // its generation has ended; the next one sends its own states
  } catch (const runtime::peer_lost&) {
    return;  // its holder has died or the connection broke: the generation ends
  }
  tell_if_kept(x.generation, x.step);
}

// KEEPER-3. A generation starts exactly at the first step that this keeper gets in it. A later step
// is decided only when the current keepers have all of the first one.
void keeper_state::forget_others(const messages::keep& x) {
  if (x.generation < given_in_)
    return;
  if (x.generation > given_in_) {
    given_in_ = x.generation;
    given_since_ = x.step;
  }
  if (x.step > given_since_)
    context_->kept->forget_others(ranks());
  else
    context_->kept->forget_others_after(ranks(), value(given_since_));
}

bool keeper_state::is_sound(const messages::keep& x, const runtime::rank_state& came) {
  const auto parameter = runtime::damaged_parameter(came);  // KEEPER-2
  if (parameter.empty())
    return true;
  runtime::log_warning(
      "the state of rank {} after step {} arrived damaged: the bytes of {} differ from the sealed "
      "ones; it is discarded and requested again",
      x.rank,
      value(x.step),
      parameter);
  context_->messages->send(self_,
                           caf::actor_cast<messages::stage_actor>(self_->current_sender()),
                           messages::keep_refused{x.generation, x.step, x.rank, parameter});
  return false;
}

// KEEPER-1, KEPT-2.
void keeper_state::tell_if_kept(runtime::generation_id generation, runtime::step_id step) {
  if (!context_->kept->has(generation, ranks(), value(step)))
    return;
  messages::keeper_disk disk{.of = {{process_, process_ + 1}}, .told_to_store = told_to_store_};
  if (context_->stored) {
    disk.storing = runtime::step_id(context_->stored->storing(process_).value_or(0));
    disk.stored = context_->stored->written(process_);
  }
  context_->messages->send(
      self_,
      reports_to_,
      messages::kept{.generation = generation, .step = step, .disks = {std::move(disk)}});
}

void keeper_state::receive(const messages::store_kept& x) {
  told_to_store_ = x.step;
  if (x.generation < given_in_ || !context_->stored)
    return;
  runtime::step_to_store all{
      .process = process_, .iteration = value(x.step), .common = value(x.common)};
  for (const int rank : ranks()) {
    auto found = context_->kept->find(rank, value(x.step));
    if (!found)
      return;  // two newer states have come meanwhile
    all.states[rank] = std::move(found);
  }
  context_->stored->store(std::move(all));
}

// A state that left memory may be on the disk, where any process of the host finds it. A damaged
// one counts as lost.
runtime::kept_states::state keeper_state::state_of(const messages::fetch_kept& x) const {
  auto found = context_->kept->find(x.rank, value(x.step));
  if (found || !context_->stored)
    return found;
  try {
    return std::make_shared<const runtime::rank_state>(
        context_->stored->read(job_->placed.process_of(x.rank), x.rank, value(x.step)));
  } catch (const runtime::input_error& failure) {
    runtime::log_warning("{}", failure.what());
    return nullptr;
  }
}

void keeper_state::receive(const messages::fetch_kept& x) {
  messages::kept_state answer{x.generation, x.step};
  try {
    if (const auto found = state_of(x)) {
      answer.found = true;
      answer.state = deposited(*context_->transport, *found, x.generation);
    }
  } catch (const runtime::cancelled&) {
    return;  // its generation has ended; no stage waits
  }
  context_->messages->send(
      self_, caf::actor_cast<messages::stage_actor>(self_->current_sender()), std::move(answer));
}

messages::keeper_actor::behavior_type keeper(
    messages::keeper_actor::stateful_pointer<keeper_state> self,
    const messages::spawn_keeper& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const keeper_resources> context,
    runtime::cancel_token token) {
  self->state.start(told, std::move(job), std::move(context), std::move(token));
  return {receives<messages::keep>(self),
          receives<messages::fetch_kept>(self),
          receives<messages::store_kept>(self)};
}

}  // namespace troupe::actors
