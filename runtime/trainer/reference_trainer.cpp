#include "runtime/trainer/reference_trainer.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/fibers.hpp"
#include "runtime/layout/seats.hpp"
#include "runtime/telemetry/trace.hpp"

#include <exception>
#include <fmt/format.h>
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
          .replicas = int(recipe.batch.data_parallel),
          .precision = recipe.precision,
          .per_token_loss = recipe.per_token_loss,
          .sequence_parallel = layout.sequence_parallel,
          .grain = layout.grain};
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
      losses_(losses_of(spec_of(recipe))),
      data_(std::move(data)),
      stream_(by),
      at_(beginning(recipe)) {
  check(recipe.batch);
  join_groups(layout);
  auto settings = whole_model(recipe, layout);
  settings.estate = std::move(estate);
  on_each([&](std::size_t rank) {
    auto& x = places_[rank];
    worker_groups groups;
    for (const auto& group : x.groups)
      groups.along.emplace(group->along(), group.get());
    x.by = std::make_unique<worker>(settings, stream_of(rank), groups);
  });
}

void reference_trainer::join_groups(const reference_layout& layout) {
  constexpr int context = 1, pipeline = 1;
  auto dense = make_mesh(layout.tensor, layout.tensor, context, pipeline);
  auto experts = fold_experts(dense, 1, layout.tensor);
  const seats all(std::move(dense), std::move(experts));
  places_.resize(std::size_t(all.size()));
  for (std::size_t r = 0; r < places_.size(); ++r) {
    if (r > 0)
      places_[r].own = std::make_unique<stream>(stream_.where(), stream_.threads(), memory_pool());
    places_[r].groups.push_back(alone(axis::data));
  }
  for (const auto& row : axis_table()) {
    if (!splits_replica(row.dense) || all.extent(row.id) == 1)
      continue;
    for (int r = 0; r < all.size(); ++r)
      if (all.is_first(r, row.id)) {
        const auto members = all.peers(r, row.id);
        const auto group = std::make_shared<local_group>(row.id, int(members.size()), token_);
        for (std::size_t i = 0; i < members.size(); ++i)
          places_[std::size_t(members[i])].groups.push_back(
              std::make_shared<local_communicator>(group, int(i)));
      }
  }
}

void reference_trainer::on_each(const std::function<void(std::size_t)>& visit) {
  if (places_.size() == 1)
    return visit(0);
  std::exception_ptr failure;
  fiber_pool fibers;
  std::vector<fiber_pool::number> all;
  for (std::size_t r = 0; r < places_.size(); ++r)
    all.push_back(fibers.start(fmt::format("rank {}", r), [&, r] {
      try {
        visit(r);
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
  on_each([&](std::size_t rank) { visit(*places_[rank].by); });
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
                          .loss_scale = at_.scale.factor()};
  const auto& estate = state().estate();
  if (estate != nullptr && !estate->newest())
    state().seal(at_.iteration, state().digests());
  step_result result;
  on_each([&](std::size_t rank) {
    auto& by = *places_[rank].by;
    by.begin_step(now);
    for (int r = 0; r < int(replicas); ++r)
      for (std::int64_t m = 0; m < now.microbatches; ++m) {
        const pass_key key{r, chunk_id(0), microbatch_id(m)};
        by.forward(key, data_->microbatch({at_.consumed, std::uint64_t(m), std::uint64_t(r)}));
        by.backward(key, {});
      }
    by.reduce();
    reads wanted(stream_of(rank));
    if (rank == 0)
      by.losses(wanted, result.losses);
    square_norms norms;
    by.norms(wanted, norms);
    wanted.finish();
    add_to(result.norms, norms);
  });
  result.nonfinite_parameter = state().first_nonfinite(result.norms).name;
  const auto verdict = decide(recipe_, losses_, at_, result);
  if (verdict.stops)
    throw input_error("{}", diagnosis(verdict, at_));
  state_digests digests;
  std::vector<std::pair<std::string, digest>> copies;
  each([&](worker& by) {
    if (!verdict.skips())
      by.update(verdict.update);
    by.drop_gradients();
    const auto found = by.digests();
    for (const auto& [name, part] : found.own)
      digests.own[name] += part;
    for (const auto& [name, part] : found.copies)
      copies.emplace_back(name, part);
    if (places_.size() == 1)
      digests.copies = found.copies;
  });
  for (const auto& [name, part] : copies)
    if (const auto owner = digests.own.find(name);
        owner != digests.own.end() && places_.size() > 1 && owner->second != part)
      throw copies_differ(name);

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
  report.grad_norm = verdict.grad_norm;
  report.learning_rate = verdict.update.learning_rate;
  report.skipped = verdict.skipped;
  report.scale = verdict.scale;
  if (estate != nullptr && verdict.skips())
    state().skip(at_.iteration);
  else if (estate != nullptr)
    state().seal(at_.iteration, digests);
  report.state = combine(digests.own);
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
    each([&](worker& by) {
      by.begin_step({step_id(at_.iteration), false, m_each, replicas});
      for (int r = 0; r < int(replicas); ++r)
        for (std::int64_t m = 0; m < m_each; ++m)
          by.forward(
              {r, chunk_id(0), microbatch_id(m)},
              source.microbatch(
                  {std::uint64_t(b * recipe_.batch.global), std::uint64_t(m), std::uint64_t(r)}));
    });
    add_to(sums, state().losses());
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
