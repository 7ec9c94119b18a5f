#include "kernels/cudnn/attention_split.hpp"

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

}  // namespace

bool sayable(const attention_shape& a) {
  const std::int64_t per_group = a.H / a.G;
  const bool in_16_bytes = a.query_row % head_size_step == 0 && a.query_group % head_size_step == 0
                           && a.key_row % head_size_step == 0 && a.key_group % head_size_step == 0;
  return a.uniform && a.p_drop == 0 && a.D % head_size_step == 0 && a.D <= most_head_size
         && in_16_bytes && per_group * a.G == a.H
         && (a.window < 0 || (a.causal && a.longest_query <= a.longest_key));
}

attention_split split_of(const attention_shape& a, bool half, bool backward) {
  const std::int64_t per_group = a.H / a.G, T = a.longest_query, S = a.longest_key;
  // One stride from any query head to the next.
  const bool one_stride = per_group == 1 || a.G == 1 || a.query_group == per_group * a.D;
  attention_problem all{.half = half,
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
  const auto of_a_group = [&](attention_problem x) {
    x.H = per_group;
    x.G = 1;
    return x;
  };
  attention_problem one_sequence = all;
  one_sequence.B = 1;
  if (!one_stride) {  // its groups are the batch
    one_sequence = of_a_group(all);
    one_sequence.B = a.G;
    one_sequence.q.batch = a.query_group;
    one_sequence.k.batch = a.key_group;
    one_sequence.o.batch = per_group * a.D;
    one_sequence.lse.batch = per_group;
  }
  attention_problem one_of_each = of_a_group(all);
  one_of_each.B = 1;

  const auto fits = [&](std::int64_t heads) {
    return !backward || square_bytes(a, heads) <= backward_workspace;
  };
  if (one_stride && fits(a.S * a.H))
    return {all, 1, 1};
  if (!one_stride && a.G < a.S && fits(a.S * per_group))
    return {of_a_group(all), 1, a.G};
  if (fits(a.H))
    return {one_sequence, a.S, 1};
  return {one_of_each, a.S, a.G};
}

attention_offsets offsets_of(const attention_shape& a, std::int64_t sequence, std::int64_t group) {
  const std::int64_t per_group = a.H / a.G, T = a.longest_query, S = a.longest_key;
  return {.q = sequence * T * a.query_row + group * a.query_group,
          .k = sequence * S * a.key_row + group * a.key_group,
          .o = (sequence * T * a.H + group * per_group) * a.D,
          .lse = sequence * T * a.H + group * per_group};
}

}  // namespace troupe::kernels::cudnn
