#include "tests/bench/gpu/cases.hpp"

#include <cmath>

namespace troupe::bench {

namespace {

using kernels::bf16;

kernels::norm_forward<bf16> norm_of(arena& a, const model_shape& m) {
  return {.y = a.empty<bf16>(m.rows * m.hidden),
          .mean = a.empty<float>(m.rows),
          .rstd = a.empty<float>(m.rows),
          .x = a.drawn<bf16>(m.rows * m.hidden),
          .gain = a.drawn<bf16>(m.hidden),
          .bias = m.llama ? nullptr : a.drawn<bf16>(m.hidden),
          .R = m.rows,
          .C = m.hidden,
          .eps = 1e-5f,
          .kind = m.norm()};
}

void norms(harness& in, const model_shape& m) {
  const auto shape = by(m.rows, m.hidden) + (m.llama ? " rms" : " layer");
  in.line(bound::memory, shape, [&](arena& a) { return norm_of(a, m); });
  in.line(bound::memory, shape + " + residual", [&](arena& a) {
    auto f = norm_of(a, m);
    f.residual = a.drawn<bf16>(m.rows * m.hidden);
    f.sum = a.empty<bf16>(m.rows * m.hidden);
    return f;
  });
  in.line(bound::memory, shape + " + residual", [&](arena& a) {
    const auto f = norm_of(a, m);
    a.stream().run(f);
    return kernels::norm_backward_input<bf16>{.dx = a.empty<bf16>(m.rows * m.hidden),
                                              .dy = a.drawn<bf16>(m.rows * m.hidden),
                                              .x = f.x,
                                              .gain = f.gain,
                                              .mean = f.mean,
                                              .rstd = f.rstd,
                                              .R = m.rows,
                                              .C = m.hidden,
                                              .kind = m.norm(),
                                              .residual = a.drawn<bf16>(m.rows * m.hidden)};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = norm_of(a, m);
    a.stream().run(f);
    return kernels::norm_backward_weight<bf16>{
        .dgain = a.drawn<float>(m.hidden),
        .dbias = m.llama ? nullptr : a.drawn<float>(m.hidden),
        .dy = a.drawn<bf16>(m.rows * m.hidden),
        .x = f.x,
        .mean = f.mean,
        .rstd = f.rstd,
        .R = m.rows,
        .C = m.hidden,
        .kind = m.norm()};
  });
}

/// QK norm of the queries and keys of a fused product.
kernels::head_norm_forward<bf16> head_norm_of(arena& a, const model_shape& m) {
  const auto heads = m.heads / m.groups;
  return {.y = a.empty<bf16>(m.rows * m.fused()),
          .mean = a.empty<float>(m.rows * m.heads),
          .rstd = a.empty<float>(m.rows * m.heads),
          .x = a.drawn<bf16>(m.rows * m.fused()),
          .gain = a.drawn<bf16>(m.D()),
          .bias = nullptr,
          .shape = {.R = m.rows,
                    .G = m.groups,
                    .heads = heads,
                    .D = m.D(),
                    .row = m.fused(),
                    .group = (heads + 2) * m.D(),
                    .eps = 1e-5f,
                    .kind = kernels::normalization::rms}};
}

void head_norms(harness& in, const model_shape& m) {
  const auto shape = by(m.rows, m.heads) + " x " + std::to_string(m.D());
  in.line(bound::memory, shape, [&](arena& a) { return head_norm_of(a, m); });
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = head_norm_of(a, m);
    a.stream().run(f);
    return kernels::head_norm_backward_input<bf16>{.dx = a.empty<bf16>(m.rows * m.fused()),
                                                   .dy = a.drawn<bf16>(m.rows * m.fused()),
                                                   .x = f.x,
                                                   .gain = f.gain,
                                                   .mean = f.mean,
                                                   .rstd = f.rstd,
                                                   .shape = f.shape};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = head_norm_of(a, m);
    a.stream().run(f);
    return kernels::head_norm_backward_weight<bf16>{.dgain = a.drawn<float>(m.D()),
                                                    .dbias = nullptr,
                                                    .dy = a.drawn<bf16>(m.rows * m.fused()),
                                                    .x = f.x,
                                                    .mean = f.mean,
                                                    .rstd = f.rstd,
                                                    .shape = f.shape};
  });
}

void activations(harness& in, const model_shape& m) {
  const auto kind = m.llama ? kernels::activation::silu : kernels::activation::gelu_tanh;
  const auto wide = m.rows * m.ffn * kernels::fan_in(m.llama);
  const auto shape = by(m.rows, m.ffn) + (m.llama ? " swiglu" : " gelu");
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::activation_forward<bf16>{.y = a.empty<bf16>(m.rows * m.ffn),
                                             .x = a.drawn<bf16>(wide),
                                             .R = m.rows,
                                             .N = m.ffn,
                                             .kind = kind,
                                             .gated = m.llama};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::activation_backward<bf16>{.dx = a.empty<bf16>(wide),
                                              .dy = a.drawn<bf16>(m.rows * m.ffn),
                                              .x = a.drawn<bf16>(wide),
                                              .R = m.rows,
                                              .N = m.ffn,
                                              .kind = kind,
                                              .gated = m.llama};
  });
}

void dropouts(harness& in, const model_shape& m) {
  const auto samples = [&](arena& a) { return a.constant<std::uint64_t>(m.sequences(), 7); };
  in.line(bound::memory, by(m.rows, m.hidden) + " + residual", [&](arena& a) {
    return kernels::dropout_forward<bf16>{.y = a.empty<bf16>(m.rows * m.hidden),
                                          .x = a.drawn<bf16>(m.rows * m.hidden),
                                          .residual = a.drawn<bf16>(m.rows * m.hidden),
                                          .R = m.rows,
                                          .C = m.hidden,
                                          .T_ = m.T,
                                          .p = 0.1f,
                                          .key = 1,
                                          .sample = samples(a)};
  });
  in.line(bound::memory, by(m.rows, m.hidden), [&](arena& a) {
    return kernels::dropout_backward<bf16>{.dx = a.empty<bf16>(m.rows * m.hidden),
                                           .dy = a.drawn<bf16>(m.rows * m.hidden),
                                           .R = m.rows,
                                           .C = m.hidden,
                                           .T_ = m.T,
                                           .p = 0.1f,
                                           .key = 1,
                                           .sample = samples(a)};
  });
}

void rope(harness& in, const model_shape& m) {
  std::vector<float> frequency;
  for (std::int64_t i = 0; i < m.D() / 2; ++i)
    frequency.push_back(float(std::pow(500000.0, -2.0 * double(i) / double(m.D()))));
  const auto heads = m.heads / m.groups;
  for (const bool backward : {false, true})
    in.line(bound::memory,
            by(m.rows, m.heads + m.groups) + " x " + std::to_string(m.D())
                + (backward ? " backward" : ""),
            [&](arena& a) {
              return kernels::rope<bf16>{.x = a.drawn<bf16>(m.rows * m.fused()),
                                         .position = a.positions(m.rows, m.T),
                                         .frequency = a.filled(frequency),
                                         .R = m.rows,
                                         .G = m.groups,
                                         .heads = heads + 1,
                                         .D = m.D(),
                                         .rotated = m.D(),
                                         .row = m.fused(),
                                         .group = (heads + 2) * m.D(),
                                         .backward = backward};
            });
}

/// A stack's table of 32 buckets, for all distances within a sequence.
void relative_biases(harness& in, const model_shape& m) {
  const std::int64_t count = 2 * m.T - 1, buckets = 32;
  const auto shape = by(m.heads, count);
  in.line(bound::latency, shape, [&](arena& a) {
    return kernels::relative_bias_forward<bf16>{.bias = a.empty<float>(m.heads * count),
                                                .table = a.drawn<bf16>(buckets * m.heads),
                                                .bucket = a.constant<std::int32_t>(count, 7),
                                                .H = m.heads,
                                                .count = count,
                                                .buckets = buckets};
  });
  in.line(bound::latency, shape, [&](arena& a) {
    return kernels::relative_bias_backward<bf16>{.dtable = a.drawn<float>(buckets * m.heads),
                                                 .dbias = a.drawn<float>(m.heads * count),
                                                 .bucket = a.constant<std::int32_t>(count, 7),
                                                 .H = m.heads,
                                                 .count = count,
                                                 .buckets = buckets};
  });
}

/// Keys of latent attention: a part of each head from a product, a part that all heads share.
void heads(harness& in, const model_shape& m) {
  const auto wide = by(m.rows, m.heads) + " x " + std::to_string(m.D());
  in.line(bound::memory, wide, [&](arena& a) {
    return kernels::copy_heads<bf16>{.to = a.empty<bf16>(m.rows * m.heads * m.D()),
                                     .from = a.drawn<bf16>(m.rows * m.heads * m.D()),
                                     .R = m.rows,
                                     .G = m.heads,
                                     .width = m.D(),
                                     .to_row = m.heads * m.D(),
                                     .to_group = m.D(),
                                     .from_row = m.heads * m.D(),
                                     .from_group = m.D()};
  });
  in.line(bound::memory, wide, [&](arena& a) {
    return kernels::sum_heads<bf16>{.to = a.empty<bf16>(m.rows * m.D()),
                                    .from = a.drawn<bf16>(m.rows * m.heads * m.D()),
                                    .R = m.rows,
                                    .G = m.heads,
                                    .width = m.D(),
                                    .to_row = m.D(),
                                    .from_row = m.heads * m.D(),
                                    .from_group = m.D()};
  });
}

/// A router of 64 experts, 6 per row, and what balances it.
void routers(harness& in, const model_shape& m) {
  const kernels::route_rules rules{.E = 64, .k = 6};
  const auto S = m.sequences();
  const auto shape = by(m.rows, rules.E);
  const auto routed = [&](arena& a) {
    return kernels::route<float>{.chosen = a.empty<std::int32_t>(m.rows * rules.k),
                                 .weights = a.empty<float>(m.rows * rules.k),
                                 .lse = a.empty<float>(m.rows),
                                 .total = nullptr,
                                 .cutoff = a.empty<float>(m.rows),
                                 .logits = a.drawn<float>(m.rows * rules.E),
                                 .bias = nullptr,
                                 .given = nullptr,
                                 .R = m.rows,
                                 .rules = rules};
  };
  const auto sums = [&](arena& a) {
    const auto f = routed(a);
    a.stream().run(f);
    return kernels::route_sums<float>{.sums = a.empty<double>(S * rules.E + 1),
                                      .counts = a.empty<std::uint64_t>(S * rules.E),
                                      .logits = f.logits,
                                      .chosen = f.chosen,
                                      .lse = f.lse,
                                      .total = nullptr,
                                      .R = m.rows,
                                      .S = S,
                                      .T_ = m.T,
                                      .rules = rules};
  };
  in.line(bound::memory, shape, routed);
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = routed(a);
    a.stream().run(f);
    return kernels::route_backward<float>{.dlogits = a.empty<float>(m.rows * rules.E),
                                          .dweights = a.drawn<float>(m.rows * rules.k),
                                          .dprobabilities = a.drawn<float>(S * rules.E),
                                          .logits = f.logits,
                                          .chosen = f.chosen,
                                          .lse = f.lse,
                                          .total = nullptr,
                                          .R = m.rows,
                                          .T_ = m.T,
                                          .rules = rules};
  });
  in.line(bound::memory, shape, sums);
  in.line(bound::latency, by(S, rules.E), [&](arena& a) {
    const auto s = sums(a);
    a.stream().run(s);
    return kernels::route_losses<float>{.balance = a.empty<double>(2),
                                        .z = a.empty<double>(2),
                                        .dprobabilities = a.empty<float>(S * rules.E),
                                        .sums = s.sums,
                                        .counts = s.counts,
                                        .counts_of_all = nullptr,
                                        .parts = 1,
                                        .S = S,
                                        .E = rules.E,
                                        .k = rules.k,
                                        .T_ = m.T};
  });
  in.line(bound::latency, shape, [&](arena& a) {
    return kernels::sinkhorn<float>{.bias = a.empty<float>(rules.E),
                                    .logits = a.drawn<float>(m.rows * rules.E),
                                    .R = m.rows,
                                    .E = rules.E};
  });
  in.line(bound::latency, shape, [&](arena& a) {
    const auto f = routed(a);
    a.stream().run(f);
    return kernels::expert_quantile<float>{.bias = a.empty<float>(rules.E),
                                           .logits = f.logits,
                                           .lse = f.lse,
                                           .cutoff = f.cutoff,
                                           .R = m.rows,
                                           .rules = rules};
  });
  in.line(bound::memory, by(m.rows, m.hidden), [&](arena& a) {
    return kernels::jitter<float>{.y = a.empty<float>(m.rows * m.hidden),
                                  .x = a.drawn<float>(m.rows * m.hidden),
                                  .R = m.rows,
                                  .C = m.hidden,
                                  .T_ = m.T,
                                  .eps = 0.01f,
                                  .key = 1,
                                  .sample = a.constant<std::uint64_t>(S, 7)};
  });
}

}  // namespace

void time_rows(harness& in, const model_shape& m) {
  norms(in, m);
  activations(in, m);
  dropouts(in, m);
  in.line(bound::memory, by(m.rows, m.hidden), [&](arena& a) {
    return kernels::bias_backward<bf16>{.dbias = a.drawn<float>(m.hidden),
                                        .dz = a.drawn<bf16>(m.rows * m.hidden),
                                        .R = m.rows,
                                        .N = m.hidden};
  });
  if (!m.llama)
    return;
  rope(in, m);
  heads(in, m);
  relative_biases(in, m);
  head_norms(in, m);
  routers(in, m);
}

}  // namespace troupe::bench
