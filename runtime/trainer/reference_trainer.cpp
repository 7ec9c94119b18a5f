#include "runtime/trainer/reference_trainer.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/fibers.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/telemetry/trace.hpp"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

worker_settings whole_model(const recipe& recipe, const reference_layout& layout) {
  auto model = spec_of(recipe);
  const auto range = all_of(model);
  return {.model = std::move(model),
          .chunks = {{chunk_id(0), range}},
          .seed = recipe.seed,
          .optimizer = recipe.optimizer,
          .replicas = int(recipe.batch.data_parallel) / layout.data,
          .expert_sums = layout.expert_sums,
          .precision = recipe.precision,
          .per_token_loss = recipe.per_token_loss,
          .choices = recipe.expert_choices,
          .sequence_parallel = layout.sequence_parallel,
          .grain = layout.grain};
}

seats seats_of(const reference_layout& layout) {
  constexpr int context = 1, pipeline = 1;
  auto dense = make_mesh(layout.tensor * layout.data, layout.tensor, context, pipeline);
  auto experts = fold_experts(dense, layout.expert, layout.expert_tensor);
  return {std::move(dense), std::move(experts)};
}

/// The sums of the gradients of a model: see job_pipeline.
std::set<axis_set> sums_of(const model_spec& model) {
  std::set<axis_set> out = {parameter_placements().sums()};
  const chunk whole(model, all_of(model));
  for (const auto& unit : whole.units())
    for (const auto& x : unit.parameters)
      out.insert(x.placements.sums());
  return out;
}

}  // namespace

reference_trainer::reference_trainer(const recipe& recipe,
                                     std::shared_ptr<const batch_source> data,
                                     stream& stream,
                                     std::shared_ptr<rank_estate> estate)
    : reference_trainer(recipe, std::move(data), stream, std::move(estate), reference_layout()) {}

reference_trainer::reference_trainer(const recipe& recipe,
                                     std::shared_ptr<const batch_source> data,
                                     stream& stream,
                                     const reference_layout& layout)
    : reference_trainer(recipe, std::move(data), stream, nullptr, layout) {}

reference_trainer::reference_trainer(const recipe& recipe,
                                     std::shared_ptr<const batch_source> data,
                                     stream& by,
                                     std::shared_ptr<rank_estate> estate,
                                     const reference_layout& layout)
    : recipe_(recipe),
      losses_(losses_of(recipe)),
      data_(std::move(data)),
      stream_(by),
      seats_(seats_of(layout)),
      at_(beginning(recipe)) {
  check(recipe.batch);
  if (recipe.batch.data_parallel % layout.data != 0)
    throw input_error(
        "cannot compute {} logical replicas on {} data ranks: each computes as many; give a "
        "divisor",
        recipe.batch.data_parallel,
        layout.data);
  if (recipe.batch.data_parallel != layout.data && has_losses_over_replicas())
    throw input_error(
        "cannot compute {} logical replicas in turn on {} data ranks: a loss of this model counts "
        "all replicas in each pass; give as many data ranks",
        recipe.batch.data_parallel,
        layout.data);
  join_groups();
  auto settings = whole_model(recipe, layout);
  settings.estate = std::move(estate);
  on_each([&](place& x) {
    worker_groups groups{.extents = seats_.extents()};
    for (const auto& group : x.groups)
      groups.along.emplace(group->along(), group.get());
    groups.replicas = x.replicas.get();
    x.by = std::make_unique<worker>(settings, stream_of(x), groups);
  });
}

void reference_trainer::join_groups() {
  places_.resize(std::size_t(seats_.size()));
  for (int r = 0; r < seats_.size(); ++r) {
    auto& x = places_[std::size_t(r)];
    x.rank = r;
    if (r > 0)
      x.own = std::make_unique<stream>(stream_.where(), stream_.threads(), memory_pool());
  }
  const auto join = [&](axis_set along, bool of_losses = false) {
    for (const auto& first : places_) {
      if (!seats_.is_first(first.rank, along))
        continue;
      const auto members = seats_.peers(first.rank, along);
      const auto group = std::make_shared<local_group>(along, int(members.size()), token_);
      for (std::size_t i = 0; i < members.size(); ++i) {
        auto& to = places_[std::size_t(members[i])];
        auto by = std::make_shared<local_communicator>(group, int(i));
        if (of_losses)
          to.replicas = std::move(by);
        else
          to.groups.push_back(std::move(by));
      }
    }
  };
  const auto axes = axes_of_groups(sums_of(spec_of(recipe_)), seats_);
  for (const auto along : axes.passes)
    join(along);
  for (const auto along : axes.sums)
    join(along);
  if (seats_.replicas() > 1 && has_losses_over_replicas())
    join(axis::data, true);
}

bool reference_trainer::has_losses_over_replicas() const {
  return std::ranges::any_of(losses_, &loss_spec::over_replicas);
}

void reference_trainer::on_each(const std::function<void(place&)>& visit) {
  if (places_.size() == 1)
    return visit(places_.front());
  std::exception_ptr failure;
  fiber_pool fibers;
  std::vector<fiber_pool::number> all;
  for (auto& x : places_)
    all.push_back(fibers.start(fmt::format("rank {}", x.rank), [&, here = &x] {
      try {
        visit(*here);
      } catch (...) {
        if (!failure)  // later ones follow from it
          failure = std::current_exception();
        token_.cancel();
      }
    }));
  for (const auto x : all)
    fibers.join(x);
  if (failure)
    std::rethrow_exception(failure);
}

void reference_trainer::each(const std::function<void(worker&)>& visit) {
  on_each([&](place& x) { visit(*x.by); });
}

int reference_trainer::first_replica(const place& x) const {
  return seats_.at(x.rank)[axis::data] * x.by->settings().replicas;
}

void reference_trainer::run_passes(place& x,
                                   const batch_source& source,
                                   std::uint64_t consumed,
                                   const step_settings& now) const {
  x.by->begin_step(now);
  for (int r = 0; r < x.by->settings().replicas; ++r)
    for (std::int64_t m = 0; m < now.microbatches; ++m) {
      const pass_key key{r, chunk_id(0), microbatch_id(m)};
      x.by->forward(
          key,
          source.microbatch({consumed, std::uint64_t(m), std::uint64_t(first_replica(x) + r)}));
      if (now.training)
        x.by->backward(key, {});
    }
}

void reference_trainer::add_losses(const place& of,
                                   std::vector<loss_part> found,
                                   std::vector<loss_part>& to) const {
  if (!seats_.leads(of.rank))
    return;
  for (auto& part : found) {
    part.number += first_replica(of);
    to.push_back(part);
  }
  std::ranges::sort(to, {}, &loss_part::order);
}

std::map<std::string, digest> reference_trainer::whole_state(
    const std::vector<state_digests>& by_rank) const {
  std::map<std::string, digest> out;
  for (const auto& x : places_)
    for (const auto& [name, part] : by_rank[std::size_t(x.rank)].own) {
      const int first = seats_.alike(x.rank, x.by->layers_of(name)).front();
      ensure(by_rank[std::size_t(first)].own.at(name) == part,
             "STEP-5: ranks with equal parameters hold the same state after the same update");
      if (first == x.rank)
        out[name] += part;
    }
  // A copy equals that of one owner: other ranks may own other shards.
  for (const auto& x : by_rank)
    for (const auto& copy : x.copies)
      if (std::ranges::none_of(by_rank, [&](const state_digests& of) {
            const auto owner = of.own.find(copy.first);
            return owner != of.own.end() && owner->second == copy.second;
          }))
        throw broken_promise(
            "STEP-6: what several tensor ranks or stages hold, they hold alike; but not "
            + copy.first);
  return out;
}

step_report reference_trainer::step() {
  const auto started = now_ns();
  const auto replicas = recipe_.batch.data_parallel;
  const auto consumed = std::int64_t(at_.consumed);
  const auto iteration = at_.iteration + 1;
  const step_settings now{.step = step_id(iteration),
                          .training = true,
                          .microbatches = microbatches(recipe_.batch, consumed),
                          .logical_replicas = replicas,
                          .loss_scale = at_.scale.factor(),
                          .counts_experts = true};
  const auto& estate = state().estate();
  if (estate != nullptr && !estate->newest())
    state().seal(at_.iteration, state().digests());
  step_result result;
  std::vector<expert_rows> experts;
  on_each([&](place& x) {
    auto& by = *x.by;
    run_passes(x, *data_, at_.consumed, now);
    by.reduce();
    reads wanted(stream_of(x));
    std::vector<loss_part> losses;
    by.losses(wanted, losses);
    square_norms norms;
    by.norms(wanted, norms);
    wanted.finish();
    add_losses(x, std::move(losses), result.losses);
    std::erase_if(norms,
                  [&](const auto& of) { return !seats_.counts(x.rank, by.layers_of(of.first)); });
    add_to(result.norms, norms);
    add_to(experts, by.expert_rows());
  });
  result.nonfinite_parameter = state().first_nonfinite(result.norms).name;
  const auto verdict = decide(recipe_, losses_, at_, result);
  if (verdict.stops)
    throw input_error("{}", diagnosis(verdict, at_));
  std::vector<state_digests> digests(places_.size());
  on_each([&](place& x) {
    if (!verdict.skips())
      x.by->update(verdict.update);
    x.by->drop_gradients();
    x.by->record_choices();
    digests[std::size_t(x.rank)] = x.by->digests();
  });
  const auto whole = whole_state(digests);

  step_report report;
  report.global_batch_size = global_batch_size(recipe_.batch, consumed);
  at_.consumed += std::uint64_t(report.global_batch_size);
  at_.skipped = verdict.skipped;
  at_.scale = verdict.scale;
  report.iteration = ++at_.iteration;
  report.consumed_samples = at_.consumed;
  report.consumed_tokens = at_.consumed * std::uint64_t(recipe_.model.sequence());
  report.loss = verdict.loss;
  report.losses = verdict.losses;
  report.experts = loads_of(state().settings().model, experts, true);
  report.grad_norm = verdict.grad_norm;
  report.learning_rate = verdict.update.learning_rate;
  report.skipped = verdict.skipped;
  report.scale = verdict.scale;
  if (estate != nullptr && verdict.skips())
    state().skip(at_.iteration);
  else if (estate != nullptr)
    state().seal(at_.iteration, digests.front());
  report.state = combine(whole);
  report.elapsed_ms = double(now_ns() - started) / 1e6;
  report.tokens_per_second
      = double(report.global_batch_size * recipe_.model.sequence()) / (report.elapsed_ms / 1e3);
  return report;
}

step_losses reference_trainer::evaluate(const batch_source& source, std::int64_t batches) {
  const auto replicas = recipe_.batch.data_parallel;
  const auto m_each = recipe_.batch.global / (recipe_.batch.micro * replicas);
  std::vector<loss_value> sums(losses_.size());
  for (std::int64_t b = 0; b < batches; ++b) {
    std::vector<loss_part> found;
    on_each([&](place& x) {
      run_passes(x,
                 source,
                 std::uint64_t(b * recipe_.batch.global),
                 {step_id(at_.iteration), false, m_each, replicas});
      add_losses(x, x.by->losses(), found);
    });
    add_to(sums, found);
  }
  return means_of(losses_, sums);
}

void reference_trainer::resume_at(std::uint64_t iteration,
                                  std::uint64_t consumed,
                                  skipped_steps skipped,
                                  loss_scale scale) {
  at_ = {iteration, consumed, skipped, scale.is_used() ? scale : beginning(recipe_).scale};
}

}  // namespace troupe::runtime
