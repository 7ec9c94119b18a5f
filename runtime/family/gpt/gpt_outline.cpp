#include "runtime/family/gpt/gpt_estimates.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Keys that a query sees, on average: half of the sequence, or at most the window.
double mean_keys(const gpt_config& m) {
  const double T = double(m.sequence), back = std::min(double(m.window), T - 1);
  return m.window < 0 ? T / 2 : std::min(T / 2, back + 1 - back * (back + 1) / (2 * T));
}

void add_attention(layer_outline& to, const gpt_config& m) {
  const double C = double(m.hidden), H = double(m.heads);
  double queries = H * double(m.head_size), values = queries;
  to.keys_and_values = 2 * double(m.groups * m.head_size);
  if (m.has_latents()) {
    const auto& x = m.latent;
    const double own = double(x.own_size), rotated = double(x.rotated);
    const double q_rank = double(x.q_rank), kv_rank = double(x.kv_rank);
    queries = H * (own + rotated);
    values = H * double(x.value_size);
    to.keys_and_values = queries + values;
    if (q_rank > 0) {
      to.products.push_back({C, q_rank, product_split::none});
      to.products.push_back({q_rank, queries});
    } else {
      to.products.push_back({C, queries});
    }
    to.products.push_back({C, kv_rank + rotated, product_split::none});
    to.products.push_back({kv_rank, H * own + values});
    to.inside = {4 * queries, 4 * queries};  // the parts of queries and keys are joined
    to.kept += 2 * queries + 2 * values;
    to.kept_stream += q_rank + kv_rank;
  } else {
    const double keys = double(m.groups * m.head_size);
    to.products.push_back({C, queries + 2 * keys});
    if (m.position == position_embedding::rope)
      to.inside = {2 * (queries + keys), 2 * (queries + keys)};
    to.kept += 2 * queries + 2 * keys;
  }
  to.products.push_back({values, C, product_split::rows});
  to.attention_products = int(to.products.size());
  to.score_width = queries + values;
  to.heads = H;
  to.keys = mean_keys(m);
}

traffic_outline& operator+=(traffic_outline& to, traffic_outline x) {
  to.forward += x.forward;
  to.backward += x.backward;
  return to;
}

/// Cost of an activation between two products with F channels: forward and backward kernel.
traffic_outline activation_traffic(const gpt_config& m, double F) {
  return m.gated ? traffic_outline{3 * F, 5 * F} : traffic_outline{2 * F, 3 * F};
}

void add_feed_forward(layer_outline& to, const gpt_config& m, double F) {
  const double C = double(m.hidden), fan = double(kernels::fan_in(m.gated));
  to.products.push_back({C, fan * F});
  to.products.push_back({F, C, product_split::rows});
  to.inside += activation_traffic(m, F);
  to.kept += (fan + 1) * F;
}

void add_experts(layer_outline& to, const gpt_config& m) {
  const auto& x = m.experts;
  const double C = double(m.hidden), fan = double(kernels::fan_in(m.gated));
  const double E = double(x.number), k = double(x.chosen), F = double(x.ffn);
  const double width = x.latent > 0 ? double(x.latent) : C;
  to.products.push_back({C, E, product_split::none});
  if (x.latent > 0) {
    to.products.push_back({C, width, product_split::none});
    to.products.push_back({width, C, product_split::none});
  }
  to.products.push_back({width, fan * F, product_split::expert_columns, E, k});
  to.products.push_back({F, width, product_split::expert_rows, E, k});
  const auto activation = activation_traffic(m, F);
  // Rows are ordered by expert before they travel and after, and brought back in two steps.
  const double moves = 8 * width;
  to.routed = {k * (activation.forward + moves), k * (activation.backward + moves)};
  to.dispatched = k * width;
  to.kept_routed = k * (width + (fan + 1) * F);
  if (x.shared_ffn > 0)
    add_feed_forward(to, m, double(x.shared_ffn));
}

layer_outline layer_of(const gpt_config& m, bool with_experts) {
  const double C = double(m.hidden), masks = m.hidden_dropout > 0 ? 1 : 0;
  layer_outline out;
  add_attention(out, m);
  if (with_experts)
    add_experts(out, m);
  else
    add_feed_forward(out, m, double(m.ffn));
  // Two norms read and write a row; two sums read two rows and write one, with a mask of bytes.
  out.stream = {(4 + 6 + masks) * C, (8 + (masks > 0 ? 5 : 2)) * C};
  out.kept_stream += (4 + masks) * C;
  out.vectors = 4 * C;
  return out;
}

}  // namespace

model_outline gpt_outline(const gpt_config& m) {
  model_outline out{.hidden = double(m.hidden),
                    .sequence = double(m.sequence),
                    .vocabulary = double(m.padded_vocabulary),
                    .tied = m.tied_embeddings,
                    .drops = m.hidden_dropout > 0 || m.attention_dropout > 0};
  if (m.position == position_embedding::learned_absolute)
    out.positions = double(m.positions);
  const auto experts = m.expert_layers();
  out.kinds = {layer_of(m, false)};
  if (m.has_experts())
    out.kinds.push_back(layer_of(m, true));
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    out.layers.push_back(m.has_experts() && experts[std::size_t(layer)] ? 1 : 0);
  return out;
}

}  // namespace troupe::runtime
