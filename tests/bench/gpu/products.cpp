#include "tests/bench/gpu/cases.hpp"

#include <cmath>

namespace troupe::bench {

namespace {

using kernels::bf16;
using kernels::epilogue;

/// `made_x`: the activation that produced x, for the gradient.
void product(harness& in,
             std::int64_t R,
             std::int64_t N,
             std::int64_t K,
             bool biased,
             epilogue e,
             epilogue made_x = epilogue::none) {
  const auto shape = by(R, N) + " x " + std::to_string(K);
  in.line(bound::matrix, shape + (e == epilogue::none ? "" : " gelu"), [&](arena& a) {
    return kernels::linear_forward<bf16>{.y = a.empty<bf16>(R * N),
                                         .z = e == epilogue::none ? nullptr : a.empty<bf16>(R * N),
                                         .x = a.drawn<bf16>(R * K),
                                         .weight = a.drawn<bf16>(N * K),
                                         .bias = biased ? a.drawn<bf16>(N) : nullptr,
                                         .R = R,
                                         .N = N,
                                         .K = K,
                                         .activation = e};
  });
  in.line(bound::matrix, shape + (made_x == epilogue::none ? "" : " gelu"), [&](arena& a) {
    return kernels::linear_backward_input<bf16>{
        .dx = a.empty<bf16>(R * K),
        .dz = a.drawn<bf16>(R * N),
        .weight = a.drawn<bf16>(N * K),
        .R = R,
        .N = N,
        .K = K,
        .activation = made_x,
        .z = made_x == epilogue::none ? nullptr : a.drawn<bf16>(R * K)};
  });
  in.line(bound::matrix, shape, [&](arena& a) {
    return kernels::linear_backward_weight<bf16>{.dweight = a.drawn<float>(N * K),
                                                 .dbias = biased ? a.drawn<float>(N) : nullptr,
                                                 .dz = a.drawn<bf16>(R * N),
                                                 .x = a.drawn<bf16>(R * K),
                                                 .R = R,
                                                 .N = N,
                                                 .K = K};
  });
}

/// Suffix of a shape that is computed as with --allow-nondeterministic.
constexpr const char* any_order = ", any order";

kernels::attention_shape shape_of(arena& a, const model_shape& m) {
  std::vector<std::int32_t> starts;
  for (std::int64_t s = 0; s <= m.sequences(); ++s)
    starts.push_back(std::int32_t(s * m.T));
  const auto* const begin = a.filled(starts);
  const auto* const position = a.positions(m.rows, m.T);
  return {.query_starts = begin,
          .key_starts = begin,
          .query_position = position,
          .key_position = position,
          .S = m.sequences(),
          .H = m.heads,
          .G = m.groups,
          .D = m.D(),
          .Dv = m.D(),
          .query_row = m.fused(),
          .query_group = (m.heads / m.groups + 2) * m.D(),
          .key_row = m.fused(),
          .key_group = (m.heads / m.groups + 2) * m.D(),
          .value_row = m.fused(),
          .value_group = (m.heads / m.groups + 2) * m.D(),
          .scale = float(1 / std::sqrt(double(m.D()))),
          .query_rows = m.rows,
          .key_rows = m.rows,
          .longest_query = m.T,
          .longest_key = m.T,
          .uniform = true};
}

kernels::attention_forward<bf16> forward_of(arena& a, const model_shape& m) {
  const auto per_group = m.heads / m.groups;
  const auto* const q = a.drawn<bf16>(m.rows * m.fused());
  return {.o = a.empty<bf16>(m.rows * m.hidden),
          .lse = a.empty<float>(m.rows * m.heads),
          .q = q,
          .k = q + per_group * m.D(),
          .v = q + (per_group + 1) * m.D(),
          .shape = shape_of(a, m)};
}

void attention(harness& in, const model_shape& m) {
  // Causal: half of the pairs, and the diagonal. Two products forward, five backward.
  const double pairs = double(m.sequences()) * double(m.T) * double(m.T + 1) / 2;
  const double flops = 4 * pairs * double(m.hidden);
  const double bytes = 2.0 * double(m.rows) * double(m.fused() + m.hidden);
  const auto shape = std::to_string(m.sequences()) + " x " + std::to_string(m.T) + ", "
                     + std::to_string(m.heads) + "/" + std::to_string(m.groups) + " x "
                     + std::to_string(m.D());
  in.line(
      bound::matrix,
      shape,
      [&](arena& a) { return forward_of(a, m); },
      work{.bytes = bytes, .flops = flops});
  for (const bool same_bits : {true, false})
    in.line(
        bound::matrix,
        shape + (same_bits ? "" : any_order),
        [&](arena& a) {
          auto f = forward_of(a, m);
          a.stream().run(f);
          f.shape.same_bits = same_bits;
          auto* const dq = a.empty<bf16>(m.rows * m.fused());
          return kernels::attention_backward<bf16>{.dq = dq,
                                                   .dk = dq + (f.k - f.q),
                                                   .dv = dq + (f.v - f.q),
                                                   .d_o = a.drawn<bf16>(m.rows * m.hidden),
                                                   .o = f.o,
                                                   .lse = f.lse,
                                                   .q = f.q,
                                                   .k = f.k,
                                                   .v = f.v,
                                                   .shape = f.shape};
        },
        work{.bytes = 2 * bytes, .flops = 2.5 * flops});
}

}  // namespace

std::vector<model_shape> models(bool smoke) {
  if (smoke)
    return {{.name = "gpt2",
             .hidden = 64,
             .heads = 2,
             .groups = 2,
             .ffn = 128,
             .vocabulary = 96,
             .T = 16,
             .rows = 32,
             .llama = false},
            {.name = "llama",
             .hidden = 64,
             .heads = 4,
             .groups = 2,
             .ffn = 96,
             .vocabulary = 96,
             .T = 16,
             .rows = 32,
             .llama = true}};
  return {{.name = "gpt2",
           .hidden = 768,
           .heads = 12,
           .groups = 12,
           .ffn = 3072,
           .vocabulary = 50304,
           .T = 1024,
           .rows = 16384,
           .llama = false},
          {.name = "1.3b",
           .hidden = 2048,
           .heads = 16,
           .groups = 16,
           .ffn = 8192,
           .vocabulary = 50304,
           .T = 2048,
           .rows = 8192,
           .llama = false},
          {.name = "llama",
           .hidden = 4096,
           .heads = 32,
           .groups = 8,
           .ffn = 14336,
           .vocabulary = 128256,
           .T = 4096,
           .rows = 8192,
           .llama = true}};
}

void time_products(harness& in, const model_shape& m) {
  const bool biased = !m.llama;
  product(in, m.rows, m.fused(), m.hidden, biased, epilogue::none);
  product(in, m.rows, m.hidden, m.hidden, biased, epilogue::none);
  product(in,
          m.rows,
          m.llama ? 2 * m.ffn : m.ffn,
          m.hidden,
          biased,
          m.llama ? epilogue::none : epilogue::gelu_tanh);
  product(in,
          m.rows,
          m.hidden,
          m.ffn,
          biased,
          epilogue::none,
          m.llama ? epilogue::none : epilogue::gelu_tanh);
  product(in, m.rows, m.vocabulary, m.hidden, false, epilogue::none);
  attention(in, m);
}

}  // namespace troupe::bench
