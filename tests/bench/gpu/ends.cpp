#include "tests/bench/gpu/cases.hpp"

namespace troupe::bench {

namespace {

using kernels::bf16;

kernels::cross_entropy_forward<bf16> loss_of(arena& a, const model_shape& m) {
  return {.loss = a.empty<float>(m.rows),
          .lse = a.empty<float>(m.rows),
          .logits = a.drawn<bf16>(m.rows * m.vocabulary),
          .target = a.below(m.rows, m.vocabulary),
          .R = m.rows,
          .V = m.vocabulary,
          .vocabulary = m.vocabulary};
}

void losses(harness& in, const model_shape& m) {
  const auto shape = by(m.rows, m.vocabulary);
  in.line(bound::memory, shape, [&](arena& a) { return loss_of(a, m); });
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = loss_of(a, m);
    a.stream().run(f);
    return kernels::cross_entropy_backward<bf16>{.dlogits = a.empty<bf16>(m.rows * m.vocabulary),
                                                 .logits = f.logits,
                                                 .lse = f.lse,
                                                 .target = f.target,
                                                 .dloss = a.constant(m.rows, 1e-4f),
                                                 .R = m.rows,
                                                 .V = m.vocabulary,
                                                 .vocabulary = m.vocabulary};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    const auto f = loss_of(a, m);
    return kernels::cross_entropy_both_passes<bf16>{.loss = f.loss,
                                                    .lse = f.lse,
                                                    .dlogits = const_cast<bf16*>(f.logits),
                                                    .logits = f.logits,
                                                    .target = f.target,
                                                    .dloss = a.constant(m.rows, 1e-4f),
                                                    .R = m.rows,
                                                    .V = m.vocabulary,
                                                    .vocabulary = m.vocabulary};
  });
  in.line(bound::latency, std::to_string(m.rows) + " of 2 parts", [&](arena& a) {
    return kernels::cross_entropy_merge<float>{
        .loss = a.empty<float>(m.rows),
        .lse = a.empty<float>(m.rows),
        .part_lse = a.kept<const float*>({a.drawn<float>(m.rows), a.drawn<float>(m.rows)}),
        .part_logit = a.kept<const float*>({a.drawn<float>(m.rows), a.drawn<float>(m.rows)}),
        .parts = 2,
        .R = m.rows};
  });
  const auto masked = [&](arena& a) {
    return kernels::masked_loss_forward<float>{.total = a.empty<double>(1),
                                               .tokens = a.empty<double>(1),
                                               .loss = a.drawn<float>(m.rows),
                                               .mask = a.constant(m.rows, 1.0f),
                                               .R = m.rows};
  };
  in.line(bound::latency, std::to_string(m.rows), masked);
  in.line(bound::latency, std::to_string(m.rows), [&](arena& a) {
    const auto f = masked(a);
    a.stream().run(f);
    return kernels::masked_loss_backward<float>{.dloss = a.empty<float>(m.rows),
                                                .mask = f.mask,
                                                .tokens = f.tokens,
                                                .scale = 1,
                                                .R = m.rows};
  });
}

void embeddings(harness& in, const model_shape& m) {
  const auto shape = by(m.rows, m.hidden) + " of " + std::to_string(m.vocabulary);
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::embedding_forward<bf16>{
        .y = a.empty<bf16>(m.rows * m.hidden),
        .table = a.drawn<bf16>(m.vocabulary * m.hidden),
        .id = a.below(m.rows, m.vocabulary),
        .position_table = m.llama ? nullptr : a.drawn<bf16>(m.T * m.hidden),
        .position = m.llama ? nullptr : a.positions(m.rows, m.T),
        .R = m.rows,
        .C = m.hidden};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::embedding_backward<bf16>{
        .dtable = a.drawn<float>(m.vocabulary * m.hidden),
        .id = a.below(m.rows, m.vocabulary),
        .dposition_table = m.llama ? nullptr : a.drawn<float>(m.T * m.hidden),
        .position = m.llama ? nullptr : a.positions(m.rows, m.T),
        .dy = a.drawn<bf16>(m.rows * m.hidden),
        .R = m.rows,
        .C = m.hidden};
  });
}

/// A generation step of 256 sequences: writes each row to another row of the cache.
void cache(harness& in, const model_shape& m) {
  const std::int64_t rows = std::min<std::int64_t>(m.rows, 256);
  const auto width = 2 * m.D();
  in.line(bound::latency, by(rows, m.groups) + " x " + std::to_string(width), [&](arena& a) {
    return kernels::cache_rows<bf16>{.entries = a.empty<bf16>(rows * m.groups * width),
                                     .positions = a.empty<std::int32_t>(rows),
                                     .kv = a.drawn<bf16>(rows * m.fused()),
                                     .position = a.positions(rows, m.T),
                                     .at = a.positions(rows, rows),
                                     .R = rows,
                                     .G = m.groups,
                                     .width = width,
                                     .row = m.fused(),
                                     .group = (m.heads / m.groups + 2) * m.D()};
  });
}

}  // namespace

void time_ends(harness& in, const model_shape& m) {
  embeddings(in, m);
  losses(in, m);
  cache(in, m);
}

}  // namespace troupe::bench
