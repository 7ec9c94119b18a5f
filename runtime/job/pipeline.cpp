#include "runtime/job/pipeline.hpp"

#include "runtime/core/error.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/model/recompute_plan.hpp"
#include "runtime/model/stages.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::runtime {

int planned_microbatches(const training_job& job) {
  const auto& batch = job.training.batch;
  return int(microbatches({batch.micro, batch.global, batch.data_parallel}, 0)
             * job.layout.replicas_per_worker);
}

int most_microbatches(const training_job& job) {
  auto batch = job.training.batch;
  for (const auto& x : batch.steps)
    batch.global = std::max(batch.global, x.size);
  return int(microbatches({batch.micro, batch.global, batch.data_parallel}, 0)
             * job.layout.replicas_per_worker);
}

std::set<int> planned_microbatches(const training_job& job, std::uint64_t consumed) {
  const auto& batch = job.training.batch;
  std::set<int> out;
  for (auto at = std::int64_t(consumed);; at += global_batch_size(batch, at)) {
    out.insert(int(microbatches(batch, at) * job.layout.replicas_per_worker));
    if (is_settled(batch, at))
      return out;
  }
}

std::vector<int> job_pipeline::ranks_of(const tie& x, copy_id copy) const {
  std::vector<int> out;
  for (const auto unit : x.units) {
    std::uint32_t chunk = 0;
    while (chunks[chunk].end <= unit)
      ++chunk;
    out.push_back(schedule->rank_of(chunk_id(chunk), copy));
  }
  return out;
}

namespace {

/// The first difference between two uses of a tied parameter; null: none.
const char* difference_of(const parameter_spec& a, const parameter_spec& b) {
  return a.extents != b.extents         ? "extents"
         : a.valid_rows != b.valid_rows ? "numbers of valid rows"
         : a.placements != b.placements ? "placements"
         : a.frozen != b.frozen         ? "flags `frozen`"
         : a.keep_f32 != b.keep_f32     ? "flags `keep_f32`"
                                        : nullptr;
}

/// True if the tied parameter has gradients. Throws input_error if those of its uses cannot be
/// added. Builds each unit alone, so the uses meet here first.
bool has_gradients(const tie& x, const model_spec& model, const layout_settings& layout) {
  const axis_ranks ranks = {{axis::tensor, {0, layout.tensor}},
                            {axis::expert, {0, layout.expert}},
                            {axis::expert_tensor, {0, layout.expert_tensor_ranks()}}};
  std::optional<parameter_spec> first;
  for (const auto unit : std::set<std::int64_t>(x.units.begin(), x.units.end())) {
    const chunk alone(model, {unit, unit + 1}, ranks, layout.sequence_parallel);
    for (const auto& use : alone.units().front().parameters) {
      if (use.name != x.owner && use.tied_to != x.owner)
        continue;
      if (!first)
        first = use;
      else if (const auto* const what = difference_of(*first, use))
        throw input_error(
            "'{}' is tied to '{}', but their {} differ, and their gradients are added: give both "
            "the same",
            use.name,
            first->name,
            what);
    }
  }
  return first && !first->frozen;
}

}  // namespace

job_pipeline pipeline_of(const training_job& job) {
  const auto schedule = std::make_shared<pipeline_schedule>(
      job.layout.schedule, job.layout.pipeline, planned_microbatches(job));
  const auto model = spec_of(job.training);
  job_pipeline out;
  out.chunks = job.layout.chunks;
  if (out.chunks.empty())
    out.chunks = split_layers(model.letters(), schedule->chunks(), {});
  if (int(out.chunks.size()) != schedule->chunks())
    throw input_error(
        "the layers are cut into {} stages ('{}'), but the schedule {} has {} for "
        "`layout.pipeline` {}: list as many in `layout.chunks`",
        out.chunks.size(),
        to_text(out.chunks, model.letters()),
        schedule->name(),
        schedule->chunks(),
        job.layout.pipeline);
  for (auto& x : ties_of(model))
    if (has_gradients(x, model, job.layout))
      out.ties.push_back(std::move(x));
  out.sample_flops = training_flops(model, schema_of(job), 1);
  out.has_losses_over_replicas = std::ranges::any_of(losses_of(model), &loss_spec::over_replicas);
  out.sums.insert(parameter_placements().sums());
  for (const auto& range : out.chunks) {
    auto& blocks = out.blocks.emplace_back();
    const chunk part(model, range);
    out.flows.push_back(part.flow());
    for (const auto& unit : part.units())
      for (const auto& x : unit.parameters) {
        out.sums.insert(x.placements.sums());
        if (x.placements.view() == axis_view::experts)
          out.experts.insert(x.tied_to.empty() ? x.name : x.tied_to);
      }
    for (const auto& block : recompute_plan(part, job.recompute).blocks)
      blocks.push_back(block.recomputed ? 1 : 0);
  }
  schedule->recompute(out.blocks);
  out.schedule = schedule;
  return out;
}

}  // namespace troupe::runtime
