#include "actors/command/dry_run.hpp"

#include "actors/job/start.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/model/choices.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/schedule/plan.hpp"

#include <fmt/format.h>

namespace troupe::command {
namespace {

using namespace runtime;  // every name below is one of its values

constexpr double bytes = sizeof(float);

/// Elements that a rank holds.
struct holdings {
  std::int64_t parameters = 0;  ///< its own: padding rows and copies of tied ones left out
  std::int64_t values = 0;      ///< as they lie in memory; moments as many, twice
  std::int64_t gradients = 0;
};

holdings held_by(const gpt_config& model, const chunk_range& range) {
  holdings out;
  const chunk part(model, range);
  for (const auto& unit : part.units())
    for (const auto& x : unit.parameters) {
      const bool shares = !x.tied_to.empty() && range.embedding;
      out.gradients += x.extents.size();
      out.values += shares ? 0 : x.extents.size();
      out.parameters += x.tied_to.empty() ? valid_size(x) : 0;
    }
  return out;
}

std::string position_text(const gpt_config& x) {
  switch (x.position) {
    case position_embedding::learned_absolute:
      return fmt::format("{} learned positions", x.positions);
    case position_embedding::rope:
      return fmt::format("rotary positions (base {})", x.rotary_base);
    case position_embedding::none:
      break;
  }
  return "no positions";
}

std::string model_text(const gpt_config& x) {
  const auto activation = x.activation == activation_kind::swiglu      ? "SwiGLU"
                          : x.activation == activation_kind::gelu_tanh ? "GELU (tanh)"
                                                                       : "GELU (erf)";
  std::string out = fmt::format(
      "model       {} layers, C {}, {} heads of {} in {} groups, feed-forward {}, T {}\n",
      x.layers,
      x.hidden,
      x.heads,
      x.head_size,
      x.groups,
      x.ffn,
      x.sequence);
  out += fmt::format("            {}, {}, {}, {} biases, {} embeddings, dropout {} / {}\n",
                     position_text(x),
                     x.normalization == normalization_kind::layer ? "LayerNorm" : "RMSNorm",
                     activation,
                     x.linear_bias ? "with"
                     : x.qkv_bias  ? "only QKV"
                                   : "no",
                     x.tied_embeddings ? "tied" : "untied",
                     x.hidden_dropout,
                     x.attention_dropout);
  return out
         + fmt::format("            vocabulary {} padded to {}; {} parameters\n",
                       x.vocabulary,
                       x.padded_vocabulary,
                       parameter_count(x));
}

std::string steps_text(const training_job& job) {
  const auto& b = job.how.batch;
  const auto& r = job.how.rate;
  auto out = fmt::format(
      "batch       {} samples ({} tokens) a step: {} replicas x {} micro-batches x {}\n",
      b.global,
      b.global * job.how.model.sequence,
      b.data_parallel,
      microbatches({b.micro, b.global, b.data_parallel}, 0),
      b.micro);
  if (b.ramp_start > 0)
    out += fmt::format("            from {} in steps of {} over {} samples\n",
                       b.ramp_start,
                       b.ramp_increment,
                       b.ramp_samples);
  return out
         + fmt::format(
             "steps       {}, {:.3g} floating-point operations each\n"
             "rate        {} to {} after {} samples of warm-up, {} until sample {}\n",
             job.train_iterations,
             training_flops(job.how.model, double(b.global)),
             r.maximum,
             r.minimum,
             r.warmup,
             r.style == decay_style::cosine   ? "cosine"
             : r.style == decay_style::linear ? "linear"
                                              : "constant",
             r.decay);
}

std::string start_text(const actors::start_point& start) {
  std::string out;
  for (const auto& warning : start.warnings)
    out += fmt::format("warning     {}\n", warning);
  return out + fmt::format("start       {}\n", start.text);
}

}  // namespace

std::string describe(const training_job& given) {
  auto job = given;
  const auto start = actors::plan_start(job);  // throws what the run itself would
  const auto& model = job.how.model;
  const auto ranks = make_mesh(job.layout.world, 1, 1, job.layout.pipeline, job.layout.order);
  const auto stages = split_evenly(model, job.layout.pipeline);
  const auto steady
      = microbatches({job.how.batch.micro, job.how.batch.global, job.how.batch.data_parallel}, 0);
  auto plan = one_forward_one_backward(job.layout.pipeline, int(steady));
  auto out = model_text(model) + steps_text(job) + start_text(start);
  holdings all;
  out += fmt::format(
      "layout      {} workers ({}): {} pipeline stages, {} replicas; {} threads each, "
      "backend {}\n",
      job.layout.world,
      job.layout.order,
      job.layout.pipeline,
      ranks.extent(axis::data),
      job.threads_per_worker,
      to_string(job.backend));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto at = ranks.at(rank);
    const auto stage = std::size_t(at[std::size_t(axis::pipeline)]);
    const auto& range = stages[stage];
    const auto held = held_by(model, range);
    all.values += held.values;
    all.gradients += held.gradients;
    out += fmt::format(
        "rank {:<6} replica {}, stage {}: {}layers {} to {}{}; {} parameters; values {}, gradients "
        "{}, moments {}\n",
        rank,
        at[std::size_t(axis::data)],
        stage,
        range.embedding ? "embedding, " : "",
        range.first,
        range.end - 1,
        range.head ? ", head" : "",
        held.parameters,
        human_bytes(bytes * double(held.values)),
        human_bytes(bytes * double(held.gradients)),
        human_bytes(bytes * 2 * double(held.values)));
  }
  out += fmt::format(
      "all ranks   values {}, gradients {}, moments {}: {} in all, and activations\n",
      human_bytes(bytes * double(all.values)),
      human_bytes(bytes * double(all.gradients)),
      human_bytes(bytes * 2 * double(all.values)),
      human_bytes(bytes * (3 * double(all.values) + double(all.gradients))));
  out += fmt::format("plan        {}, {} micro-batches of each replica, one row a stage\n",
                     plan.name,
                     plan.microbatches);
  return out + to_csv(plan);
}

}  // namespace troupe::command
