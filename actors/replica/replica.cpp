#include "actors/replica/replica.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
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

/// A copy is what its owner is: a part of a tied table that of the same tensor rank, what every
/// tensor rank has that of the first.
void require_alike(const std::vector<messages::applied>& parts, int tensor) {
  const auto owner = [&](const std::string& name, int t) -> const runtime::digest* {
    for (const auto& x : parts)
      if (const auto found = x.own.find(name); x.part % tensor == t && found != x.own.end())
        return &found->second;
    return nullptr;
  };
  for (const auto& part : parts)
    for (const auto& [name, digest] : part.copies) {
      const auto* found = owner(name, part.part % tensor);
      if (found == nullptr)
        found = owner(name, 0);
      if (found == nullptr || *found != digest)
        throw runtime::broken_promise(fmt::format(
            "STEP-6: what several tensor ranks or stages hold, they hold alike; but not {}", name));
    }
}

}  // namespace

void replica_state::start(replica_seat seat, std::shared_ptr<const resources> shared) {
  seat_ = std::move(seat);
  shared_ = std::move(shared);
  who_ = "replica:" + std::to_string(seat_.replica);
  end_on_exception(self_, who_);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  stages_.resize(std::size_t(stages()));
  for (int s = 0; s < stages(); ++s)
    self_
        ->request(seat_.node,
                  caf::infinite,
                  messages::spawn{.generation = seat_.generation,
                                  .who = messages::role::stage,
                                  .replica = seat_.replica,
                                  .part = s / shared_->tensor(),
                                  .tensor = s % shared_->tensor()})
        .then([this, s](const caf::actor& stage) { spawned(s, stage); },
              [](const caf::error&) { /* the node is dead, and takes us with it */ });
}

void replica_state::spawned(int stage, const caf::actor& actor) {
  stages_[std::size_t(stage)] = actor;
  self_->monitor(actor);
  if (++spawned_ == stages())
    introduce();
}

void replica_state::introduce() {
  const int tensor = shared_->tensor();
  const auto at = [&](int p, int t) { return stages_[std::size_t(p * tensor + t)]; };
  for (int p = 0; p < shared_->stages(); ++p)
    for (int t = 0; t < tensor; ++t) {
      messages::meet whom{.supervisor = caf::actor_cast<caf::actor>(self_),
                          .loader = caf::actor_cast<caf::actor>(seat_.loader),
                          .checkpointer = caf::actor_cast<caf::actor>(seat_.checkpointer)};
      for (int other = 0; other < shared_->stages(); ++other)
        whom.pipeline.push_back(at(other, t));
      for (int other = 0; other < tensor; ++other)
        whom.tensor.push_back(at(p, other));
      self_->send(caf::actor_cast<messages::stage_actor>(at(p, t)), whom);
    }
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
  shared_->faults->inject(who_, runtime::value(x.step));
  for (const auto& stage : stages_)
    shared_->faults->send(self_, caf::actor_cast<messages::stage_actor>(stage), x);
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
  shared_->faults->send(self_, seat_.supervisor, all);
}

void replica_state::receive(const messages::vote& x) {
  if (x.generation != seat_.generation || !complete(votes_, x, stages()))
    return;
  messages::vote all{.generation = x.generation, .step = x.step, .replica = seat_.replica};
  runtime::digester gradients;
  for (auto& part : votes_) {
    all.losses.insert(all.losses.end(), part.losses.begin(), part.losses.end());
    for (auto& row : part.executed)
      all.executed.push_back(std::move(row));
    for (const auto& [parameter, square] : part.square_norms)
      all.square_norms[parameter] += square;
    gradients.add(part.gradients);
    all.zeros += part.zeros;
    if (all.nonfinite.yields_to(part.nonfinite))
      all.nonfinite = part.nonfinite;
  }
  std::sort(all.losses.begin(), all.losses.end(), [](const auto& a, const auto& b) {
    return a.number < b.number;
  });
  all.gradients = gradients.result();
  votes_.clear();
  shared_->faults->send(self_, seat_.supervisor, all);
}

void replica_state::receive(const messages::applied& x) {
  if (x.generation != seat_.generation || !complete(applied_, x, stages()))
    return;
  messages::applied all{.generation = x.generation, .step = x.step, .replica = seat_.replica};
  for (const auto& part : applied_) {
    for (const auto& [parameter, digest] : part.own)
      all.own[parameter] += digest;
    all.square_norm += part.square_norm;
  }
  require_alike(applied_, shared_->tensor());
  applied_.clear();
  shared_->faults->send(self_, seat_.supervisor, all);
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
