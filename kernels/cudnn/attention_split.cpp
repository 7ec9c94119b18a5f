#include "kernels/cudnn/attention_split.hpp"

#include <algorithm>

namespace troupe::kernels::cudnn {

namespace {

constexpr std::int64_t head_size_step = 8;  // 16 bytes
constexpr std::int64_t tile = 128;
constexpr std::size_t with_sums_in_order = 92500;

/// Limits: 256 forward on all devices; backward 128 except on compute capability 9, which has
/// enough registers for 256.
std::int64_t most_head_size(const device_kind& on, bool backward) {
  return backward && on.major != 9 ? 128 : 256;
}

/// Bytes of dq's sum for this number of heads: ds in cuDNN's workspace, or dq in fp32.
std::int64_t sum_bytes(const attention_shape& a, dq_sum sum, std::int64_t heads) {
  const auto whole = [](std::int64_t n) { return (n + tile - 1) / tile * tile; };
  return sum == dq_sum::at_once ? 2 * heads * whole(a.longest_query) * whole(a.longest_key)
                                : 4 * heads * a.longest_query * a.D;
}

/// The largest divisor of n for which `fits` holds, or 0: launches of equal size share one plan.
template <class Fits>
std::int64_t largest_divisor(std::int64_t n, const Fits& fits) {
  for (std::int64_t d = n; d > 0; --d) {
    if (n % d == 0 && fits(d))
      return d;
  }
  return 0;
}

/// `fits(heads)`: whether a launch with this number of heads fits.
template <class Fits>
attention_split split_of(const attention_shape& a, bool half, const Fits& fits) {
  const std::int64_t per_group = a.H / a.G, T = a.longest_query, S = a.longest_key;
  // One stride between consecutive query heads.
  const bool one_stride = per_group == 1 || a.G == 1 || a.query_group == per_group * a.D;
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
                      .scale = a.scale,
                      .causal = a.causal,
                      .window = a.causal ? a.window : -1};
  const std::int64_t whole
      = largest_divisor(a.S, [&](std::int64_t sequences) { return fits(sequences * a.H); });
  if (one_stride && whole > 0) {
    x.B = whole;
    return {x, a.S / whole, 1};
  }
  // At least one group of one sequence, the smallest launch.
  const std::int64_t groups = std::max<std::int64_t>(
      1, largest_divisor(a.G, [&](std::int64_t n) { return fits(n * per_group); }));
  if (one_stride) {  // a launch is some groups of one sequence
    x.B = 1;
    x.H = groups * per_group;
    x.G = groups;
  } else {
    x.B = groups;  // groups as the batch
    x.H = per_group;
    x.G = 1;
    x.q.batch = a.query_group;
    x.k.batch = a.key_group;
    x.o.batch = per_group * a.D;
  }
  return {x, a.S, a.G / groups};
}

}  // namespace

bool sayable(const attention_shape& a, const device_kind& on, bool backward) {
  const std::int64_t per_group = a.H / a.G;
  const bool in_16_bytes = a.query_row % head_size_step == 0 && a.query_group % head_size_step == 0
                           && a.key_row % head_size_step == 0 && a.key_group % head_size_step == 0;
  const bool like_keys = a.Dv == a.D && a.value_row == a.key_row && a.value_group == a.key_group;
  return a.uniform && a.p_drop == 0 && like_keys && a.D % head_size_step == 0
         && a.D <= most_head_size(on, backward) && in_16_bytes && per_group * a.G == a.H
         && (a.window < 0 || (a.causal && a.longest_query <= a.longest_key));
}

bool sums_in_order(const device_kind& on) {
  return on.major == 9 && on.version >= with_sums_in_order;
}

std::optional<dq_sum> dq_sum_for(const attention_shape& a,
                                 const device_kind& on,
                                 std::int64_t workspace) {
  return a.same_bits ? usual_dq_sum(a, on, workspace) : dq_sum::any_order;
}

std::optional<dq_sum> usual_dq_sum(const attention_shape& a,
                                   const device_kind& on,
                                   std::int64_t workspace) {
  if (sum_bytes(a, dq_sum::at_once, a.H / a.G) <= workspace)
    return dq_sum::at_once;
  if (sums_in_order(on))
    return dq_sum::in_order;
  return std::nullopt;
}

attention_split forward_split(const attention_shape& a, bool half) {
  return split_of(a, half, [](std::int64_t) { return true; });
}

attention_split backward_split(const attention_shape& a,
                               bool half,
                               dq_sum sum,
                               std::int64_t workspace) {
  auto out = split_of(
      a, half, [&](std::int64_t heads) { return sum_bytes(a, sum, heads) <= workspace; });
  out.problem.sum = sum;
  return out;
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
          .lse = (sequence * a.H + group * per_group) * T};
}

}  // namespace troupe::kernels::cudnn
