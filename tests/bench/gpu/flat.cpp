#include "tests/bench/gpu/cases.hpp"

namespace troupe::bench {

namespace {

using kernels::bf16;

/// Number of arrays of a model with 24 layers.
std::int64_t pieces_of(const harness& in) {
  return in.chosen().smoke ? 12 : 288;
}

void sums(harness& in, std::int64_t n) {
  const auto pieces = pieces_of(in);
  const auto shape = std::to_string(n);
  in.line(bound::memory, shape + " bf16", [&](arena& a) {
    return kernels::add<bf16>{
        .y = a.empty<bf16>(n), .a = a.drawn<bf16>(n), .b = a.drawn<bf16>(n), .n = n};
  });
  in.line(bound::memory, shape + " bf16, 4 sources", [&](arena& a) {
    return kernels::ordered_sum<bf16>{
        .y = a.empty<bf16>(n),
        .x = a.kept<const bf16*>(
            {a.drawn<bf16>(n), a.drawn<bf16>(n), a.drawn<bf16>(n), a.drawn<bf16>(n)}),
        .sources = 4,
        .n = n};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::square_norm<float>{
        .result = a.empty<double>(1), .x = a.drawn<float>(n), .n = n};
  });
  constexpr std::int64_t grain = 65536;
  in.line(bound::memory, by(pieces, n / pieces), [&](arena& a) {
    std::vector<kernels::square_norms<float>::piece> all;
    const auto* const x = a.drawn<float>(n);
    for (std::int64_t i = 0; i < pieces; ++i)
      all.push_back({.x = x + i * (n / pieces), .n = n / pieces});
    return kernels::square_norms<float>{
        .results = a.empty<double>(pieces * kernels::grains_in(n / pieces, grain)),
        .pieces = a.kept(all),
        .count = pieces,
        .grain = grain};
  });
  in.line(bound::memory, shape, [&](arena& a) {
    return kernels::count_zeros<float>{
        .result = a.empty<std::int64_t>(1), .x = a.drawn<float>(n), .n = n};
  });
  in.line(bound::memory, by(pieces, n / pieces), [&](arena& a) {
    std::vector<kernels::fingerprint<float>::piece> all;
    const auto* const x = a.drawn<float>(n);
    const auto* const keys = a.empty<std::uint64_t>(kernels::grains_in(n / pieces, grain));
    for (std::int64_t i = 0; i < pieces; ++i)
      all.push_back({.x = x + i * (n / pieces), .n = n / pieces, .keys = keys});
    return kernels::fingerprint<float>{.results = a.empty<std::uint64_t>(2 * pieces),
                                       .pieces = a.kept(all),
                                       .count = pieces,
                                       .grain = grain};
  });
}

void casts(harness& in, std::int64_t n) {
  in.line(bound::memory, std::to_string(n) + " to bf16", [&](arena& a) {
    return kernels::narrow<bf16>{.y = a.empty<bf16>(n), .x = a.drawn<float>(n), .n = n};
  });
  in.line(bound::memory, std::to_string(n) + " from bf16", [&](arena& a) {
    return kernels::widen<bf16>{.y = a.empty<float>(n), .x = a.drawn<bf16>(n), .n = n};
  });
}

/// Second moments are a positive constant here: the square root of a random negative number would
/// fill the parameters with NaN.
void optimizer(harness& in, std::int64_t n) {
  const auto pieces = pieces_of(in);
  in.line(bound::memory, std::to_string(n) + ", rounded too", [&](arena& a) {
    return kernels::adamw<float>{.x = a.drawn<float>(n),
                                 .m = a.drawn<float>(n),
                                 .v = a.constant(n, 1.0f),
                                 .dx = a.drawn<float>(n),
                                 .n = n,
                                 .rate = 1e-4f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .correction1 = 0.1f,
                                 .correction2 = 0.05f,
                                 .rounded = a.empty<bf16>(n)};
  });
  for (const bool beside : {false, true})
    in.line(bound::memory,
            by(pieces, n / pieces) + ", rounded too" + (beside ? ", beside" : ""),
            [&](arena& a) {
              auto *const x = a.drawn<float>(n), *const m = a.drawn<float>(n);
              auto* const v = a.constant(n, 1.0f);
              const auto* const dx = a.drawn<float>(n);
              auto* const rounded = a.empty<bf16>(n);
              auto* const from = beside ? a.constant(3 * n, 1.0f) : nullptr;
              std::vector<kernels::adamw_pieces<float>::piece> all;
              for (std::int64_t i = 0; i < pieces; ++i) {
                const auto at = i * (n / pieces);
                all.push_back({.x = x + at,
                               .m = m + at,
                               .v = v + at,
                               .dx = dx + at,
                               .rounded = rounded + at,
                               .n = n / pieces,
                               .weight_decay = i % 2 == 0 ? 0.1f : 0.0f});
                if (beside)
                  all.back().from = {from + at, from + n + at, from + 2 * n + at};
              }
              return kernels::adamw_pieces<float>{.pieces = a.kept(all),
                                                  .count = pieces,
                                                  .rate = 1e-4f,
                                                  .beta1 = 0.9f,
                                                  .beta2 = 0.95f,
                                                  .eps = 1e-8f,
                                                  .correction1 = 0.1f,
                                                  .correction2 = 0.05f};
            });
}

/// Operations of other optimizers.
void updates(harness& in, std::int64_t n) {
  in.line(bound::memory, std::to_string(n) + " lion, rounded too", [&](arena& a) {
    return kernels::momentum_step<float>{.x = a.drawn<float>(n),
                                         .m = a.drawn<float>(n),
                                         .dx = a.drawn<float>(n),
                                         .n = n,
                                         .rule = kernels::momentum_rule::lion,
                                         .rate = 1e-4f,
                                         .beta1 = 0.95f,
                                         .beta2 = 0.98f,
                                         .weight_decay = 0.1f,
                                         .rounded = a.empty<bf16>(n)};
  });
  in.line(bound::memory, std::to_string(n), [&](arena& a) {
    return kernels::scaled_sum<float>{.y = a.empty<float>(n),
                                      .x = a.drawn<float>(n),
                                      .z = a.drawn<float>(n),
                                      .n = n,
                                      .a = 0.9f,
                                      .b = 0.1f};
  });
  constexpr std::int64_t E = 256;
  in.line(bound::memory, std::to_string(E) + " experts", [&](arena& a) {
    return kernels::expert_bias_step<float>{
        .bias = a.drawn<float>(E), .counts = a.drawn<float>(E), .E = E, .rate = 1e-3f};
  });
}

}  // namespace

void time_flat(harness& in, std::int64_t n) {
  sums(in, n);
  casts(in, n);
  optimizer(in, n);
  updates(in, n);
}

}  // namespace troupe::bench
