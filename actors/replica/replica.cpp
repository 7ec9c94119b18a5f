#include "actors/replica/replica.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// True when one has come from each stage; they are then in the order of the pipeline.
template <class Report>
bool complete(std::vector<Report>& reports, const Report& x, int stages) {
  runtime::ensure(reports.empty() || reports.front().step == x.step,
                  "REPLICA-1: stages report of one step at a time");
  reports.push_back(x);
  if (int(reports.size()) < stages)
    return false;
  std::sort(reports.begin(), reports.end(), [](const Report& a, const Report& b) {
    return a.part < b.part;
  });
  return true;
}

}  // namespace

void replica_state::start(replica_seat seat, std::shared_ptr<const resources> shared) {
  seat_ = std::move(seat);
  shared_ = std::move(shared);
  who_ = "replica:" + std::to_string(seat_.replica);
  end_on_exception(self_, who_);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  stages_.resize(std::size_t(shared_->stages()));
  for (int p = 0; p < shared_->stages(); ++p)
    self_
        ->request(seat_.node,
                  caf::infinite,
                  messages::spawn{seat_.generation, messages::role::stage, seat_.replica, p})
        .then([this, p](const caf::actor& stage) { spawned(p, stage); },
              [](const caf::error&) { /* the node is dead, and takes us with it */ });
}

void replica_state::spawned(int part, const caf::actor& stage) {
  stages_[std::size_t(part)] = stage;
  self_->monitor(stage);
  if (++spawned_ == shared_->stages())
    introduce();
}

void replica_state::introduce() {
  for (std::size_t p = 0; p < stages_.size(); ++p)
    self_->send(caf::actor_cast<messages::stage_actor>(stages_[p]),
                messages::meet{.supervisor = caf::actor_cast<caf::actor>(self_),
                               .previous = p == 0 ? caf::actor() : stages_[p - 1],
                               .next = p + 1 == stages_.size() ? caf::actor() : stages_[p + 1],
                               .loader = caf::actor_cast<caf::actor>(seat_.loader),
                               .checkpointer = caf::actor_cast<caf::actor>(seat_.checkpointer)});
}

void replica_state::lose(const caf::down_msg& x) {
  if (is(x.reason, messages::ec::cancelled))
    return;
  self_->quit(because_of(who_, x.reason));
}

template <class Order>
void replica_state::pass_down(const Order& x) {
  if (x.generation != seat_.generation)
    return;
  shared_->planted->strike(who_, runtime::value(x.step));
  for (const auto& stage : stages_)
    shared_->planted->send(self_, caf::actor_cast<messages::stage_actor>(stage), x);
}

void replica_state::receive(const messages::ready& x) {
  if (x.generation != seat_.generation)
    return;
  ready_.push_back(x);
  if (ready_.size() < stages_.size())
    return;
  messages::ready all{seat_.generation, seat_.replica, 0};
  for (const auto& part : ready_)
    all.parameters += part.parameters;
  shared_->planted->send(self_, seat_.supervisor, all);
}

void replica_state::receive(const messages::vote& x) {
  if (x.generation != seat_.generation || !complete(votes_, x, shared_->stages()))
    return;
  messages::vote all{.generation = x.generation, .step = x.step, .replica = seat_.replica};
  runtime::digester gradients;
  for (auto& part : votes_) {
    all.loss_total += part.loss_total;
    all.loss_tokens += part.loss_tokens;
    all.square_norms.merge(part.square_norms);
    gradients.add(part.gradients);
  }
  all.gradients = gradients.result();
  votes_.clear();
  shared_->planted->send(self_, seat_.supervisor, all);
}

void replica_state::receive(const messages::applied& x) {
  if (x.generation != seat_.generation || !complete(applied_, x, shared_->stages()))
    return;
  messages::applied all{.generation = x.generation, .step = x.step, .replica = seat_.replica};
  for (auto& part : applied_)
    all.digests.merge(part.digests);
  applied_.clear();
  shared_->planted->send(self_, seat_.supervisor, all);
}

messages::replica_actor::behavior_type replica(
    messages::replica_actor::stateful_pointer<replica_state> self,
    replica_seat seat,
    std::shared_ptr<const resources> shared) {
  self->state.start(std::move(seat), std::move(shared));
  return {
      [self](const messages::run_step& x) { self->state.pass_down(x); },
      [self](const messages::decision& x) { self->state.pass_down(x); },
      [self](const messages::take_snapshot& x) { self->state.pass_down(x); },
      [self](const messages::ready& x) { self->state.receive(x); },
      [self](const messages::vote& x) { self->state.receive(x); },
      [self](const messages::applied& x) { self->state.receive(x); },
  };
}

}  // namespace troupe::actors
