#include "actors/command/resolve_parts.hpp"
#include "runtime/core/log.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/machine/machine.hpp"

#include <algorithm>

namespace troupe::command {
namespace {

constexpr std::int64_t most_workers = 1 << 16;

/// Stages that cannot be even are left to be told with the other rules of the layout.
void resolve_stages(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& s = flags.stages;
  const auto& ends = s.ends;
  auto& chunks = job.layout.chunks;
  const auto layers = job.how.model.layers;
  const int stages = job.layout.pipeline;
  const bool told = ends.first || ends.last || ends.embedding_counts || ends.loss_counts;
  if (layers < 1 || (!flags.model.layers && flags.model.hub.empty()))
    return;
  if (s.text && told)
    wrong.emplace_back(
        "--pipeline-model-parallel-layout says what every stage holds: leave out "
        "--decoder-first-pipeline-num-layers, -last- and --account-for-...");
  else if (s.text)
    collect(wrong, [&] { chunks = runtime::stages_from_text(*s.text, layers, stages); });
  else if (told)
    collect(wrong, [&] { chunks = runtime::split_layers(layers, stages, ends); });
  else if (layers % stages == 0)
    chunks = runtime::split_layers(layers, stages, {});
}

}  // namespace

void resolve_layout(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& l = flags.layout;
  auto& out = job.layout;
  out.tensor = int(l.tensor);
  out.pipeline = int(l.pipeline);
  const auto model = l.tensor * l.pipeline;
  out.world = int(l.world.value_or(std::min<std::int64_t>(model, most_workers)));
  out.replicas_per_worker = int(l.replicas_per_worker);
  out.sequence_parallel = l.sequence_parallel && l.tensor > 1;
  if (l.sequence_parallel && l.tensor == 1)
    runtime::log_warning(
        "--sequence-parallel does nothing with --tensor-model-parallel-size 1: it is off");
  if (l.pipeline_before_data)
    out.order = "tp-cp-ep-pp-dp";
  resolve_stages(flags, job, wrong);
  job.reduction = flags.reduction;
  job.how.precision = l.bf16 ? runtime::dtype::bf16 : runtime::dtype::f32;
  const auto cores = runtime::look_at_processor().usable();  // control groups may leave fewer
  job.threads_per_worker = int(l.threads.value_or(std::max<std::int64_t>(1, cores / out.world)));
  job.backend = runtime::backend_from(l.backend).value_or(runtime::backend_kind::cpu);
  auto& batch = job.how.batch;
  batch.data_parallel = std::max<std::int64_t>(1, out.world / model) * l.replicas_per_worker;
  if (!flags.steps.micro)
    wrong.emplace_back("--micro-batch-size is missing: how many samples pass a stage at once");
  batch.micro = flags.steps.micro.value_or(1);
  batch.global = flags.steps.global.value_or(batch.micro * batch.data_parallel);
  if (flags.steps.ramp.size() == 3) {
    batch.ramp_start = flags.steps.ramp[0];
    batch.ramp_increment = flags.steps.ramp[1];
    batch.ramp_samples = flags.steps.ramp[2];
    if (batch.ramp_start == 0)
      wrong.emplace_back("--rampup-batch-size: START is 0; give at least 1");
  }
}

void resolve_recompute(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& r = flags.recompute;
  auto& out = job.recompute;
  if (r.activations && r.granularity == "full")
    wrong.emplace_back(
        "--recompute-activations means --recompute-granularity selective, and that says full: give "
        "one");
  const bool selective = r.activations || r.granularity == "selective";
  if (selective) {
    out.granularity = runtime::recompute_granularity::selective;
    out.core_attention = r.core_attention;
    out.feed_forward = r.feed_forward;
  } else if (r.granularity) {
    out.granularity = runtime::recompute_granularity::full;
    if (!r.method || !r.layers)
      wrong.emplace_back(
          "--recompute-granularity full needs --recompute-method uniform or block, and "
          "--recompute-num-layers, usually 1");
    out.method = r.method == "block" ? runtime::recompute_method::block
                                     : runtime::recompute_method::uniform;
    out.layers = int(r.layers.value_or(1));
  }
  if ((r.method || r.layers) && (selective || !r.granularity))
    wrong.emplace_back(
        "--recompute-method and --recompute-num-layers belong to --recompute-granularity full: "
        "give that, or leave them out");
  if (r.modules_given && !selective)
    wrong.emplace_back(
        "--recompute-modules belongs to --recompute-granularity selective: give that, or leave it "
        "out");
}

}  // namespace troupe::command
