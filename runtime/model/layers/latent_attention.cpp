#include "runtime/model/layers/latent_attention.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/layers/attention.hpp"
#include "runtime/model/layers/linear.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

attention_options options_of(const module_builder& to, const latent_attention_spec& x) {
  const auto heads = x.heads / to.tensor_ranks();
  return {.heads = heads,
          .groups = heads,
          .head_size = x.head_size(),
          .value_size = x.value_size,
          .scale = float(x.scale == 0 ? 1 / std::sqrt(double(x.head_size())) : x.scale),
          .rotated = x.rotated,
          .rotated_from = x.own_size,
          .rotary_magnitude = float(x.rotary_magnitude),
          .rotary_interleaved = x.rotary_interleaved};
}

linear_layer add_down(module_builder& to,
                      const latent_attention_spec& x,
                      const std::string& name,
                      std::int64_t outputs) {
  return add_linear(to,
                    {.name = name,
                     .outputs = outputs,
                     .inputs = x.hidden,
                     .init_std = x.init_std,
                     .placement = {}});
}

linear_layer add_up(module_builder& to,
                    const latent_attention_spec& x,
                    const std::string& name,
                    std::int64_t head,
                    std::int64_t inputs) {
  return add_linear(to,
                    {.name = name,
                     .outputs = x.heads * head,
                     .inputs = inputs,
                     .init_std = x.init_std,
                     .placement = row_sharded()});
}

/// linear_layer::operator() for an input that is already in the tensor region.
variable product_of(tape& tape, const variable& x, const linear_layer& by) {
  return linear(tape, x, by.kind, by.features, by.weight, by.bias);
}

}  // namespace

int add(module_builder& to, const latent_attention_spec& x) {
  ensure(x.heads % to.tensor_ranks() == 0, "LAYER-1: tensor ranks divide heads");
  const bool low_rank = x.q_rank > 0;
  linear_layer q_down;
  norm_layer q_norm;
  if (low_rank) {
    q_down = add_down(to, x, "linear_q_down_proj", x.q_rank);
    q_norm = add_norm(to, {"q_layernorm", x.norm}, x.q_rank);
  }
  const auto q_up = low_rank ? add_up(to, x, "linear_q_up_proj", x.head_size(), x.q_rank)
                             : add_up(to, x, "linear_q_proj", x.head_size(), x.hidden);
  const auto down = add_down(to, x, "linear_kv_down_proj", x.kv_rank + x.rotated);
  const auto norm = add_norm(to, {"kv_layernorm", x.norm}, x.kv_rank);
  const auto up = add_up(to, x, "linear_kv_up_proj", x.own_size + x.value_size, x.kv_rank);
  const auto proj = add_linear(to,
                               {.name = "linear_proj",
                                .outputs = x.hidden,
                                .inputs = x.heads * x.value_size,
                                .init_std = x.output_init_std,
                                .placement = column_sharded()});
  const auto options = options_of(to, x);
  const auto absorbs
      = [latents = x.caches_latents](const pass& p) { return latents && p.caches != nullptr; };
  const std::vector<std::int64_t> of_kv{x.kv_rank, x.rotated};
  auto widths = of_kv;
  if (low_rank)
    widths.insert(widths.begin(), x.q_rank);
  to.segment("down", [=](tape& tape, pass& p) {
    const auto from = std::exchange(p.x, {});
    std::vector<variable> parts;
    if (low_rank)
      parts.push_back(q_norm(tape, q_down(tape, from)));
    else
      p.locals["q"] = q_up(tape, from);  // begins with its collective
    const auto kv = split_channels(tape, down(tape, from), of_kv);
    parts.push_back(norm(tape, kv[0]));
    parts.push_back(kv[1]);
    p.x = join_channels(tape, parts);
  });
  to.segment("qkv", [=](tape& tape, pass& p) {
    const auto parts
        = split_channels(tape, copy_to_tensor_region(tape, std::exchange(p.x, {})), widths);
    const auto q = low_rank ? product_of(tape, parts[0], q_up) : p.take("q");
    const auto &latent = parts[parts.size() - 2], &shared = parts.back();
    p.x = absorbs(p) ? absorbed_qkv(tape, q, latent, shared, up.weight, options)
                     : latent_qkv(tape, q, product_of(tape, latent, up), shared, options);
  });
  add_core_attention(
      to, options, x.caches_latents ? absorbed(options, x.kv_rank) : options, x.dropout);
  to.segment("proj", [=](tape& tape, pass& p) {
    if (absorbs(p))
      p.x = absorbed_output(tape, p.x, up.weight, options);
    p.x = proj(tape, p.x);
  });
  return proj.late_bias;
}

module_traits traits_of(const latent_attention_spec& x) {
  return {.width = x.hidden};
}

module_flops forward_flops(const latent_attention_spec& x, std::int64_t T) {
  const auto rows = double(T), D = double(x.head_size()), Dv = double(x.value_size);
  const auto C = double(x.hidden), H = double(x.heads);
  const auto q_rank = double(x.q_rank), kv_rank = double(x.kv_rank);
  const auto queries = x.q_rank == 0 ? C * H * D : q_rank * (C + H * D);
  const auto keys = C * (kv_rank + double(x.rotated)) + kv_rank * H * (double(x.own_size) + Dv);
  return {.parameters = 2 * rows * (queries + keys + H * Dv * C),
          .activations = 2 * H * (D + Dv) * rows * rows / 2};
}

}  // namespace troupe::runtime
