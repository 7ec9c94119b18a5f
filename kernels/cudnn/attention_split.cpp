#include "kernels/cudnn/attention_split.hpp"

#include <algorithm>

namespace troupe::kernels::cudnn {

namespace {

constexpr std::int64_t most_head_size = 128;
constexpr std::int64_t head_size_step = 8;  // 16 bytes
constexpr std::int64_t tile = 128;

/// Bytes of ds in cuDNN's workspace.
std::int64_t square_bytes(const attention_shape& a, std::int64_t heads) {
  const auto whole = [](std::int64_t n) { return (n + tile - 1) / tile * tile; };
  return 2 * heads * whole(a.longest_query) * whole(a.longest_key);
}

/// The largest divisor of n that fits, 0 where none does: parts of one size need one plan.
template <class Fits>
std::int64_t largest_divisor(std::int64_t n, const Fits& fits) {
  for (std::int64_t d = n; d > 0; --d) {
    if (n % d == 0 && fits(d))
      return d;
  }
  return 0;
}

}  // namespace

bool sayable(const attention_shape& a) {
  const std::int64_t per_group = a.H / a.G;
  const bool in_16_bytes = a.query_row % head_size_step == 0 && a.query_group % head_size_step == 0
                           && a.key_row % head_size_step == 0 && a.key_group % head_size_step == 0;
  return a.uniform && a.p_drop == 0 && a.D % head_size_step == 0 && a.D <= most_head_size
         && in_16_bytes && per_group * a.G == a.H
         && (a.window < 0 || (a.causal && a.longest_query <= a.longest_key));
}

attention_split split_of(const attention_shape& a,
                         bool half,
                         bool backward,
                         std::int64_t workspace) {
  const std::int64_t per_group = a.H / a.G, T = a.longest_query, S = a.longest_key;
  // One stride from any query head to the next.
  const bool one_stride = per_group == 1 || a.G == 1 || a.query_group == per_group * a.D;
  const auto fitting = [&](std::int64_t n, std::int64_t heads) {
    return largest_divisor(
        n, [&](std::int64_t d) { return !backward || square_bytes(a, d * heads) <= workspace; });
  };
  attention_problem x{.half = half,
                      .B = a.S,
                      .H = a.H,
                      .G = a.G,
                      .T = T,
                      .S = S,
                      .D = a.D,
                      .q = {T * a.query_row, per_group == 1 ? a.query_group : a.D, a.query_row},
                      .k = {S * a.key_row, a.key_group, a.key_row},
                      .o = {T * a.H * a.D, a.D, a.H * a.D},
                      .lse = {T * a.H, 1, a.H},
                      .scale = a.scale,
                      .causal = a.causal,
                      .window = a.causal ? a.window : -1};
  const std::int64_t whole = fitting(a.S, a.H);
  if (one_stride && whole > 0) {
    x.B = whole;
    return {x, a.S / whole, 1};
  }
  // At least one group of one sequence, which nothing can make smaller.
  const std::int64_t groups = std::max<std::int64_t>(1, fitting(a.G, per_group));
  const std::int64_t sequences = std::max<std::int64_t>(1, fitting(a.S, per_group));
  if (one_stride) {  // some groups of one sequence
    x.B = 1;
    x.H = groups * per_group;
    x.G = groups;
    return {x, a.S, a.G / groups};
  }
  x.H = per_group;
  x.G = 1;
  if (a.S * (a.G / groups) > a.G * (a.S / sequences)) {
    x.B = sequences;
    return {x, a.S / sequences, a.G};
  }
  x.B = groups;  // as its batch
  x.q.batch = a.query_group;
  x.k.batch = a.key_group;
  x.o.batch = per_group * a.D;
  x.lse.batch = per_group;
  return {x, a.S, a.G / groups};
}

attention_offsets offsets_of(const attention_shape& a,
                             const attention_split& split,
                             std::int64_t i,
                             std::int64_t j) {
  const std::int64_t per_group = a.H / a.G, T = a.longest_query, S = a.longest_key;
  const std::int64_t sequence = i * (a.S / split.sequences), group = j * (a.G / split.groups);
  return {.q = sequence * T * a.query_row + group * a.query_group,
          .k = sequence * S * a.key_row + group * a.key_group,
          .o = (sequence * T * a.H + group * per_group) * a.D,
          .lse = sequence * T * a.H + group * per_group};
}

}  // namespace troupe::kernels::cudnn
