#include "kernels/op/attention.hpp"

#include "kernels/op/rope.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
void rotate(stream& stream,
            tensor& qkv,
            const attention_options& options,
            const tensor& positions,
            bool backward) {
  if (options.rotated == 0)
    return;
  ensure(options.rotary_frequency.size() * 2 == options.rotated && options.rotary_frequency,
         "ATTENTION-2: rotated channels have a frequency for each pair");
  const auto width = options.group_width();
  stream.run(kernels::rope<T>{.x = qkv.data<T>() + options.rotated_from,
                              .position = positions.data<std::int32_t>(),
                              .frequency = options.rotary_frequency.data<float>(),
                              .R = positions.size(),
                              .G = options.groups,
                              .heads = options.heads / options.groups + 1,
                              .D = options.head_size,
                              .rotated = options.rotated,
                              .row = options.groups * width,
                              .group = width,
                              .interleaved = options.rotary_interleaved,
                              .backward = backward,
                              .magnitude = options.rotary_magnitude});
}

/// Memory that may be changed in place: the product itself, or a copy if it is shared.
tensor writable(stream& stream, const tensor& x, bool shared) {
  if (!shared)
    return x;
  return copy_of(stream, x);
}

kernels::attention_shape fused_shape(const tape& tape,
                                     const attention_options& options,
                                     const row_layout& rows) {
  const auto width = options.group_width();
  const auto& starts = rows.documents ? rows.documents : rows.starts;
  const auto& samples = rows.documents ? rows.document_samples : rows.samples;
  return {.query_starts = starts.data<std::int32_t>(),
          .key_starts = starts.data<std::int32_t>(),
          .query_position = rows.order.data<std::int32_t>(),
          .key_position = rows.order.data<std::int32_t>(),
          .S = starts.size() - 1,
          .H = options.heads,
          .G = options.groups,
          .D = options.head_size,
          .Dv = options.values(),
          .query_row = options.groups * width,
          .query_group = width,
          .key_row = options.groups * width,
          .key_group = width,
          .value_row = options.groups * width,
          .value_group = width,
          .scale = options.scale,
          .causal = true,
          .window = options.window,
          .p_drop = options.dropout,
          .key = options.key,
          .sample = samples.data<std::uint64_t>(),
          .first_head = tape.rank() * options.heads,
          .query_rows = rows.order.size(),
          .key_rows = rows.order.size(),
          .longest_query = rows.T(),
          .longest_key = rows.T(),
          .uniform = rows.uniform,
          .same_bits = options.same_bits};
}

template <class T>
struct attention_node final : node {
  tensor qkv;  ///< rotated
  tensor o;
  tensor lse;  ///< one (H, rows) block per sequence
  std::shared_ptr<gradient_slot> dqkv, dy;
  attention_options options;
  row_layout rows;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    auto part = tensor::empty<T>(tape.stream(), qkv.extents());
    const auto k = options.key_place(), v = k + options.head_size;
    T* const to = part.template data<T>();
    tape.stream().run(kernels::attention_backward<T>{to,
                                                     to + k,
                                                     to + v,
                                                     grad.data<T>(),
                                                     o.data<T>(),
                                                     lse.data<float>(),
                                                     qkv.data<T>(),
                                                     qkv.data<T>() + k,
                                                     qkv.data<T>() + v,
                                                     fused_shape(tape, options, rows)});
    rotate<T>(tape.stream(), part, options, rows.order, true);
    qkv = o = lse = {};
    tape.add(*dqkv, std::move(part));
  }
};

tensor output_of(stream& stream, const tensor& qkv, const attention_options& options) {
  const auto extents = with_channels(qkv.extents(), options.heads * options.values());
  return {stream.allocate(std::size_t(extents.size()) * size_of(qkv.type())), qkv.type(), extents};
}

template <class T>
variable run_attention(tape& tape,
                       variable qkv,
                       const attention_options& options,
                       const row_layout& rows) {
  // A variable that is kept for recomputation is read again.
  auto product = writable(tape.stream(), qkv.data, options.rotated > 0 && qkv.kept);
  qkv.data = {};
  rotate<T>(tape.stream(), product, options, rows.order, false);
  auto o = output_of(tape.stream(), product, options);
  auto lse = tensor::empty<float>(tape.stream(), {options.heads, rows.order.size()});
  const T* const at = product.data<T>();
  const auto k = options.key_place();
  tape.stream().run(kernels::attention_forward<T>{o.data<T>(),
                                                  lse.data<float>(),
                                                  at,
                                                  at + k,
                                                  at + k + options.head_size,
                                                  fused_shape(tape, options, rows)});
  auto result = tape.make(o, qkv.placements);
  if (tape.recording()) {
    auto n = std::make_unique<attention_node<T>>();
    n->qkv = std::move(product);
    n->o = std::move(o);
    n->lse = std::move(lse);
    n->dqkv = std::move(qkv.gradient);
    n->dy = result.gradient;
    n->options = options;
    n->rows = rows;
    tape.record(std::move(n));
  }
  return result;
}

template <class T>
variable run_cached(tape& tape,
                    variable qkv,
                    const attention_options& options,
                    const row_layout& rows,
                    attention_cache& cache) {
  rotate<T>(tape.stream(), qkv.data, options, rows.order, false);
  const auto pair = options.pair_width();
  const auto width = options.group_width();
  tape.stream().run(kernels::cache_rows<T>{.entries = cache.entries.data<T>(),
                                           .positions = cache.positions.data<std::int32_t>(),
                                           .kv = qkv.data.data<T>() + options.key_place(),
                                           .position = rows.order.data<std::int32_t>(),
                                           .at = cache.rows.data<std::int32_t>(),
                                           .R = cache.rows.size(),
                                           .G = options.groups,
                                           .width = pair,
                                           .row = options.groups * width,
                                           .group = width});
  auto at = fused_shape(tape, options, rows);
  at.key_starts = cache.starts.data<std::int32_t>();
  at.key_position = cache.positions.data<std::int32_t>();
  at.key_row = at.value_row = options.groups * pair;
  at.key_group = at.value_group = pair;
  at.key_rows = cache.positions.size();
  at.longest_key = at.key_rows / at.S;
  auto o = output_of(tape.stream(), qkv.data, options);
  auto lse = tensor::empty<float>(tape.stream(), {options.heads, rows.order.size()});
  const T* const kept = cache.entries.data<T>();
  const T* const values = options.values_in_keys ? kept : kept + options.head_size;
  tape.stream().run(kernels::attention_forward<T>{
      o.data<T>(), lse.data<float>(), qkv.data.data<T>(), kept, values, at});
  return tape.make(std::move(o), qkv.placements);
}

}  // namespace

variable self_attention(tape& tape,
                        variable qkv,
                        const attention_options& options,
                        const row_layout& rows) {
  require_placement(qkv, placement::feature_sharded, "self_attention");
  ensure(!options.values_in_keys, "ATTENTION-3: values are parts of keys only in a cache");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_attention<T>(tape, std::move(qkv), options, rows);
  });
}

variable cached_attention(tape& tape,
                          variable qkv,
                          const attention_options& options,
                          const row_layout& rows,
                          attention_cache& cache) {
  ensure(!tape.recording(), "CACHE-1: decoding has no backward pass");
  require_placement(qkv, placement::feature_sharded, "cached_attention");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_cached<T>(tape, std::move(qkv), options, rows, cache);
  });
}

}  // namespace troupe::runtime
