// One step as a transaction: votes, the decision, the commit.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// True when one has come from each replica; they are then in rank order.
template <class Report>
bool complete(std::vector<Report>& reports, const Report& x, std::size_t replicas) {
  reports.push_back(x);
  if (reports.size() < replicas)
    return false;
  std::sort(reports.begin(), reports.end(), [](const Report& a, const Report& b) {
    return a.replica < b.replica;
  });
  return true;
}

/// In the order of the logical replicas, however many a physical one plays.
void add_losses(const std::vector<messages::vote>& votes, runtime::loss_value& to) {
  for (const auto& vote : votes)
    for (const auto& part : vote.losses) {
      to.total += part.total;
      to.tokens += part.tokens;
    }
}

}  // namespace

void supervisor_state::receive(const messages::vote& x) {
  if (x.generation != generation_)
    return;
  runtime::ensure(now_ && x.step == now_->step, "STEP-3: a vote is for the step that is running");
  if (!complete(votes_, x, replicas_.size()))
    return;
  if (now_->validation)
    end_validation_round();
  else
    decide();
}

void supervisor_state::decide() {
  for (const auto& vote : votes_)
    runtime::ensure(vote.gradients == votes_.front().gradients,
                    "STEP-2: replicas vote the same digest of what they must have alike");
  runtime::loss_value loss;
  add_losses(votes_, loss);
  auto square_norms = std::move(votes_.front().square_norms);
  if (shared_->job.reduction.distributed_optimizer)
    for (std::size_t r = 1; r < votes_.size(); ++r)
      runtime::add_to(square_norms, votes_[r].square_norms);
  votes_.clear();
  const auto update = runtime::decide(
      shared_->job.how, iteration_ + 1, consumed_, square_norms, &report_.grad_norm);
  report_.lm_loss = loss.total / std::max(loss.tokens, 1.0);
  report_.learning_rate = update.learning_rate;
  decided_ = true;
  tell_replicas(messages::decision{.generation = generation_,
                                   .step = now_->step,
                                   .learning_rate = update.learning_rate,
                                   .gradient_scale = update.gradient_scale});
}

void supervisor_state::receive(const messages::applied& x) {
  if (x.generation != generation_)
    return;
  runtime::ensure(now_ && decided_ && x.step == now_->step,
                  "STEP-1: nobody updates before everybody has voted");
  if (complete(applied_, x, replicas_.size()))
    commit();
}

void supervisor_state::commit() {
  auto state = std::move(applied_.front().own);
  for (std::size_t r = 1; r < applied_.size(); ++r) {
    if (shared_->job.reduction.distributed_optimizer)
      for (const auto& [parameter, part] : applied_[r].own)
        state[parameter] += part;
    else
      runtime::ensure(applied_[r].own == state,
                      "STEP-5: replicas hold the same state after the same update");
  }
  report_.state = runtime::combine(state);
  applied_.clear();
  ++iteration_;
  consumed_ += std::uint64_t(report_.global_batch_size);
  const auto& model = shared_->job.how.model;
  const double seconds = double(runtime::now_ns() - began_ns_) / 1e9;
  report_.iteration = iteration_;
  report_.consumed_samples = consumed_;
  report_.elapsed_ms = seconds * 1e3;
  report_.tokens_per_second = double(report_.global_batch_size * model.sequence) / seconds;
  report_.flops_per_second
      = runtime::training_flops(model, double(report_.global_batch_size)) / seconds;
  tell_watchers(messages::committed{report_});
  now_.reset();
  decided_ = false;
  proceed();
}

void supervisor_state::end_validation_round() {
  add_losses(votes_, validation_);
  votes_.clear();
  now_.reset();
  if (validation_microbatches_ > 0 && !draining_)
    return begin_validation_round();
  // A validation that was cut short says nothing: it would be of other samples.
  if (validation_microbatches_ == 0)
    tell_watchers(
        messages::validated{{iteration_, validation_.total / std::max(validation_.tokens, 1.0)}});
  proceed();
}

}  // namespace troupe::actors
