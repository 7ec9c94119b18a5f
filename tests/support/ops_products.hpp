// Owners of products, attention and norms; see ops.hpp.

#pragma once

#include "tests/support/ops_common.hpp"

#include <algorithm>

namespace troupe::tests {

template <class T>
struct linear_memory {
  std::int64_t R, N, K;
  kernels::epilogue activation = kernels::epilogue::none;
  bool with_bias = true;
  bool with_z = true;
  kernels::epilogue made_x = kernels::epilogue::none;  ///< if set, dx is the gradient of its input
  std::vector<T> x = normal<T>(R * K, 1);
  std::vector<T> weight = normal<T>(N * K, 2);
  std::vector<T> bias = normal<T>(N, 3);
  std::vector<T> dz = normal<T>(R * N, 4);
  std::vector<T> z_of_x = normal<T>(R * K, 7);
  std::vector<T> y = blank<T>(R * N), z = blank<T>(R * N), dx = blank<T>(R * K);
  std::vector<kernels::accumulator<T>> dweight = normal<kernels::accumulator<T>>(N * K, 5);
  std::vector<kernels::accumulator<T>> dbias = normal<kernels::accumulator<T>>(N, 6);

  kernels::linear_forward<T> forward() {
    return {.y = y.data(),
            .z = with_z ? z.data() : nullptr,
            .x = x.data(),
            .weight = weight.data(),
            .bias = with_bias ? bias.data() : nullptr,
            .R = R,
            .N = N,
            .K = K,
            .activation = activation};
  }
  kernels::linear_backward_input<T> backward_input() {
    return {.dx = dx.data(),
            .dz = dz.data(),
            .weight = weight.data(),
            .R = R,
            .N = N,
            .K = K,
            .activation = made_x,
            .z = z_of_x.data()};
  }
  kernels::linear_backward_weight<T> backward_weight() {
    return {.dweight = dweight.data(),
            .dbias = with_bias ? dbias.data() : nullptr,
            .dz = dz.data(),
            .x = x.data(),
            .R = R,
            .N = N,
            .K = K};
  }
};

/// Queries, keys and values are one fused product (then query_lengths == key_lengths) or three
/// arrays.
template <class T>
struct attention_memory {
  std::int64_t H, G, D;
  std::int64_t Dv = D;
  std::vector<std::int32_t> query_lengths, key_lengths;  ///< (S)
  bool causal = true;
  bool fused = false;
  float p_drop = 0;
  std::int32_t window = -1;
  std::int64_t first_head = 0;
  bool same_bits = true;

  std::vector<std::int32_t> query_starts = starts(query_lengths);
  std::vector<std::int32_t> key_starts = starts(key_lengths);
  /// The last query row of a sequence has the position of its last key.
  std::vector<std::int32_t> query_position = last_positions(query_lengths, key_lengths);
  std::vector<std::int32_t> key_position = last_positions(key_lengths, key_lengths);
  std::vector<std::uint64_t> sample = samples(query_lengths.size());

  std::int64_t query_rows = query_starts.back(), key_rows = key_starts.back();
  std::int64_t per_group = H / G;
  std::int64_t query_group = per_group * D + (fused ? D + Dv : 0);
  std::int64_t key_group = fused ? query_group : D;
  std::int64_t value_group = fused ? query_group : Dv;
  std::int64_t query_row = G * query_group, key_row = G * key_group;
  std::int64_t value_row = G * value_group;

  /// The fused product (rows, G, H/G D + D + Dv), or q (query rows, H, D), k (key rows, G, D) and
  /// v (key rows, G, Dv).
  std::vector<T> q = normal<T>(query_rows * query_row, 11);
  std::vector<T> k = normal<T>(fused ? 0 : key_rows * key_row, 12);
  std::vector<T> v = normal<T>(fused ? 0 : key_rows * value_row, 13);
  std::vector<T> d_o = normal<T>(query_rows * H * Dv, 14);
  std::vector<T> o = blank<T>(query_rows * H * Dv);
  std::vector<float> lse = blank<float>(query_rows * H);  ///< at kernels::lse_at
  std::vector<T> dq = blank<T>(std::int64_t(q.size()));
  std::vector<T> dk = blank<T>(std::int64_t(k.size()));
  std::vector<T> dv = blank<T>(std::int64_t(v.size()));

  kernels::attention_shape shape() const {
    return {.query_starts = query_starts.data(),
            .key_starts = key_starts.data(),
            .query_position = query_position.data(),
            .key_position = key_position.data(),
            .S = std::int64_t(query_lengths.size()),
            .H = H,
            .G = G,
            .D = D,
            .Dv = Dv,
            .query_row = query_row,
            .query_group = query_group,
            .key_row = key_row,
            .key_group = key_group,
            .value_row = value_row,
            .value_group = value_group,
            .scale = float(1 / std::sqrt(double(D))),
            .causal = causal,
            .window = window,
            .p_drop = p_drop,
            .key = 0x5eed,
            .sample = p_drop > 0 ? sample.data() : nullptr,
            .first_head = first_head,
            .query_rows = query_rows,
            .key_rows = key_rows,
            .longest_query = *std::max_element(query_lengths.begin(), query_lengths.end()),
            .longest_key = *std::max_element(key_lengths.begin(), key_lengths.end()),
            .same_bits = same_bits};
  }
  kernels::attention_forward<T> forward() {
    return {.o = o.data(),
            .lse = lse.data(),
            .q = q.data(),
            .k = fused ? q.data() + per_group * D : k.data(),
            .v = fused ? q.data() + (per_group + 1) * D : v.data(),
            .shape = shape()};
  }
  /// After forward: reads o and lse.
  kernels::attention_backward<T> backward() {
    return {.dq = dq.data(),
            .dk = fused ? dq.data() + per_group * D : dk.data(),
            .dv = fused ? dq.data() + (per_group + 1) * D : dv.data(),
            .d_o = d_o.data(),
            .o = o.data(),
            .lse = lse.data(),
            .q = q.data(),
            .k = fused ? q.data() + per_group * D : k.data(),
            .v = fused ? q.data() + (per_group + 1) * D : v.data(),
            .shape = shape()};
  }

  static std::vector<std::int32_t> starts(const std::vector<std::int32_t>& lengths) {
    std::vector<std::int32_t> out{0};
    for (const auto length : lengths)
      out.push_back(out.back() + length);
    return out;
  }
  static std::vector<std::int32_t> last_positions(const std::vector<std::int32_t>& lengths,
                                                  const std::vector<std::int32_t>& ends) {
    std::vector<std::int32_t> out;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (std::int32_t i = 0; i < lengths[s]; ++i)
        out.push_back(ends[s] - lengths[s] + i);
    }
    return out;
  }
  static std::vector<std::uint64_t> samples(std::size_t n) {
    std::vector<std::uint64_t> out(n);
    std::iota(out.begin(), out.end(), 100);
    return out;
  }
};

template <class T>
struct norm_memory {
  std::int64_t R, C;
  kernels::normalization kind = kernels::normalization::layer;
  bool with_residual = false;
  float eps = 1e-5f;
  float gain_offset = 0;
  std::vector<T> x = normal<T>(R * C, 21);
  std::vector<T> gain = normal<T>(C, 22);
  std::vector<T> bias = normal<T>(C, 23);
  std::vector<T> dy = normal<T>(R * C, 24);
  std::vector<T> residual = normal<T>(R * C, 25);
  std::vector<T> y = blank<T>(R * C), dx = blank<T>(R * C);
  std::vector<float> mean = blank<float>(R), rstd = blank<float>(R);
  std::vector<kernels::accumulator<T>> dgain = normal<kernels::accumulator<T>>(C, 26);
  std::vector<kernels::accumulator<T>> dbias = normal<kernels::accumulator<T>>(C, 27);

  bool layer() const { return kind == kernels::normalization::layer; }

  kernels::norm_forward<T> forward() {
    return {.y = y.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .x = x.data(),
            .gain = gain.data(),
            .bias = layer() ? bias.data() : nullptr,
            .R = R,
            .C = C,
            .eps = eps,
            .kind = kind,
            .gain_offset = gain_offset};
  }
  /// After forward: reads mean and rstd.
  kernels::norm_backward_input<T> backward_input() {
    return {.dx = dx.data(),
            .dy = dy.data(),
            .x = x.data(),
            .gain = gain.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .R = R,
            .C = C,
            .kind = kind,
            .residual = with_residual ? residual.data() : nullptr,
            .gain_offset = gain_offset};
  }
  /// After forward: reads mean and rstd.
  kernels::norm_backward_weight<T> backward_weight() {
    return {.dgain = dgain.data(),
            .dbias = layer() ? dbias.data() : nullptr,
            .dy = dy.data(),
            .x = x.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .R = R,
            .C = C,
            .kind = kind};
  }
};

/// Norms of heads in a fused product (R, G, heads + 2, D); the last two heads of each group are not
/// normalised.
template <class T>
struct head_norm_memory {
  std::int64_t R, G, heads, D;
  kernels::normalization kind = kernels::normalization::rms;
  float gain_offset = 0;
  float eps = 1e-5f;
  std::vector<T> x = normal<T>(R * G * (heads + 2) * D, 121);
  std::vector<T> gain = normal<T>(D, 122);
  std::vector<T> bias = normal<T>(D, 123);
  std::vector<T> dy = normal<T>(R * G * (heads + 2) * D, 124);
  std::vector<T> y = blank<T>(R * G * (heads + 2) * D), dx = y;
  std::vector<float> mean = blank<float>(R * G * heads), rstd = mean;
  std::vector<kernels::accumulator<T>> dgain = normal<kernels::accumulator<T>>(D, 126);
  std::vector<kernels::accumulator<T>> dbias = normal<kernels::accumulator<T>>(D, 127);

  bool layer() const { return kind == kernels::normalization::layer; }

  kernels::head_norm_shape shape() const {
    return {.R = R,
            .G = G,
            .heads = heads,
            .D = D,
            .row = G * (heads + 2) * D,
            .group = (heads + 2) * D,
            .eps = eps,
            .kind = kind,
            .gain_offset = gain_offset};
  }
  kernels::head_norm_forward<T> forward() {
    return {.y = y.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .x = x.data(),
            .gain = gain.data(),
            .bias = layer() ? bias.data() : nullptr,
            .shape = shape()};
  }
  /// After forward: reads mean and rstd.
  kernels::head_norm_backward_input<T> backward_input() {
    return {.dx = dx.data(),
            .dy = dy.data(),
            .x = x.data(),
            .gain = gain.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .shape = shape()};
  }
  /// After forward: reads mean and rstd.
  kernels::head_norm_backward_weight<T> backward_weight() {
    return {.dgain = dgain.data(),
            .dbias = layer() ? dbias.data() : nullptr,
            .dy = dy.data(),
            .x = x.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .shape = shape()};
  }
};

}  // namespace troupe::tests
