// A stage and the keeper of its states.

#include "actors/keeper/rank_states.hpp"
#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"
#include "messages/core/error.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

// The arrays stay as they are until the second update from now on, and that waits until this state
// is kept.
void stage_state::give_to_keeper(bool unchanged) {
  if (!peers_.keeper)
    return;
  const auto estate = context_->worker->estate();
  const auto newest = estate->newest();
  if (!newest)
    return;
  messages::keep told{.generation = told_.generation,
                      .step = runtime::step_id(newest->last),
                      .since = runtime::step_id(newest->first),
                      .rank = job_->rank(told_.replica, told_.pipeline_rank, told_.tensor_rank),
                      .unchanged = unchanged};
  if (!unchanged) {
    told.state = deposited(*node_->transport, estate->state(newest->last), told_.generation);
    // That of the step before may be on its way to a keeper that has come since.
    given_before_ = std::exchange(given_, tickets_of(told.state));
  }
  node_->messages->send(self_, peers_.keeper, std::move(told));
}

void stage_state::fetch_state() {
  asked_ns_ = asked_ns_ ? asked_ns_ : clock_ns(self_);
  node_->messages->send(
      self_,
      peers_.holder,
      messages::fetch_kept{told_.generation,
                           told_.source.step,
                           job_->rank(told_.replica, told_.pipeline_rank, told_.tensor_rank)});
}

void stage_state::receive(const messages::kept_state& x) {
  if (x.generation != told_.generation || !peers_.holder)
    return;
  if (!x.found)
    return self_->quit(messages::make_error(
        messages::ec::protocol_violated,
        fmt::format("{}: its keeper no longer has the state of step {}", who_, value(x.step))));
  peers_.holder = nullptr;  // a second answer is of one that was asked again
  fetched_ = x.state;
  context_->transfer_ns = clock_ns(self_) - asked_ns_;
  build();
}

// KEEPER-2. What was damaged on its way comes again; what is damaged where it lies is not this
// step's state: the step runs again, from the one before.
void stage_state::receive(const messages::keep_refused& x) {
  const auto newest = context_->worker ? context_->worker->estate()->newest() : std::nullopt;
  if (x.generation != told_.generation || !stands_ || !newest || newest->last != value(x.step))
    return;
  if (std::exchange(refused_, x.step) == x.step)
    return self_->quit(messages::make_error(
        messages::ec::protocol_violated,
        fmt::format("{}: the state of step {} is damaged: the bytes of {} are no longer those that "
                    "were sealed, as its keeper has found twice",
                    who_,
                    value(x.step),
                    x.parameter)));
  give_to_keeper();
}

// The one before may have died with what it was given, or was asked for.
void stage_state::receive(const messages::use_keeper& x) {
  if (x.generation != told_.generation)
    return;
  const bool is_new = x.keeper != peers_.keeper;
  if (is_new) {
    peers_.keeper = x.keeper;
    for (auto* const tickets : {&given_, &given_before_})
      node_->transport->take_back(std::exchange(*tickets, {}));
  }
  if (!peers_.holder) {
    if (is_new && stands_)
      give_to_keeper();
  } else if (x.holder && x.holder != peers_.holder) {
    peers_.holder = x.holder;
    fetch_state();
  }
}

}  // namespace troupe::actors
