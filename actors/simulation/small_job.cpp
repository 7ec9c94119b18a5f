#include "actors/simulation/small_job.hpp"

#include "actors/simulation/choices.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/family_samples.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors::simulation {
namespace {

/// A behaviour that picks the next action by what has arrived. It runs input gradients first, since
/// other ranks wait for them, then as many forward passes as the first rank of 1F1B holds.
constexpr const char* behaviour = R"(
function next(state)
  local ready = {}
  for _, action in ipairs(state.ready) do
    ready[action.kind] = action
  end
  local done = state.done[state.hosted[1]]
  if ready.I then
    return ready.I
  end
  if ready.F and done.F - done.W < state.ranks then
    return ready.F
  end
  return ready.W
end
)";

bool has_experts(const runtime::training_job& job) {
  const auto& model = job.training.model;
  return !model.family().shared_by_expert_ranks(model).empty();
}

void draw_schedule(runtime::training_job& job, choices& from) {
  auto& schedule = job.layout.schedule;
  if (job.layout.pipeline == 1)
    return;
  schedule.source = from.one_of(
      {"1f1b", "1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe", "behaviour.lua"});
  if (schedule.source == "behaviour.lua")
    schedule.text = behaviour;
  if (schedule.source == "interleaved")
    schedule.chunks_per_rank = 2;
}

void choose_model(runtime::training_job& job, const runtime::model_family& of, bool with_experts) {
  const auto& schedule = job.layout.schedule.source;
  const int layers = schedule == "interleaved" || schedule == "zb-v" ? 4 : 2;
  const auto experts = with_experts ? of.smallest_with_experts(layers) : std::nullopt;
  job.training.model = experts ? *experts : of.smallest(layers);
}

/// Draws nothing for a model without experts.
void draw_experts(runtime::training_job& job, choices& from) {
  if (!has_experts(job))
    return;
  auto& l = job.layout;
  l.expert = from.one_of({1, 2, 2, 4});
  l.expert_tensor = from.one_of({0, 0, 1, 2});
  if (from.happens(0.5))
    l.dispatcher = runtime::token_dispatcher::allgather;
  if (from.happens(0.3))
    l.expert_sums = runtime::source_sums::together;
}

runtime::training_job drawn(choices from,
                            const std::filesystem::path& folder,
                            const runtime::model_family& of,
                            bool with_experts) {
  runtime::training_job job;
  const int pipeline = from.one_of({1, 2, 2}), data = from.one_of({1, 2, 2}),
            tensor = from.one_of({1, 1, 2});
  job.training.seed = 17;
  job.training.precision
      = from.one_of({runtime::dtype::f32, runtime::dtype::bf16, runtime::dtype::f16});
  job.training.rate = {.maximum = 1e-2,
                       .minimum = 1e-3,
                       .warmup = 2,
                       .decay = 20,
                       .style = runtime::decay_style::cosine};
  job.training.batch = {.micro = 1, .global = from.one_of({4, 4, 8}), .data_parallel = data};
  job.layout = {.world = tensor * pipeline * data, .tensor = tensor, .pipeline = pipeline};
  draw_schedule(job, from);
  choose_model(job, of, with_experts);
  if (data > 1 && from.happens(0.25)) {
    job.layout.replicas_per_worker = 2;
    job.layout.world /= 2;
  } else if (data > 1 && from.happens(0.7)) {
    job.reduction = {.distributed_optimizer = from.happens(0.7),
                     .bucket_size = 2048,
                     .overlap_gradients = from.happens(0.7),
                     .grain = 64};
    job.reduction.overlap_parameters = job.reduction.distributed_optimizer
                                       && job.reduction.overlap_gradients && from.happens(0.7);
  }
  job.layout.sequence_parallel = tensor > 1 && from.happens(0.5);
  job.data.mock = true;  // replaced by made_up_samples
  job.train_iterations = 4;
  if (from.happens(0.6)) {
    job.checkpoints.save = folder;
    job.checkpoints.save_interval = from.one_of({0, 1, 2, 3});
  }
  if (from.happens(0.4)) {
    job.watch.eval_interval = 2;
    job.watch.eval_batches = 1;
  }
  job.watch.log_interval = 0;
  job.watch.progress = false;
  job.watch.quiet = true;
  job.watch.straggler_ratio = 0;  // times are drawn at random
  job.backend = kernels::backend::reference;
  job.check_messages = from.happens(0.1);
  if (job.layout.pipeline > 1)
    job.layout.schedule.credits = from.one_of({0, 0, 1, 2});
  draw_experts(job, from);
  return job;
}

}  // namespace

runtime::training_job small_job(std::uint64_t shape,
                                const std::filesystem::path& folder,
                                bool recovers,
                                int processes,
                                const runtime::model_family& of) {
  constexpr std::uint64_t most_attempts = 1000;
  std::vector<std::string> wrong;
  for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
    auto job = drawn({shape % job_shapes, attempt}, folder, of, shape >= expert_shapes);
    job.recovery.on = recovers;
    job.layout.processes = std::min(processes, job.layout.world);
    job.recovery.suspicion = 30;  // longer than any task
    wrong = runtime::validate(job);
    if (wrong.empty())
      return job;
  }
  throw runtime::broken_promise(
      fmt::format("no job of shape {} can run: {}", shape, fmt::join(wrong, "; ")));
}

std::string describe_shape(const runtime::training_job& job) {
  const auto& l = job.layout;
  const auto& r = job.reduction;
  const auto experts
      = has_experts(job) ? fmt::format(", EP {}, ETP {}", l.expert, l.expert_tensor_ranks()) : "";
  return fmt::format("PP {}, DP {}{}, TP {}{}{}, {}, {}{}{}{}{}{}{}{}{}",
                     l.pipeline,
                     job.training.batch.data_parallel,
                     l.replicas_per_worker > 1 ? " logical replicas" : "",
                     l.tensor,
                     l.sequence_parallel ? " with sharded rows" : "",
                     experts,
                     to_string(job.training.precision),
                     l.schedule.source.empty() ? "1f1b" : l.schedule.source,
                     l.schedule.credits > 0 ? fmt::format(", credits {}", l.schedule.credits) : "",
                     r.distributed_optimizer ? ", distributed optimizer" : "",
                     r.overlap_gradients ? ", overlapped gradients" : "",
                     r.overlap_parameters ? ", overlapped parameters" : "",
                     job.checkpoints.save.empty()
                         ? ""
                         : fmt::format(", saves every {}", job.checkpoints.save_interval),
                     job.watch.eval_interval > 0 ? ", validates" : "",
                     job.recovery.on ? ", recovers" : "",
                     l.processes > 1 ? fmt::format(", in {} processes", l.processes) : "");
}

made_up_samples::made_up_samples(const runtime::recipe& recipe, runtime::data_split part)
    : recipe_(recipe),
      masked_(part == runtime::data_split::train),
      own_(runtime::made_up_batches(
          recipe.model,
          part,
          {std::uint64_t(recipe.batch.micro), std::uint64_t(recipe.batch.data_parallel)},
          recipe.seed)) {}

runtime::bundle made_up_samples::microbatch(const runtime::microbatch_address& at) const {
  auto x = own_ ? own_->microbatch(at) : tokens(at);
  const std::lock_guard lock(mutex_);
  for (std::int64_t b = 0; b < recipe_.batch.micro; ++b)
    asked_.insert(runtime::sample_view(x, b).at<std::uint64_t>("samples").front());
  return x;
}

runtime::bundle made_up_samples::tokens(const runtime::microbatch_address& at) const {
  const auto B = recipe_.batch.micro, T = recipe_.model.sequence();
  auto x = runtime::empty_batch(runtime::token_schema(T), B, pool_);
  for (std::int64_t b = 0; b < B; ++b) {
    const auto sample
        = runtime::sample_position({std::uint64_t(B), std::uint64_t(recipe_.batch.data_parallel)},
                                   at.consumed,
                                   at.microbatch,
                                   at.replica,
                                   std::uint64_t(b));
    const runtime::sample_view view(x, b);
    view.at<std::uint64_t>("samples").front() = sample;
    const runtime::token_row row(view);
    for (std::int64_t t = 0; t < T; ++t) {
      const auto i = std::size_t(t);
      row.tokens[i] = token(sample, t);
      row.labels[i] = token(sample, t + 1);
      row.mask[i] = masked_ && (sample + std::uint64_t(t)) % 5 == 0 ? 0.0F : 1.0F;
      row.positions[i] = std::int32_t(t);
    }
  }
  return x;
}

std::int32_t made_up_samples::token(std::uint64_t sample, std::int64_t t) const {
  return std::int32_t(mixed(sample * 64 + std::uint64_t(t))
                      % std::uint64_t(recipe_.model.vocabulary()));
}

std::set<std::uint64_t> made_up_samples::take_asked() const {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

small_prepared prepare_small(const runtime::training_job& job) {
  small_prepared out;
  auto& node = *out.job.node;
  out.job.description = describe(job, node);
  out.job.description.identity = runtime::identity(job);
  out.training = std::make_shared<made_up_samples>(job.training, runtime::data_split::train);
  node.training = out.training;
  out.job.description.validates = job.watch.eval_interval > 0;
  if (out.job.description.validates)
    node.validation = std::make_shared<made_up_samples>(job.training, runtime::data_split::valid);
  add_message_path(node, job);
  add_saved_states(node, out.job.description);
  return out;
}

}  // namespace troupe::actors::simulation
