#include "runtime/forecast/step_forecast.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/schedule/simulate.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Bytes of AdamW for a parameter, besides its gradient: master and two moments, read and written.
constexpr double update_bytes = 24;

group_span widest(const mesh& of, axis_set along, int devices_per_host) {
  group_span out;
  for (int rank = 0; rank < std::min(of.size(), 2 * devices_per_host); ++rank) {
    const auto found = span_of(of.group(rank, along), devices_per_host);
    if (found.hosts > out.hosts || out.size == 1)
      out = found;
  }
  return out;
}

rank_share share_of(const model_outline& model,
                    const step_outline& step,
                    const cluster_outline& on,
                    const step_spans& spans) {
  return {.rows = double(step.micro) * model.sequence / step.context,
          .tensor = double(step.tensor),
          .context = double(step.context),
          .expert = double(step.expert),
          .expert_tensor = double(step.expert_tensor),
          .sequence_parallel = step.sequence_parallel && step.tensor > 1,
          .element = double(size_of(step.precision)),
          .gradient = step.gradient_bytes,
          .peak = on.device.peak(step.precision),
          .fp8_peak = step.fp8 ? on.device.fp8.value_or(0) : 0,
          .fused_attention = step.fused_attention,
          .fused_loss = step.fused_loss,
          .overlap_tensor = step.overlap_tensor,
          .tensor_ranks = spans.tensor,
          .context_ranks = spans.context,
          .expert_ranks = spans.expert,
          .expert_tensor_ranks = spans.expert_tensor};
}

/// Costs of a chunk for one micro-batch, and its parameters on one rank.
struct chunk_costs {
  pass_costs pass;
  step_parts again;  ///< recomputed
  parameter_share parameters;

  double backward() const { return again.all() + pass.inputs.all() + pass.parameters.all(); }
  step_parts parts() const {
    auto out = pass.forward;
    out += again;
    out += pass.inputs;
    out += pass.parameters;
    return out;
  }
};

/// The layer without its attention, norms and sums.
layer_outline feed_forward_of(layer_outline x) {
  x.products.erase(x.products.begin(), x.products.begin() + x.attention_products);
  x.keys = 0;
  x.stream = {};
  x.tensor_blocks = 1;
  return x;
}

/// The forward pass of a layer, and that of its feed-forward part.
struct layer_passes {
  step_parts all, feed_forward;
};

/// The parts of a layer's forward pass that the settings compute again. `layer`: in its chunk.
step_parts recomputed(const layer_passes& forward,
                      bool has_experts,
                      const recompute_settings& by,
                      int layer) {
  if (by.granularity == recompute_granularity::full
      && (by.method == recompute_method::uniform || layer < by.layers))
    return forward.all;
  step_parts out;
  if (by.granularity != recompute_granularity::selective)
    return out;
  if (has_experts ? by.experts : by.feed_forward)
    out = forward.feed_forward;
  if (by.core_attention)
    out.attention = forward.all.attention;
  return out;
}

forecast_assumptions with_measured(forecast_assumptions by, const measured_shares& seen) {
  by.product_share = seen.products.value_or(by.product_share);
  by.attention_share = seen.attention.value_or(by.attention_share);
  by.memory_share = seen.memory.value_or(by.memory_share);
  by.link_share = seen.links.value_or(by.link_share);
  by.handoff_seconds = seen.handoff.value_or(by.handoff_seconds);
  by.step_seconds = seen.step.value_or(by.step_seconds);
  by.kernel_seconds = seen.kernel.value_or(by.kernel_seconds);
  return by;
}

class pipeline_costs {
 public:
  pipeline_costs(const model_outline& model,
                 const step_outline& step,
                 const cluster_outline& on,
                 const step_spans& spans,
                 const forecast_assumptions& by)
      : model_(model),
        step_(step),
        by_(with_measured(by, on.measured)),
        spans_(spans),
        share_(share_of(model, step, on, spans_)),
        layers_(model, share_, on, by_),
        links_(on, by_.link_share) {
    const double row = share_.rows * model.hidden * share_.element;
    const bool shared = share_.sequence_parallel || step.shared_handoffs;
    transfer_ = links_.transfer(shared ? row / step.tensor : row, spans_.far_stages);
    for (const auto& kind : model.kinds) {
      const auto pass = layers_.of_layer(kind);
      kinds_.push_back({pass,
                        {pass.forward, layers_.of_layer(feed_forward_of(kind)).forward},
                        parameters_of(kind, share_)});
    }
    for (std::size_t c = 0; c < step.chunks.size(); ++c)
      chunks_.push_back(of_chunk(step.chunks[c], c));
  }

  const std::vector<chunk_costs>& chunks() const { return chunks_; }
  double transfer() const { return step_.pipeline > 1 && step_.overlap_handoffs ? transfer_ : 0; }

  /// Adds what follows the passes. `hosted`: the chunks of each rank.
  void finish(step_forecast& out, const std::vector<std::vector<std::size_t>>& hosted) const {
    double most = -1;
    for (const auto& of : hosted) {
      const auto tail = tail_of(of);
      if (const double all = tail.gradients + tail.update + tail.gather; all > most) {
        most = all;
        out.gradients = tail.gradients;
        out.update = tail.update;
        out.gather = tail.gather;
      }
    }
    out.host = by_.step_seconds;
    out.seconds
        = out.passes.all() + out.bubble + out.gradients + out.update + out.gather + out.host;
  }

 private:
  /// Costs of one layer.
  struct kind_costs {
    pass_costs pass;
    layer_passes forward;
    parameter_share parameters;
  };

  chunk_costs of_chunk(const chunk_outline& x, std::size_t index) const {
    chunk_costs out;
    const double table = model_.vocabulary * model_.hidden / step_.tensor;
    if (x.embedding) {
      out.pass += layers_.of_embedding();
      out.parameters.dense += table + model_.positions * model_.hidden;
    }
    for (int layer = x.first; layer < x.end; ++layer) {
      const auto number = std::size_t(model_.layers[std::size_t(layer)]);
      const auto& kind = kinds_[number];
      const bool has_experts = model_.kinds[number].dispatched > 0;
      out.pass += kind.pass;
      out.again += recomputed(kind.forward, has_experts, step_.recompute, layer - x.first);
      out.parameters.dense += kind.parameters.dense;
      out.parameters.experts += kind.parameters.experts;
    }
    if (x.head) {
      out.pass += layers_.of_head();
      if (!model_.tied || !x.embedding)
        out.parameters.dense += table;
    }
    if (step_.pipeline > 1) {
      const double seen
          = visible(transfer_, step_.overlap_handoffs, transfer_) + by_.handoff_seconds;
      out.pass.forward.handoffs += index + 1 < step_.chunks.size() ? seen : 0;
      out.pass.inputs.handoffs += index > 0 ? seen : 0;
    }
    return out;
  }

  double visible(double seconds, bool overlaps, double beside) const {
    return overlaps ? seconds - by_.hidden_share * std::min(seconds, beside) : seconds;
  }

  step_forecast tail_of(const std::vector<std::size_t>& hosted) const {
    step_forecast out;
    parameter_share all;
    double forward = 0, backward = 0;
    bool has_tie = false;
    for (const auto c : hosted) {
      all.dense += chunks_[c].parameters.dense;
      all.experts += chunks_[c].parameters.experts;
      forward += chunks_[c].pass.forward.all();
      backward += chunks_[c].backward();
      has_tie |= model_.tied && step_.chunks[c].embedding != step_.chunks[c].head;
    }
    // A chunk's sums begin after its last micro-batch, so those of later chunks have more time.
    const double v = double(hosted.size());
    const double rounds = std::max(1.0, step_.pipeline * (v - 1) / v);
    const bool shards = step_.distributed_optimizer;
    const auto summed = [&](double parameters, group_span among) {
      const double bytes = parameters * step_.gradient_bytes;
      return shards ? links_.all_gather(bytes, among) : links_.all_reduce(bytes, among);
    };
    const auto parts = [&](group_span among) { return shards ? double(among.size) : 1.0; };
    out.gradients
        = visible(summed(all.dense, spans_.data) + summed(all.experts, spans_.expert_data),
                  step_.overlap_gradients,
                  backward * rounds);
    if (has_tie && step_.pipeline > 1)
      out.gradients += links_.all_reduce(
          model_.vocabulary * model_.hidden / step_.tensor * step_.gradient_bytes,
          {.size = 2, .hosts = spans_.far_stages ? 2 : 1, .local = spans_.far_stages ? 1 : 2});
    const double updated = all.dense / parts(spans_.data) + all.experts / parts(spans_.expert_data);
    out.update = layers_.memory(updated * (update_bytes + share_.element + step_.gradient_bytes)
                                + (all.dense + all.experts) * 2 * step_.gradient_bytes);
    if (shards)
      out.gather
          = visible(links_.all_gather(all.dense * share_.element, spans_.data)
                        + links_.all_gather(all.experts * share_.element, spans_.expert_data),
                    step_.overlap_parameters,
                    forward * rounds);
    return out;
  }

  const model_outline& model_;
  const step_outline& step_;
  forecast_assumptions by_;
  step_spans spans_;
  rank_share share_;
  layer_costs layers_;
  collective_costs links_;
  double transfer_ = 0;
  std::vector<kind_costs> kinds_;
  std::vector<chunk_costs> chunks_;
};

void require_devices(const step_outline& step, const cluster_outline& on) {
  if (step.world > on.devices())
    throw input_error(
        "`layout.world` is {}, but the cluster '{}' has {} with {} each: use fewer workers, or "
        "describe more hosts",
        step.world,
        on.name,
        counted(on.hosts, "host"),
        counted(on.devices_per_host, "device"));
  if (step.fp8 && !on.device.fp8)
    throw input_error(
        "products in FP8 were asked for, but the cluster '{}' gives its device no rate for them: "
        "add `device.fp8`, or leave them out",
        on.name);
}

}  // namespace

step_spans spans_of(const step_outline& step, int devices_per_host) {
  const auto dense = make_mesh(step.world, step.tensor, step.context, step.pipeline, step.order);
  const auto experts = fold_experts(dense, step.expert, step.expert_tensor);
  const auto of = [&](const mesh& view, axis_set a) { return widest(view, a, devices_per_host); };
  return {.tensor = of(dense, axis::tensor),
          .context = of(dense, axis::context),
          .data = of(dense, {axis::context, axis::data}),
          .expert = of(experts, axis::expert),
          .expert_tensor = of(experts, axis::expert_tensor),
          .expert_data = of(experts, axis::expert_data),
          .far_stages = of(dense, axis::pipeline).hosts > 1};
}

std::vector<chunk_outline> even_chunks(int layers, int chunks) {
  const bool counts_ends = layers % chunks != 0;
  const int units = layers + (counts_ends ? 2 : 0);
  std::vector<chunk_outline> out;
  int at = 0;
  for (int c = 0; c < chunks; ++c) {
    int size = units / chunks + (c < units % chunks ? 1 : 0);
    if (counts_ends && (c == 0 || c == chunks - 1))
      size = std::max(0, size - (chunks == 1 ? 2 : 1));
    const int end = c == chunks - 1 ? layers : std::min(layers, at + size);
    out.push_back({at, end, c == 0, c == chunks - 1});
    at = end;
  }
  return out;
}

step_forecast forecast_step(const model_outline& model,
                            const step_outline& step,
                            const cluster_outline& on,
                            const plan& plan,
                            const forecast_assumptions& by) {
  require_devices(step, on);
  const pipeline_costs costs(model, step, on, spans_of(step, on.devices_per_host), by);
  cost_model simulated{.costs = {}, .transfer = costs.transfer()};
  for (std::size_t c = 0; c < costs.chunks().size(); ++c) {
    const auto& chunk = costs.chunks()[c];
    const double again = chunk.again.all();
    // Without an R in the plan, I computes again.
    const bool in_plan = c < plan.blocks.size() && std::ranges::count(plan.blocks[c], char(1)) > 0;
    simulated.costs.push_back({.forward = chunk.pass.forward.all(),
                               .input_gradients = chunk.pass.inputs.all() + (in_plan ? 0 : again),
                               .weight_gradients = chunk.pass.parameters.all(),
                               .recompute = in_plan ? again : 0});
  }
  const auto seen = simulate(plan, simulated);
  std::vector<std::vector<std::size_t>> hosted(plan.ranks.size());
  std::vector<step_parts> busy(plan.ranks.size());
  for (int copy = 0; copy < plan.copies; ++copy)
    for (std::size_t c = 0; c < costs.chunks().size(); ++c) {
      const auto rank = std::size_t(plan.rank_of(chunk_id(c), copy_id(copy)));
      hosted[rank].push_back(c);
      busy[rank] += costs.chunks()[c].parts() * plan.microbatches_each();
    }
  step_forecast out;
  out.passes = *std::ranges::max_element(busy, {}, &step_parts::all);
  out.bubble = std::max(0.0, seen.makespan - out.passes.all());
  costs.finish(out, hosted);
  return out;
}

step_forecast estimate_step(const model_outline& model,
                            const step_outline& step,
                            const cluster_outline& on,
                            const forecast_assumptions& by,
                            const std::optional<step_spans>& spans) {
  require_devices(step, on);
  const pipeline_costs costs(
      model, step, on, spans ? *spans : spans_of(step, on.devices_per_host), by);
  const auto p = std::size_t(step.pipeline);
  const double v = double(step.chunks.size()) / double(p);
  std::vector<std::vector<std::size_t>> hosted(p);
  std::vector<step_parts> busy(p);
  for (std::size_t c = 0; c < costs.chunks().size(); ++c) {
    hosted[c % p].push_back(c);
    busy[c % p] += costs.chunks()[c].parts();
  }
  step_forecast out;
  const auto slowest = *std::ranges::max_element(busy, {}, &step_parts::all);
  out.passes = slowest * step.microbatches();
  out.bubble = (slowest.all() / v + 2 * costs.transfer()) * double(p - 1);
  costs.finish(out, hosted);
  return out;
}

}  // namespace troupe::runtime
