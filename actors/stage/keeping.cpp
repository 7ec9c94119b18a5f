// Sends a stage's states to its keeper, and fetches its initial state.

#include "actors/host/rank_states.hpp"
#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"
#include "messages/core/error.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

// The arrays stay unchanged until the second update from now, which waits until this state is kept.
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
                      .rank = told_.rank,
                      .unchanged = unchanged};
  if (!unchanged) {
    told.state = deposited(*node_->transport, estate->state(newest->last), told_.generation);
    // A new keeper may still be redeeming the previous state.
    given_before_ = std::exchange(given_, tickets_of(told.state));
  }
  node_->messages->send(self_, peers_.keeper, std::move(told));
}

void stage_state::fetch_state() {
  asked_ns_ = asked_ns_ ? asked_ns_ : clock_ns(self_);
  node_->messages->send(
      self_, peers_.holder, messages::fetch_kept{told_.generation, told_.source.step, told_.rank});
}

void stage_state::receive(const messages::kept_state& x) {
  if (x.generation != told_.generation || !peers_.holder)
    return;
  if (!x.found)
    return self_->quit(messages::make_error(
        messages::ec::protocol_violated,
        fmt::format("{}: the keeper no longer has the state of step {}", who_, value(x.step))));
  peers_.holder = nullptr;  // a repeated request may be answered twice
  fetched_ = x.state;
  context_->transfer_ns = clock_ns(self_) - asked_ns_;
  build();
}

// KEEPER-2. The state is sent again once, in case it was damaged in transit. A second refusal means
// that the source is damaged: the step runs again from the previous state.
void stage_state::receive(const messages::keep_refused& x) {
  const auto newest = context_->worker ? context_->worker->estate()->newest() : std::nullopt;
  if (x.generation != told_.generation || !stands_ || !newest || newest->last != value(x.step))
    return;
  if (std::exchange(refused_, x.step) == x.step)
    return self_->quit(messages::make_error(
        messages::ec::protocol_violated,
        fmt::format("{}: the state of step {} is damaged: the bytes of {} differ from the sealed "
                    "ones, as the keeper has found twice",
                    who_,
                    value(x.step),
                    x.parameter)));
  give_to_keeper();
}

// The old keeper may have died with this state, or with a request for it.
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
