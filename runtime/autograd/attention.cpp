#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

std::int64_t heads_a_group(const attention_options& how) {
  return how.heads / how.groups;
}

std::int64_t group_width(const attention_options& how) {
  return (heads_a_group(how) + 2) * how.head_size;
}

/// Where the keys of a group begin.
std::int64_t key_offset(const attention_options& how) {
  return heads_a_group(how) * how.head_size;
}

template <class T>
void rotate(
    stream& on, tensor& qkv, const attention_options& how, const tensor& positions, bool backward) {
  if (how.rotated == 0)
    return;
  ensure(how.rotary_frequency.size() * 2 == how.rotated && how.rotary_frequency,
         "ATTENTION-2: what turns has a frequency for each pair");
  const auto width = group_width(how);
  on.run(kernels::rope<T>{.x = qkv.data<T>(),
                          .position = positions.data<std::int32_t>(),
                          .frequency = how.rotary_frequency.data<float>(),
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

/// What is going to be changed in place: the product itself, or a copy where others look at it.
tensor own(stream& on, const tensor& x, bool shared) {
  if (!shared)
    return x;
  return copy_of(on, x);
}

kernels::attention_shape fused_shape(const tape& on,
                                     const attention_options& how,
                                     const row_layout& rows) {
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
          .window = how.window,
          .p_drop = how.dropout,
          .key = how.key,
          .sample = rows.samples.data<std::uint64_t>(),
          .first_head = on.rank() * how.heads,
          .query_rows = rows.order.size(),
          .key_rows = rows.order.size(),
          .longest_query = rows.T(),
          .longest_key = rows.T(),
          .uniform = rows.uniform};
}

template <class T>
struct attention_node final : node {
  tensor qkv;  ///< rotated
  tensor o;
  tensor lse;  ///< (R, H)
  std::shared_ptr<gradient_slot> dqkv, dy;
  attention_options how;
  row_layout rows;

  void input_gradients(tape& on) override {
    const auto grad = std::move(dy->sum);
    auto part = tensor::empty<T>(on.on(), qkv.extents());
    const auto k = key_offset(how), v = k + how.head_size;
    T* const to = part.template data<T>();
    on.on().run(kernels::attention_backward<T>{to,
                                               to + k,
                                               to + v,
                                               grad.data<T>(),
                                               o.data<T>(),
                                               lse.data<float>(),
                                               qkv.data<T>(),
                                               qkv.data<T>() + k,
                                               qkv.data<T>() + v,
                                               fused_shape(on, how, rows)});
    rotate<T>(on.on(), part, how, rows.order, true);
    qkv = o = lse = {};
    on.add(*dqkv, std::move(part));
  }
};

tensor output_of(stream& on, const tensor& qkv, const attention_options& how) {
  const auto extents = with_channels(qkv.extents(), how.heads * how.head_size);
  return {on.allocate(std::size_t(extents.size()) * size_of(qkv.type())), qkv.type(), extents};
}

template <class T>
variable run_attention(tape& on,
                       variable qkv,
                       const attention_options& how,
                       const row_layout& rows) {
  // A variable that is kept for recomputation is looked at again.
  auto product = own(on.on(), qkv.data, how.rotated > 0 && qkv.kept);
  qkv.data = {};
  rotate<T>(on.on(), product, how, rows.order, false);
  auto o = output_of(on.on(), product, how);
  auto lse = tensor::empty<float>(on.on(), {rows.order.size(), how.heads});
  const T* const at = product.data<T>();
  const auto k = key_offset(how);
  on.on().run(kernels::attention_forward<T>{o.data<T>(),
                                            lse.data<float>(),
                                            at,
                                            at + k,
                                            at + k + how.head_size,
                                            fused_shape(on, how, rows)});
  auto result = on.make(o, spread::features);
  if (on.recording()) {
    auto n = std::make_unique<attention_node<T>>();
    n->qkv = std::move(product);
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

template <class T>
variable run_cached(tape& on,
                    variable qkv,
                    const attention_options& how,
                    const row_layout& rows,
                    attention_cache& cache) {
  rotate<T>(on.on(), qkv.data, how, rows.order, false);
  const auto q = key_offset(how), pair = 2 * how.head_size;
  const auto width = group_width(how);
  on.on().run(kernels::cache_rows<T>{.entries = cache.entries.data<T>(),
                                     .positions = cache.positions.data<std::int32_t>(),
                                     .kv = qkv.data.data<T>() + q,
                                     .position = rows.order.data<std::int32_t>(),
                                     .at = cache.rows.data<std::int32_t>(),
                                     .R = cache.rows.size(),
                                     .G = how.groups,
                                     .width = pair,
                                     .row = how.groups * width,
                                     .group = width});
  auto at = fused_shape(on, how, rows);
  at.key_starts = cache.starts.data<std::int32_t>();
  at.key_position = cache.positions.data<std::int32_t>();
  at.key_row = how.groups * pair;
  at.key_group = pair;
  at.key_rows = cache.positions.size();
  at.longest_key = at.key_rows / at.S;
  auto o = output_of(on.on(), qkv.data, how);
  auto lse = tensor::empty<float>(on.on(), {rows.order.size(), how.heads});
  const T* const kept = cache.entries.data<T>();
  on.on().run(kernels::attention_forward<T>{
      o.data<T>(), lse.data<float>(), qkv.data.data<T>(), kept, kept + how.head_size, at});
  return on.make(std::move(o), spread::features);
}

}  // namespace

variable self_attention(tape& on,
                        variable qkv,
                        const attention_options& how,
                        const row_layout& rows) {
  require_spread(qkv, spread::features, "self_attention");
  return with_element(on.type(),
                      [&]<class T>(T) { return run_attention<T>(on, std::move(qkv), how, rows); });
}

variable cached_attention(tape& on,
                          variable qkv,
                          const attention_options& how,
                          const row_layout& rows,
                          attention_cache& cache) {
  ensure(!on.recording(), "CACHE-1: decoding has no way back");
  require_spread(qkv, spread::features, "cached_attention");
  return with_element(
      on.type(), [&]<class T>(T) { return run_cached<T>(on, std::move(qkv), how, rows, cache); });
}

}  // namespace troupe::runtime
