#include "runtime/autograd/ops.hpp"

#include <cstring>
#include <utility>

namespace troupe::runtime {
namespace {

std::int64_t heads_a_group(const attention_options& how) {
  return how.heads / how.groups;
}

std::int64_t group_width(const attention_options& how) {
  return (heads_a_group(how) + 2) * how.head_size;
}

void rotate(
    stream& on, tensor& qkv, const attention_options& how, const tensor& positions, bool backward) {
  if (how.rotary_frequency == nullptr)
    return;
  const auto width = group_width(how);
  on.run(kernels::rope<float>{.x = qkv.data<float>(),
                              .position = positions.data<std::int32_t>(),
                              .frequency = how.rotary_frequency,
                              .R = positions.size(),
                              .G = how.groups,
                              .heads = heads_a_group(how) + 1,
                              .D = how.head_size,
                              .rotated = how.rotated,
                              .row = how.groups * width,
                              .group = width,
                              .interleaved = how.rotary_interleaved,
                              .backward = backward});
}

kernels::attention_shape fused_shape(const attention_options& how, const row_layout& rows) {
  const auto width = group_width(how);
  return {.query_starts = rows.starts.data<std::int32_t>(),
          .key_starts = rows.starts.data<std::int32_t>(),
          .query_position = rows.order.data<std::int32_t>(),
          .key_position = rows.order.data<std::int32_t>(),
          .S = rows.starts.size() - 1,
          .H = how.heads,
          .G = how.groups,
          .D = how.head_size,
          .query_row = how.groups * width,
          .query_group = width,
          .key_row = how.groups * width,
          .key_group = width,
          .scale = how.scale,
          .causal = true,
          .p_drop = how.dropout,
          .key = how.key,
          .sample = rows.samples.data<std::uint64_t>()};
}

struct attention_node final : node {
  tensor qkv;  ///< rotated
  tensor o;
  tensor lse;  ///< (R, H)
  std::shared_ptr<gradient_slot> dqkv, dy;
  attention_options how;
  row_layout rows;

  void input_gradients(tape& on) override {
    const auto grad = std::move(dy->sum);
    auto part = tensor::empty<float>(on.on(), qkv.extents());
    const auto q = heads_a_group(how) * how.head_size;
    on.on().run(kernels::attention_backward<float>{part.data<float>(),
                                                   part.data<float>() + q,
                                                   part.data<float>() + q + how.head_size,
                                                   grad.data<float>(),
                                                   o.data<float>(),
                                                   lse.data<float>(),
                                                   qkv.data<float>(),
                                                   qkv.data<float>() + q,
                                                   qkv.data<float>() + q + how.head_size,
                                                   fused_shape(how, rows)});
    rotate(on.on(), part, how, rows.order, true);
    qkv = o = lse = {};
    on.add(*dqkv, std::move(part));
  }
};

tensor output_like(stream& on, const tensor& qkv, const attention_options& how) {
  const auto& in = qkv.extents();
  return tensor::empty<float>(on, {in[0], in[1], how.heads * how.head_size});
}

}  // namespace

variable self_attention(tape& on,
                        variable qkv,
                        const attention_options& how,
                        const row_layout& rows) {
  rotate(on.on(), qkv.data, how, rows.order, false);
  auto o = output_like(on.on(), qkv.data, how);
  auto lse = tensor::empty<float>(on.on(), {rows.order.size(), how.heads});
  const auto q = heads_a_group(how) * how.head_size;
  const float* const at = qkv.data.data<float>();
  on.on().run(kernels::attention_forward<float>{o.data<float>(),
                                                lse.data<float>(),
                                                at,
                                                at + q,
                                                at + q + how.head_size,
                                                fused_shape(how, rows)});
  auto result = on.make(o);
  if (on.recording()) {
    auto n = std::make_unique<attention_node>();
    n->qkv = std::move(qkv.data);
    n->o = std::move(o);
    n->lse = std::move(lse);
    n->dqkv = std::move(qkv.gradient);
    n->dy = result.gradient;
    n->how = how;
    n->rows = rows;
    on.record(std::move(n));
  }
  return result;
}

variable cached_attention(tape& on,
                          variable qkv,
                          const attention_options& how,
                          const row_layout& rows,
                          attention_cache& cache) {
  ensure(!on.recording(), "CACHE-1: decoding has no way back");
  rotate(on.on(), qkv.data, how, rows.order, false);
  const auto q = heads_a_group(how) * how.head_size, pair = 2 * how.head_size;
  const auto width = group_width(how);
  const auto new_rows = cache.rows.elements<std::int32_t>();
  for (std::size_t r = 0; r < new_rows.size(); ++r) {
    cache.positions.data<std::int32_t>()[new_rows[r]] = rows.order.data<std::int32_t>()[r];
    for (std::int64_t g = 0; g < how.groups; ++g)
      std::memcpy(cache.entries.data<float>() + (new_rows[r] * how.groups + g) * pair,
                  qkv.data.data<float>() + (std::int64_t(r) * how.groups + g) * width + q,
                  std::size_t(pair) * sizeof(float));
  }
  auto at = fused_shape(how, rows);
  at.key_starts = cache.starts.data<std::int32_t>();
  at.key_position = cache.positions.data<std::int32_t>();
  at.key_row = how.groups * pair;
  at.key_group = pair;
  auto o = output_like(on.on(), qkv.data, how);
  auto lse = tensor::empty<float>(on.on(), {rows.order.size(), how.heads});
  const float* const kept = cache.entries.data<float>();
  on.on().run(kernels::attention_forward<float>{
      o.data<float>(), lse.data<float>(), qkv.data.data<float>(), kept, kept + how.head_size, at});
  return on.make(std::move(o));
}

}  // namespace troupe::runtime
