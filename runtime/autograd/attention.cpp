#include "kernels/op/attention.hpp"

#include "kernels/op/relative_bias.hpp"
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

/// First rows of the sequences, or documents, that attention does not cross.
const tensor& borders(const row_layout& rows) {
  return rows.documents ? rows.documents : rows.starts;
}

/// The shape of an attention, without its strides.
kernels::attention_shape shape_of(tape& tape,
                                  const attention_options& options,
                                  const row_layout& queries,
                                  const row_layout& keys) {
  const auto& starts = borders(queries);
  ensure(starts.size() == borders(keys).size(),
         "ATTENTION-4: queries and keys have as many sequences");
  const auto& samples = queries.documents ? queries.document_samples : queries.samples;
  return {.query_starts = starts.data<std::int32_t>(),
          .key_starts = borders(keys).data<std::int32_t>(),
          .query_position = queries.order.data<std::int32_t>(),
          .key_position = keys.order.data<std::int32_t>(),
          .S = starts.size() - 1,
          .H = options.heads,
          .G = options.groups,
          .D = options.head_size,
          .Dv = options.values(),
          .scale = options.scale,
          .causal = options.causal,
          .window = options.window,
          .p_drop = options.dropout,
          .key = options.key,
          .sample = samples.data<std::uint64_t>(),
          .first_head = tape.rank() * options.heads,
          .query_rows = queries.order.size(),
          .key_rows = keys.order.size(),
          .longest_query = queries.T(),
          .longest_key = keys.T(),
          .uniform = queries.uniform && keys.uniform,
          .same_bits = options.same_bits,
          .row_invariant = tape.stream().row_invariant()};
}

kernels::attention_shape fused_shape(tape& tape,
                                     const attention_options& options,
                                     const row_layout& rows) {
  auto out = shape_of(tape, options, rows, rows);
  out.query_group = out.key_group = out.value_group = options.group_width();
  out.query_row = out.key_row = out.value_row = options.groups * options.group_width();
  return out;
}

void set_pair_strides(kernels::attention_shape& of, const attention_options& options) {
  of.key_group = of.value_group = options.pair_width();
  of.key_row = of.value_row = options.groups * options.pair_width();
}

kernels::attention_shape cross_shape(tape& tape,
                                     const attention_options& options,
                                     const row_layout& queries,
                                     const row_layout& keys) {
  auto out = shape_of(tape, options, queries, keys);
  out.query_group = options.key_place();
  out.query_row = options.groups * out.query_group;
  set_pair_strides(out, options);
  return out;
}

template <class T>
kernels::score_bias<T> values_of(const score_bias& bias) {
  const auto& values = bias.values.data;
  if (!values)
    return {};
  return {values.data<float>(), channels_of(values), bias.first};
}

/// Memory for the gradient of the biases; empty: they have none.
tensor slopes_of(tape& tape, const score_bias& bias) {
  return bias.values.gradient ? tensor::empty<float>(tape.stream(), bias.values.data.extents())
                              : tensor();
}

void add_slopes(tape& tape, const score_bias& bias, tensor slopes) {
  if (slopes)
    tape.add(*bias.values.gradient, std::move(slopes));
}

template <class T>
struct attention_node final : node {
  tensor qkv;  ///< rotated
  tensor o;
  tensor lse;  ///< one (H, rows) block per sequence
  std::shared_ptr<gradient_slot> dqkv, dy;
  attention_options options;
  row_layout rows;
  score_bias bias;

  void input_gradients(tape& tape) override {
    auto slopes = slopes_of(tape, bias);
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
                                                     fused_shape(tape, options, rows),
                                                     values_of<T>(bias),
                                                     slopes.data<float>()});
    rotate<T>(tape.stream(), part, options, rows.order, true);
    qkv = o = lse = {};
    tape.add(*dqkv, std::move(part));
    add_slopes(tape, bias, std::move(slopes));
    bias = {};
  }
};

template <class T>
struct cross_attention_node final : node {
  tensor q, kv, o;
  tensor lse;  ///< one (H, rows) block per sequence
  std::shared_ptr<gradient_slot> dq, dkv, dy;
  attention_options options;
  row_layout queries, keys;
  score_bias bias;

  void input_gradients(tape& tape) override {
    auto slopes = slopes_of(tape, bias);
    const auto grad = std::move(dy->sum);
    auto of_q = tensor::empty<T>(tape.stream(), q.extents());
    auto of_kv = tensor::empty<T>(tape.stream(), kv.extents());
    T* const to = of_kv.template data<T>();
    const auto v = options.head_size;
    tape.stream().run(kernels::attention_backward<T>{of_q.template data<T>(),
                                                     to,
                                                     to + v,
                                                     grad.data<T>(),
                                                     o.data<T>(),
                                                     lse.data<float>(),
                                                     q.data<T>(),
                                                     kv.data<T>(),
                                                     kv.data<T>() + v,
                                                     cross_shape(tape, options, queries, keys),
                                                     values_of<T>(bias),
                                                     slopes.data<float>()});
    q = kv = o = lse = {};
    tape.add(*dq, std::move(of_q));
    tape.add(*dkv, std::move(of_kv));
    add_slopes(tape, bias, std::move(slopes));
    bias = {};
  }
};

template <class T>
struct relative_bias_node final : node {
  tensor bucket;  ///< (count)
  shape extents;  ///< (buckets, H)
  std::shared_ptr<gradient_slot> dy;
  tensor grad;  ///< (H, count) between I and W
  int table;

  void input_gradients(tape&) override { grad = std::move(dy->sum); }

  void weight_gradients(tape& tape) override {
    const auto to = tape.place_of_gradient(table);
    tape.stream().run(kernels::relative_bias_backward<T>{.dtable = to.to,
                                                         .dbias = grad.data<float>(),
                                                         .bucket = bucket.data<std::int32_t>(),
                                                         .H = extents[1],
                                                         .count = bucket.size(),
                                                         .buckets = extents[0],
                                                         .accumulates = to.accumulates});
  }
};

tensor output_of(stream& stream, const tensor& queries, const attention_options& options) {
  const auto extents = with_channels(queries.extents(), options.heads * options.values());
  return {stream.allocate(std::size_t(extents.size()) * size_of(queries.type())),
          queries.type(),
          extents};
}

template <class T>
variable run_attention(tape& tape,
                       variable qkv,
                       const attention_options& options,
                       const row_layout& rows,
                       const score_bias& bias) {
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
                                                  fused_shape(tape, options, rows),
                                                  values_of<T>(bias)});
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
    n->bias = bias;
    tape.record(std::move(n));
  }
  return result;
}

template <class T>
variable run_cross(tape& tape,
                   const variable& q,
                   const variable& kv,
                   const attention_options& options,
                   const row_layout& queries,
                   const row_layout& keys,
                   const score_bias& bias) {
  auto o = output_of(tape.stream(), q.data, options);
  auto lse = tensor::empty<float>(tape.stream(), {options.heads, queries.order.size()});
  const T* const k = kv.data.data<T>();
  tape.stream().run(kernels::attention_forward<T>{o.data<T>(),
                                                  lse.data<float>(),
                                                  q.data.data<T>(),
                                                  k,
                                                  k + options.head_size,
                                                  cross_shape(tape, options, queries, keys),
                                                  values_of<T>(bias)});
  auto result = tape.make(o, q.placements);
  if (tape.recording()) {
    auto n = std::make_unique<cross_attention_node<T>>();
    n->q = q.data;
    n->kv = kv.data;
    n->o = std::move(o);
    n->lse = std::move(lse);
    n->dq = q.gradient;
    n->dkv = kv.gradient;
    n->dy = result.gradient;
    n->options = options;
    n->queries = queries;
    n->keys = keys;
    n->bias = bias;
    tape.record(std::move(n));
  }
  return result;
}

template <class T>
score_bias run_relative_bias(
    tape& tape, int table, shape extents, const tensor& bucket, std::int32_t first) {
  auto values = tensor::empty<float>(tape.stream(), {extents[1], bucket.size()});
  tape.stream().run(kernels::relative_bias_forward<T>{.bias = values.data<float>(),
                                                      .table = tape.value<T>(table),
                                                      .bucket = bucket.data<std::int32_t>(),
                                                      .H = extents[1],
                                                      .count = bucket.size(),
                                                      .buckets = extents[0]});
  score_bias out{tape.make(std::move(values), placement::feature_sharded), first};
  if (!tape.trains({table})) {
    out.values.gradient = nullptr;  // attention computes none
  } else if (tape.recording()) {
    auto n = std::make_unique<relative_bias_node<T>>();
    n->bucket = bucket;
    n->extents = extents;
    n->dy = out.values.gradient;
    n->table = table;
    tape.record(std::move(n));
  }
  return out;
}

template <class T>
variable run_cached(tape& tape,
                    variable qkv,
                    const attention_options& options,
                    const row_layout& rows,
                    attention_cache& cache,
                    const score_bias& bias) {
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
  auto queries = rows;
  if (!cache.pages)  // such a cache has no documents
    queries.documents = queries.document_samples = {};
  const auto& keys = cache.pages ? cache.order : cache.positions;
  auto at = fused_shape(tape, options, queries);
  ensure(cache.starts.size() == at.S + 1, "ATTENTION-4: queries and keys have as many sequences");
  at.key_starts = cache.starts.data<std::int32_t>();
  at.key_position = keys.data<std::int32_t>();
  set_pair_strides(at, options);
  at.key_rows = keys.size();
  at.longest_key = cache.capacity();
  at.pages = cache.pages.data<std::int32_t>();
  auto o = output_of(tape.stream(), qkv.data, options);
  auto lse = tensor::empty<float>(tape.stream(), {options.heads, rows.order.size()});
  const T* const kept = cache.entries.data<T>();
  const T* const values = options.values_in_keys ? kept : kept + options.head_size;
  tape.stream().run(kernels::attention_forward<T>{
      o.data<T>(), lse.data<float>(), qkv.data.data<T>(), kept, values, at, values_of<T>(bias)});
  return tape.make(std::move(o), qkv.placements);
}

void require_bias(const score_bias& bias, std::string_view by) {
  if (bias.values.data)
    require_placement(bias.values, placement::feature_sharded, by);
}

}  // namespace

score_bias relative_bias(
    tape& tape, int table, shape extents, const tensor& bucket, std::int32_t first) {
  return with_element(tape.type(), [&]<class T>(T) {
    return run_relative_bias<T>(tape, table, extents, bucket, first);
  });
}

variable self_attention(tape& tape,
                        variable qkv,
                        const attention_options& options,
                        const row_layout& rows,
                        const score_bias& bias) {
  require_placement(qkv, placement::feature_sharded, "self_attention");
  require_bias(bias, "self_attention");
  ensure(!options.values_in_keys, "ATTENTION-3: values are parts of keys only in a cache");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_attention<T>(tape, std::move(qkv), options, rows, bias);
  });
}

variable cross_attention(tape& tape,
                         const variable& q,
                         const variable& kv,
                         const attention_options& options,
                         const row_layout& queries,
                         const row_layout& keys,
                         const score_bias& bias) {
  require_placement(q, placement::feature_sharded, "cross_attention");
  require_placement(kv, placement::feature_sharded, "cross_attention");
  require_bias(bias, "cross_attention");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_cross<T>(tape, q, kv, options, queries, keys, bias);
  });
}

variable cached_attention(tape& tape,
                          variable qkv,
                          const attention_options& options,
                          const row_layout& rows,
                          attention_cache& cache,
                          const score_bias& bias) {
  ensure(!tape.recording(), "CACHE-1: decoding has no backward pass");
  require_placement(qkv, placement::feature_sharded, "cached_attention");
  require_bias(bias, "cached_attention");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_cached<T>(tape, std::move(qkv), options, rows, cache, bias);
  });
}

void fill_cross_cache(attention_cache& cache, const variable& kv, const row_layout& keys) {
  cache.entries = kv.data;
  cache.positions = keys.order;
  cache.starts = borders(keys);
}

variable cached_cross_attention(tape& tape,
                                const variable& q,
                                const attention_options& options,
                                const row_layout& queries,
                                const attention_cache& cache,
                                const score_bias& bias) {
  ensure(!tape.recording(), "CACHE-1: decoding has no backward pass");
  row_layout keys;
  keys.order = cache.positions;
  keys.starts = cache.starts;
  return cross_attention(
      tape, q, {.data = cache.entries, .placements = q.placements}, options, queries, keys, bias);
}

}  // namespace troupe::runtime
