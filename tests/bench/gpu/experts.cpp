#include "tests/bench/gpu/cases.hpp"

namespace troupe::bench {

namespace {

using kernels::bf16;

/// 8 experts, of which a row has 2; each expert has as many rows.
constexpr std::int64_t E = 8, chosen = 2;

/// Groups of (expert, source).
kernels::row_groups groups_of(arena& a, std::int64_t S, std::int64_t sources) {
  const std::int64_t G = E * sources;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> experts;
  for (std::int64_t g = 0; g < G; ++g) {
    offsets.push_back(S * (g + 1) / G);
    experts.push_back(std::int32_t(g / sources));
  }
  return {a.kept(std::move(offsets)), a.kept(std::move(experts)), G};
}

/// Slot j of row r is row j R + r: all rows in order, once for each slot.
const std::int32_t* places(arena& a, std::int64_t R) {
  std::vector<std::int32_t> out(std::size_t(R * chosen));
  for (std::int64_t s = 0; s < R * chosen; ++s)
    out[std::size_t(s)] = std::int32_t(s % R * chosen + s / R);
  return a.filled(out);
}
const std::int32_t* slots(arena& a, std::int64_t R) {
  std::vector<std::int32_t> out(std::size_t(R * chosen));
  for (std::int64_t i = 0; i < R * chosen; ++i)
    out[std::size_t(i)] = std::int32_t(i % chosen * R + i / chosen);
  return a.filled(out);
}

void products(
    harness& in, std::int64_t S, std::int64_t N, std::int64_t K, std::int64_t sources = 1) {
  const auto shape = std::to_string(E) + " experts, " + by(S, N) + " x " + std::to_string(K)
                     + (sources > 1 ? ", " + std::to_string(sources) + " sources" : "");
  in.line(bound::matrix, shape, [&](arena& a) {
    return kernels::grouped_linear_forward<bf16>{.y = a.empty<bf16>(S * N),
                                                 .x = a.drawn<bf16>(S * K),
                                                 .weight = a.drawn<bf16>(E * N * K),
                                                 .bias = nullptr,
                                                 .groups = groups_of(a, S, sources),
                                                 .R = S,
                                                 .E = E,
                                                 .N = N,
                                                 .K = K};
  });
  in.line(bound::matrix, shape, [&](arena& a) {
    return kernels::grouped_linear_backward_input<bf16>{.dx = a.empty<bf16>(S * K),
                                                        .dy = a.drawn<bf16>(S * N),
                                                        .weight = a.drawn<bf16>(E * N * K),
                                                        .groups = groups_of(a, S, sources),
                                                        .R = S,
                                                        .E = E,
                                                        .N = N,
                                                        .K = K};
  });
  in.line(bound::matrix, shape, [&](arena& a) {
    return kernels::grouped_linear_backward_weight<bf16>{.dweight = a.drawn<float>(E * N * K),
                                                         .dbias = nullptr,
                                                         .dy = a.drawn<bf16>(S * N),
                                                         .x = a.drawn<bf16>(S * K),
                                                         .groups = groups_of(a, S, sources),
                                                         .R = S,
                                                         .E = E,
                                                         .N = N,
                                                         .K = K};
  });
}

void rows(harness& in, std::int64_t R, std::int64_t C) {
  const auto shape = by(R, C) + ", " + std::to_string(chosen) + " slots";
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::permute<bf16>{.y = a.empty<bf16>(R * chosen * C),
                                  .x = a.drawn<bf16>(R * C),
                                  .place = places(a, R),
                                  .weight = nullptr,
                                  .S = R * chosen,
                                  .C = C,
                                  .slots = chosen};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::unpermute<bf16>{.y = a.empty<bf16>(R * C),
                                    .x = a.drawn<bf16>(R * chosen * C),
                                    .slot = slots(a, R),
                                    .weight = a.drawn<float>(R * chosen),
                                    .R = R,
                                    .C = C,
                                    .slots = chosen};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::unpermute_backward_weight<bf16>{.dweight = a.empty<float>(R * chosen),
                                                    .dy = a.drawn<bf16>(R * C),
                                                    .x = a.drawn<bf16>(R * chosen * C),
                                                    .slot = slots(a, R),
                                                    .R = R,
                                                    .C = C,
                                                    .slots = chosen};
  });
}

void activations(harness& in, std::int64_t S, std::int64_t N) {
  const auto shape = by(S, N) + " swiglu";
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::activation_forward<bf16>{.y = a.empty<bf16>(S * N),
                                             .x = a.drawn<bf16>(S * N * 2),
                                             .R = S,
                                             .N = N,
                                             .kind = kernels::activation::silu,
                                             .gated = true,
                                             .weight = a.drawn<float>(S)};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::activation_backward<bf16>{.dx = a.empty<bf16>(S * N * 2),
                                              .dy = a.drawn<bf16>(S * N),
                                              .x = a.drawn<bf16>(S * N * 2),
                                              .R = S,
                                              .N = N,
                                              .kind = kernels::activation::silu,
                                              .gated = true,
                                              .weight = a.drawn<float>(S),
                                              .dweight = a.empty<float>(S)};
  });
}

}  // namespace

// Experts of half the feed-forward width: as many products as the dense layer.
void time_experts(harness& in, const model_shape& m) {
  if (!m.llama)
    return;
  const auto S = m.rows * chosen, ffn = m.ffn / chosen;
  rows(in, m.rows, m.hidden);
  products(in, S, 2 * ffn, m.hidden);
  products(in, S, m.hidden, ffn);
  products(in, S, m.hidden, ffn, 8);
  activations(in, S, ffn);
}

}  // namespace troupe::bench
