#include "kernels/cudnn/attention_graph.hpp"

#include <limits>

namespace troupe::kernels::cudnn {

namespace {

using tensor = graph::tensor;

cudnnDataType_t narrow(const attention_problem& x) {
  return x.half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

layout queries(const attention_problem& x, const head_strides& by) {
  return {narrow(x), {x.B, x.H, x.T, x.D}, {by.batch, by.head, by.row, 1}};
}
layout keys(const attention_problem& x) {
  return {narrow(x), {x.B, x.G, x.S, x.D}, {x.k.batch, x.k.head, x.k.row, 1}};
}
layout transposed(layout of) {
  std::swap(of.extents[2], of.extents[3]);
  std::swap(of.strides[2], of.strides[3]);
  return of;
}
/// A launch may begin at any head of any row, so the alignment is one float.
layout row_sums(const attention_problem& x) {
  auto out = contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, 1});
  out.alignment = row_sum_alignment;
  return out;
}
layout scores(const attention_problem& x) {
  return contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, x.S});
}

/// Sets hidden scores to -infinity.
tensor masked(graph& on, const attention_problem& x, tensor s) {
  if (!x.causal)
    return s;
  const float hidden = -std::numeric_limits<float>::infinity();
  const auto row = on.index(s, 2), column = on.index(s, 3);
  s = on.select(s, on.constant(hidden), on.compare(CUDNN_POINTWISE_CMP_GE, row, column));
  if (x.window < 0)
    return s;
  const auto near_row = on.index(s, 2), near_column = on.index(s, 3);
  const auto end = on.pointwise(CUDNN_POINTWISE_ADD,
                                near_column,
                                on.constant(float(x.window + 1)),
                                {CUDNN_DATA_FLOAT, on.of(s).extents, on.of(s).strides});
  return on.select(s, on.constant(hidden), on.compare(CUDNN_POINTWISE_CMP_GT, end, near_row));
}

tensor scaled(graph& on, const attention_problem& x, tensor s) {
  return on.pointwise(CUDNN_POINTWISE_MUL, s, on.constant(x.scale), scores(x));
}

/// Tiles of 64 x 64 and ordered sums. Source: NVIDIA/cudnn-frontend, pull request 398.
engine_choice in_order_on_hopper() {
  return {6,
          {{CUDNN_KNOB_TYPE_TILE_M, 2},
           {CUDNN_KNOB_TYPE_TILE_N, 1},
           {CUDNN_KNOB_TYPE_KERNEL_CFG, 2},
           {CUDNN_KNOB_TYPE_STREAM_K, 0},
           {CUDNN_KNOB_TYPE_TILE_CGA_M, 0},
           {CUDNN_KNOB_TYPE_STAGES, 4}}};
}

}  // namespace

plan forward_plan(const attention_problem& x, const descriptor& device) {
  graph on;
  const auto q = on.stored(queries(x, x.q));
  const auto k = on.stored(transposed(keys(x)));
  const auto v = on.stored(keys(x));
  const auto o = on.stored(queries(x, x.o));
  const auto lse = on.stored(row_sums(x));
  const layout each = scores(x), one = contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, 1});
  const auto s = masked(on, x, scaled(on, x, on.matmul(q, k, each)));
  const auto m = on.reduce(CUDNN_REDUCE_TENSOR_MAX, s, one);
  const auto e
      = on.pointwise(CUDNN_POINTWISE_EXP, on.pointwise(CUDNN_POINTWISE_SUB, s, m, each), {}, each);
  const auto l = on.reduce(CUDNN_REDUCE_TENSOR_ADD, e, one);
  on.pointwise(CUDNN_POINTWISE_ADD, m, on.pointwise(CUDNN_POINTWISE_LOG, l, {}, one), lse);
  const auto p = on.pointwise(CUDNN_POINTWISE_DIV, e, l, contiguous(narrow(x), each.extents));
  on.matmul(p, v, o);
  return on.make_plan(device, true);
}

plan backward_plan(const attention_problem& x, const descriptor& device) {
  graph on;
  const auto q = on.stored(queries(x, x.q));
  const auto k = on.stored(transposed(keys(x)));
  const auto v = on.stored(transposed(keys(x)));
  const auto o = on.stored(queries(x, x.o));
  const auto d_o = on.stored(queries(x, x.o));
  const auto lse = on.stored(row_sums(x));
  const auto dq = on.stored(queries(x, x.q));
  const auto dk = on.stored(keys(x));
  const auto dv = on.stored(keys(x));
  const layout one = contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, 1});
  const auto sum = on.stored(one);

  const layout each = scores(x);
  const layout each_narrow{
      narrow(x), {x.B, x.H, x.S, x.T}, {each.strides[0], each.strides[1], 1, each.strides[2]}};
  const auto products = on.pointwise(
      CUDNN_POINTWISE_MUL, d_o, o, contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, x.D}));
  on.pointwise(
      CUDNN_POINTWISE_MUL, on.reduce(CUDNN_REDUCE_TENSOR_ADD, products, one), on.constant(1), sum);

  auto s = scaled(on, x, on.matmul(q, k, each));
  s = masked(on, x, on.pointwise(CUDNN_POINTWISE_SUB, s, lse, each));
  const auto p = on.pointwise(CUDNN_POINTWISE_EXP, s, {}, each);

  // Per query head; summed over the query heads that share a key head.
  const auto over_heads = [&](tensor a, tensor b, tensor out) {
    if (x.H == x.G)
      return on.matmul(a, b, out);
    const auto all = on.matmul(a, b, contiguous(narrow(x), {x.B, x.H, x.S, x.D}));
    on.reduce(CUDNN_REDUCE_TENSOR_ADD, all, out);
  };
  over_heads(on.reshape(p, each_narrow), d_o, dv);
  const auto dp = on.pointwise(CUDNN_POINTWISE_SUB, on.matmul(d_o, v, each), sum, each);
  const auto ds = scaled(on, x, on.pointwise(CUDNN_POINTWISE_MUL, dp, p, each));
  over_heads(on.reshape(ds, each_narrow), q, dk);
  const auto rows_of_k = on.reshape(k, keys(x));
  if (x.sum == dq_sum::at_once) {
    on.matmul(ds, rows_of_k, dq);
    return on.make_plan(device, true);
  }
  const auto wide = on.stored(contiguous(CUDNN_DATA_FLOAT, {x.B, x.H, x.T, x.D}));
  on.matmul(ds, rows_of_k, wide);
  on.pointwise(CUDNN_POINTWISE_IDENTITY, wide, {}, dq);
  return x.sum == dq_sum::any_order ? on.make_plan(device, false)
                                    : on.make_plan(device, in_order_on_hopper());
}

}  // namespace troupe::kernels::cudnn
