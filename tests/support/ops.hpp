// Operations with the memory they work on: one owner per family. Inputs are drawn from fixed
// seeds, results are set to a number that no operation computes, so that an element left unwritten
// is seen. Copy an owner to give two backends the same work:
//
//   linear_memory<float> a{.R = 5, .N = 7, .K = 3}, b = a;
//   reference::run(a.forward());
//   cpu::run(b.forward(), context);
//   CHECK(relative_error(b.y, a.y) < 1e-6);
//
// An operation is made anew by each call and points into its owner: it does not outlive it.

#pragma once

#include "kernels/op/activation.hpp"
#include "kernels/op/adamw.hpp"
#include "kernels/op/attention.hpp"
#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/dropout.hpp"
#include "kernels/op/embedding.hpp"
#include "kernels/op/head_norm.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/masked_loss.hpp"
#include "kernels/op/norm.hpp"
#include "kernels/op/rope.hpp"
#include "kernels/op/sample.hpp"
#include "kernels/op/sum.hpp"
#include "tests/support/numbers.hpp"

#include <numeric>

namespace troupe::tests {

/// What a result holds before it is written. Not NaN: relative_error would not see it.
inline constexpr float unwritten = -777;

template <class T>
std::vector<T> blank(std::int64_t n) {
  return std::vector<T>(std::size_t(n), T(unwritten));
}

/// Whole numbers in [0, below).
inline std::vector<std::int32_t> draws(std::int64_t n, std::int64_t below, std::uint32_t seed) {
  std::mt19937 rng{seed};
  std::vector<std::int32_t> out(static_cast<std::size_t>(n));
  for (auto& value : out)
    value = std::int32_t(rng() % std::uint64_t(below));
  return out;
}

template <class T>
struct linear_memory {
  std::int64_t R, N, K;
  kernels::epilogue activation = kernels::epilogue::none;
  bool with_bias = true;
  bool with_z = true;
  std::vector<T> x = normal<T>(R * K, 1);
  std::vector<T> weight = normal<T>(N * K, 2);
  std::vector<T> bias = normal<T>(N, 3);
  std::vector<T> dz = normal<T>(R * N, 4);
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
    return {.dx = dx.data(), .dz = dz.data(), .weight = weight.data(), .R = R, .N = N, .K = K};
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

/// Queries, keys and values in one fused product (query_lengths equal to key_lengths), or apart.
template <class T>
struct attention_memory {
  std::int64_t H, G, D;
  std::vector<std::int32_t> query_lengths, key_lengths;  ///< (S)
  bool causal = true;
  bool fused = false;
  float p_drop = 0;
  std::int32_t window = -1;
  std::int64_t first_head = 0;

  std::vector<std::int32_t> query_starts = starts(query_lengths);
  std::vector<std::int32_t> key_starts = starts(key_lengths);
  /// The last query row of a sequence stands at the position of its last key.
  std::vector<std::int32_t> query_position = last_positions(query_lengths, key_lengths);
  std::vector<std::int32_t> key_position = last_positions(key_lengths, key_lengths);
  std::vector<std::uint64_t> sample = samples(query_lengths.size());

  std::int64_t query_rows = query_starts.back(), key_rows = key_starts.back();
  std::int64_t per_group = H / G;
  std::int64_t query_group = (fused ? per_group + 2 : per_group) * D;
  std::int64_t key_group = fused ? query_group : D;
  std::int64_t query_row = G * query_group, key_row = G * key_group;

  /// The fused product (rows, G, H/G + 2, D), or q (query rows, H, D), k, v (key rows, G, D).
  std::vector<T> q = normal<T>(query_rows * query_row, 11);
  std::vector<T> k = normal<T>(fused ? 0 : key_rows * key_row, 12);
  std::vector<T> v = normal<T>(fused ? 0 : key_rows * key_row, 13);
  std::vector<T> d_o = normal<T>(query_rows * H * D, 14);
  std::vector<T> o = blank<T>(query_rows * H * D);
  std::vector<float> lse = blank<float>(query_rows * H);
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
            .query_row = query_row,
            .query_group = query_group,
            .key_row = key_row,
            .key_group = key_group,
            .scale = float(1 / std::sqrt(double(D))),
            .causal = causal,
            .window = window,
            .p_drop = p_drop,
            .key = 0x5eed,
            .sample = p_drop > 0 ? sample.data() : nullptr,
            .first_head = first_head};
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

/// Heads in a fused product (R, G, heads + 2, D): of each group the last two are not theirs.
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

template <class T>
struct activation_memory {
  std::int64_t R, N;
  kernels::activation kind;
  std::vector<T> x = normal<T>(R * N * kernels::fan_in(kind), 31);
  std::vector<T> dy = normal<T>(R * N, 32);
  std::vector<T> y = blank<T>(R * N), dx = blank<T>(std::int64_t(x.size()));

  kernels::activation_forward<T> forward() {
    return {.y = y.data(), .x = x.data(), .R = R, .N = N, .kind = kind};
  }
  kernels::activation_backward<T> backward() {
    return {.dx = dx.data(), .dy = dy.data(), .x = x.data(), .R = R, .N = N, .kind = kind};
  }
};

/// One fused product (R, G, heads + 1, D): queries and key turn, the value stays.
template <class T>
struct rope_memory {
  std::int64_t R, G, heads, D, rotated;
  bool interleaved = false;
  std::vector<T> x = normal<T>(R * G * (heads + 1) * D, 41);
  std::vector<std::int32_t> position = draws(R, 4096, 42);
  std::vector<float> frequency = frequencies(rotated);

  kernels::rope<T> turn(bool backward = false) {
    return {.x = x.data(),
            .position = position.data(),
            .frequency = frequency.data(),
            .R = R,
            .G = G,
            .heads = heads,
            .D = D,
            .rotated = rotated,
            .row = G * (heads + 1) * D,
            .group = (heads + 1) * D,
            .interleaved = interleaved,
            .backward = backward};
  }

  static std::vector<float> frequencies(std::int64_t rotated) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < rotated / 2; ++i)
      out.push_back(float(std::pow(10000.0, -2.0 * double(i) / double(rotated))));
    return out;
  }
};

/// Tokens repeat when R is above V, and so do positions when R is above P.
template <class T>
struct embedding_memory {
  std::int64_t R, C, V, P;
  bool with_positions = true;
  std::vector<T> table = normal<T>(V * C, 51);
  std::vector<T> position_table = normal<T>(P * C, 52);
  std::vector<std::int32_t> id = draws(R, V, 53);
  std::vector<std::int32_t> position = draws(R, P, 54);
  std::vector<T> dy = normal<T>(R * C, 55);
  std::vector<T> y = blank<T>(R * C);
  std::vector<kernels::accumulator<T>> dtable = normal<kernels::accumulator<T>>(V * C, 56);
  std::vector<kernels::accumulator<T>> dposition_table = normal<kernels::accumulator<T>>(P * C, 57);

  kernels::embedding_forward<T> forward() {
    return {.y = y.data(),
            .table = table.data(),
            .id = id.data(),
            .position_table = with_positions ? position_table.data() : nullptr,
            .position = with_positions ? position.data() : nullptr,
            .R = R,
            .C = C};
  }
  kernels::embedding_backward<T> backward() {
    return {.dtable = dtable.data(),
            .id = id.data(),
            .dposition_table = with_positions ? dposition_table.data() : nullptr,
            .position = with_positions ? position.data() : nullptr,
            .dy = dy.data(),
            .R = R,
            .C = C};
  }
};

/// Columns from `vocabulary` to V are padding; every third row is masked.
template <class T>
struct cross_entropy_memory {
  std::int64_t R, V, vocabulary;
  std::vector<T> logits = normal<T>(R * V, 61);
  std::vector<std::int32_t> target = draws(R, vocabulary, 62);
  std::vector<float> dloss = masked(normal<float>(R, 63));
  std::vector<float> loss = blank<float>(R), lse = blank<float>(R);
  std::vector<T> dlogits = blank<T>(R * V);

  kernels::cross_entropy_forward<T> forward() {
    return {.loss = loss.data(),
            .lse = lse.data(),
            .logits = logits.data(),
            .target = target.data(),
            .R = R,
            .V = V,
            .vocabulary = vocabulary};
  }
  /// After forward: reads lse.
  kernels::cross_entropy_backward<T> backward() {
    return {.dlogits = dlogits.data(),
            .logits = logits.data(),
            .lse = lse.data(),
            .target = target.data(),
            .dloss = dloss.data(),
            .R = R,
            .V = V,
            .vocabulary = vocabulary};
  }

  static std::vector<float> masked(std::vector<float> dloss) {
    for (std::size_t r = 2; r < dloss.size(); r += 3)
      dloss[r] = 0;
    return dloss;
  }
};

/// Every third row is masked.
template <class T>
struct masked_loss_memory {
  std::int64_t R;
  float scale = 0.25f;
  std::vector<float> loss = normal<float>(R, 66);
  std::vector<T> mask = masks(R);
  std::vector<float> dloss = blank<float>(R);
  double total = unwritten, tokens = unwritten;

  kernels::masked_loss_forward<T> forward() {
    return {.total = &total, .tokens = &tokens, .loss = loss.data(), .mask = mask.data(), .R = R};
  }
  kernels::masked_loss_backward<T> backward() {
    return {.dloss = dloss.data(), .mask = mask.data(), .scale = scale, .R = R};
  }

  static std::vector<T> masks(std::int64_t R) {
    std::vector<T> out(std::size_t(R), T(1));
    for (std::size_t r = 2; r < out.size(); r += 3)
      out[r] = 0;
    return out;
  }
};

/// `sequences` sequences of T_ rows.
template <class T>
struct dropout_memory {
  std::int64_t sequences, T_, C;
  float p = 0.1f;
  bool with_residual = true;
  bool with_bias = false;
  std::vector<T> x = normal<T>(sequences * T_ * C, 71);
  std::vector<T> residual = normal<T>(sequences * T_ * C, 72);
  std::vector<T> dy = normal<T>(sequences * T_ * C, 73);
  std::vector<T> y = blank<T>(sequences * T_ * C), dx = blank<T>(sequences * T_ * C);
  std::vector<std::uint64_t> sample = attention_memory<T>::samples(std::size_t(sequences));
  std::uint64_t key = 0x5eed;
  std::vector<T> bias = normal<T>(C, 74);

  kernels::dropout_forward<T> forward() {
    return {.y = y.data(),
            .x = x.data(),
            .residual = with_residual ? residual.data() : nullptr,
            .R = sequences * T_,
            .C = C,
            .T_ = T_,
            .p = p,
            .key = key,
            .sample = p > 0 ? sample.data() : nullptr,
            .bias = with_bias ? bias.data() : nullptr};
  }
  kernels::dropout_backward<T> backward() {
    return {.dx = dx.data(),
            .dy = dy.data(),
            .R = sequences * T_,
            .C = C,
            .T_ = T_,
            .p = p,
            .key = key,
            .sample = p > 0 ? sample.data() : nullptr};
  }
};

template <class T>
struct sum_memory {
  std::int64_t n;
  std::int64_t sources = 3;
  kernels::accumulator<T> scale = 0.25;
  std::vector<std::vector<T>> x = vectors(n, sources);
  std::vector<const T*> pointers = std::vector<const T*>(std::size_t(sources));
  std::vector<T> y = blank<T>(n);
  double result = unwritten;

  /// The first two sources.
  kernels::add<T> add() {
    return {.y = y.data(), .a = x.at(0).data(), .b = x.at(1).data(), .n = n};
  }
  kernels::ordered_sum<T> ordered_sum() {
    std::transform(x.begin(), x.end(), pointers.begin(), [](auto& one) { return one.data(); });
    return {.y = y.data(), .x = pointers.data(), .sources = sources, .n = n, .scale = scale};
  }
  /// Of the first source.
  kernels::square_norm<T> square_norm() { return {.result = &result, .x = x.at(0).data(), .n = n}; }

  static std::vector<std::vector<T>> vectors(std::int64_t n, std::int64_t sources) {
    std::vector<std::vector<T>> out;
    for (std::int64_t s = 0; s < sources; ++s)
      out.push_back(normal<T>(std::size_t(n), std::uint32_t(81 + s)));
    return out;
  }
};

/// Step 3 of a run whose moments are already warm.
template <class T>
struct adamw_memory {
  std::int64_t n;
  float weight_decay = 0.1f;
  float gradient_scale = 0.5f;
  std::vector<T> x = normal<T>(n, 91);
  std::vector<T> m = normal<T>(n, 92);
  std::vector<T> v = squares(normal<T>(n, 93));
  std::vector<T> dx = normal<T>(n, 94);
  std::vector<kernels::bf16> rounded = {};  ///< wanted if it has n

  kernels::adamw<T> step() {
    return {.x = x.data(),
            .m = m.data(),
            .v = v.data(),
            .dx = dx.data(),
            .n = n,
            .gradient_scale = gradient_scale,
            .rate = 1e-3f,
            .beta1 = 0.9f,
            .beta2 = 0.95f,
            .eps = 1e-8f,
            .weight_decay = weight_decay,
            .correction1 = float(1 - std::pow(0.9, 3)),
            .correction2 = float(1 - std::pow(0.95, 3)),
            .rounded = rounded.empty() ? nullptr : rounded.data()};
  }

  static std::vector<T> squares(std::vector<T> x) {
    for (auto& value : x)
      value *= value;
    return x;
  }
};

template <class T>
struct sample_memory {
  std::vector<T> logits;
  float temperature = 1;
  std::int64_t top_k = 0;
  float top_p = 0;
  double uniform = 0;
  std::int32_t token = -1;

  kernels::sample_token<T> draw() {
    return {.token = &token,
            .logits = logits.data(),
            .vocabulary = std::int64_t(logits.size()),
            .temperature = temperature,
            .top_k = top_k,
            .top_p = top_p,
            .uniform = uniform};
  }
};

}  // namespace troupe::tests
