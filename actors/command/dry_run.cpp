#include "actors/command/dry_run.hpp"

#include "actors/job/start.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/model/choices.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/plan.hpp"

#include <algorithm>
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

/// Megatron-LM's cut: products by their outputs or inputs, embedding and head by their rows.
bool is_cut(const parameter_spec& x) {
  for (const auto* part : {"linear_qkv.", "linear_fc1.", "word_embeddings.", "output_layer."})
    if (x.name.find(part) != std::string::npos)
      return true;
  return x.name.ends_with("linear_proj.weight") || x.name.ends_with("linear_fc2.weight");
}

/// What rank `at` of `tensor` holds.
holdings held_by(const gpt_config& model, const chunk_range& range, int at, int tensor) {
  holdings out;
  const chunk part(model, range);
  for (const auto& unit : part.units())
    for (const auto& x : unit.parameters) {
      const auto workers = is_cut(x) ? tensor : 1;
      const auto size = x.extents.size() / workers;
      const bool shares = !x.tied_to.empty() && range.embedding;
      out.gradients += size;
      out.values += shares ? 0 : size;
      if (x.tied_to.empty())
        out.parameters += workers == 1
                              ? valid_size(x)
                              : std::clamp<std::int64_t>(valid_size(x) - at * size, 0, size);
    }
  return out;
}

std::string stretch_text(const gpt_config& x) {
  const auto* how = x.scaling == rope_scaling::none     ? ""
                    : x.scaling == rope_scaling::llama3 ? ", stretched as Llama 3"
                                                        : ", stretched by YaRN";
  auto out = *how == '\0'
                 ? ""
                 : fmt::format("{} {}-fold from {}", how, x.scaling_factor, x.scaling_positions);
  if (x.rotary_interpolation != 1)
    out += fmt::format(", divided by {}", x.rotary_interpolation);
  return out;
}

std::string position_text(const gpt_config& x) {
  switch (x.position) {
    case position_embedding::learned_absolute:
      return fmt::format("{} learned positions", x.positions);
    case position_embedding::rope:
      return fmt::format("rotary positions (base {}{})", x.rotary_base, stretch_text(x));
    case position_embedding::none:
      break;
  }
  return "no positions";
}

std::string model_text(const gpt_config& x) {
  const auto activation = x.activation == activation_kind::swiglu         ? "SwiGLU"
                          : x.activation == activation_kind::squared_relu ? "squared ReLU"
                          : x.activation == activation_kind::gelu_tanh    ? "GELU (tanh)"
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
  if (x.qk_norm || x.window >= 0)
    out += fmt::format("            {}{}{}\n",
                       x.qk_norm ? "queries and keys normalised" : "",
                       x.qk_norm && x.window >= 0 ? ", " : "",
                       x.window < 0 ? "" : fmt::format("attention sees {} tokens back", x.window));
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

std::string layout_text(const training_job& job) {
  const auto& l = job.layout;
  auto out = fmt::format(
      "layout      {} workers ({}): {} tensor ranks{} x {} pipeline stages, {} replicas",
      l.world,
      l.order,
      l.tensor,
      l.sequence_parallel ? " (sequence parallel)" : "",
      l.pipeline,
      job.how.batch.data_parallel);
  if (l.replicas_per_worker > 1)
    out += fmt::format(", {} in turn on each worker", l.replicas_per_worker);
  return out
         + fmt::format("; {} threads each, backend {}, {}\nstages      {}\n",
                       job.threads_per_worker,
                       to_string(job.backend),
                       to_string(job.how.precision),
                       to_text(l.chunks));
}

std::string rank_text(int rank, const coordinates& at, int tensor, const chunk_range& range) {
  auto out = fmt::format("rank {:<6} replica {}, stage {}",
                         rank,
                         at[std::size_t(axis::data)],
                         at[std::size_t(axis::pipeline)]);
  if (tensor > 1)
    out += fmt::format(", tensor {} of {}", at[std::size_t(axis::tensor)], tensor);
  std::string what = range.embedding ? "embedding" : "";
  const auto add = [&what](const std::string& more) { what += (what.empty() ? "" : ", ") + more; };
  if (range.end > range.first)
    add(fmt::format("layers {} to {}", range.first, range.end - 1));
  if (range.head)
    add("head");
  return out + ": " + (what.empty() ? "passes on" : what);
}

}  // namespace

std::string describe(const training_job& given) {
  auto job = given;
  const auto start = actors::plan_start(job);  // throws what the run itself would
  const auto& model = job.how.model;
  const auto& l = job.layout;
  const auto ranks = make_mesh(l.world, l.tensor, 1, l.pipeline, l.order);
  const auto steady
      = microbatches({job.how.batch.micro, job.how.batch.global, job.how.batch.data_parallel}, 0);
  auto plan = one_forward_one_backward(l.pipeline, int(steady));
  auto out = model_text(model) + steps_text(job) + start_text(start) + layout_text(job);
  holdings all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto at = ranks.at(rank);
    const auto& range = l.chunks.at(std::size_t(at[std::size_t(axis::pipeline)]));
    const auto held = held_by(model, range, at[std::size_t(axis::tensor)], l.tensor);
    all.values += held.values;
    all.gradients += held.gradients;
    out += rank_text(rank, at, l.tensor, range)
           + fmt::format("; {} parameters; values {}, gradients {}, moments {}\n",
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
