// Owners of operations on rows and flat arrays; see ops.hpp.

#pragma once

#include "tests/support/ops_products.hpp"

namespace troupe::tests {

template <class T>
struct activation_memory {
  std::int64_t R, N;
  kernels::activation kind;
  bool gated = false;
  std::vector<T> x = normal<T>(R * N * kernels::fan_in(gated), 31);
  std::vector<T> dy = normal<T>(R * N, 32);
  std::vector<T> y = blank<T>(R * N), dx = blank<T>(std::int64_t(x.size()));

  kernels::activation_forward<T> forward() {
    return {.y = y.data(), .x = x.data(), .R = R, .N = N, .kind = kind, .gated = gated};
  }
  kernels::activation_backward<T> backward() {
    return {.dx = dx.data(),
            .dy = dy.data(),
            .x = x.data(),
            .R = R,
            .N = N,
            .kind = kind,
            .gated = gated};
  }
};

/// One fused product (R, G, heads + 1, D): RoPE turns queries and key, the value stays.
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

/// Tokens repeat if R > V, positions repeat if R > P.
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

  kernels::cross_entropy_both_passes<T> both_passes() {
    return {.loss = loss.data(),
            .lse = lse.data(),
            .dlogits = dlogits.data(),
            .logits = logits.data(),
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
  double scale = 0.75;
  std::vector<float> loss = normal<float>(R, 66);
  std::vector<T> mask = masks(R);
  std::vector<float> dloss = blank<float>(R);
  double total = unwritten, tokens = unwritten;

  kernels::masked_loss_forward<T> forward() {
    return {.total = &total, .tokens = &tokens, .loss = loss.data(), .mask = mask.data(), .R = R};
  }
  kernels::masked_loss_backward<T> backward() {
    return {.dloss = dloss.data(), .mask = mask.data(), .tokens = &tokens, .scale = scale, .R = R};
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

  /// Adds the first two sources.
  kernels::add<T> add() {
    return {.y = y.data(), .a = x.at(0).data(), .b = x.at(1).data(), .n = n};
  }
  kernels::ordered_sum<T> ordered_sum() {
    std::transform(x.begin(), x.end(), pointers.begin(), [](auto& one) { return one.data(); });
    return {.y = y.data(), .x = pointers.data(), .sources = sources, .n = n, .scale = scale};
  }
  /// Reads the first source.
  kernels::square_norm<T> square_norm() { return {.result = &result, .x = x.at(0).data(), .n = n}; }

  static std::vector<std::vector<T>> vectors(std::int64_t n, std::int64_t sources) {
    std::vector<std::vector<T>> out;
    for (std::int64_t s = 0; s < sources; ++s)
      out.push_back(normal<T>(std::size_t(n), std::uint32_t(81 + s)));
    return out;
  }
};

/// Step 3 of a run, with non-zero moments.
template <class T, class Narrow = kernels::bf16>
struct adamw_memory {
  std::int64_t n;
  float weight_decay = 0.1f;
  float gradient_scale = 0.5f;
  std::vector<T> x = normal<T>(n, 91);
  std::vector<T> m = normal<T>(n, 92);
  std::vector<T> v = squares(normal<T>(n, 93));
  std::vector<T> dx = normal<T>(n, 94);
  std::vector<Narrow> rounded = {};  ///< optional result: n elements, or empty

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
            .rounded = rounded.empty() ? nullptr : rounded.data(),
            .rounded_to = std::is_same_v<Narrow, kernels::f16> ? kernels::narrow_type::f16
                                                               : kernels::narrow_type::bf16};
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
  float top_p = 1;
  float min_p = 0;
  double uniform = 0;
  std::int32_t token = -1;

  kernels::sample_token<T> draw() {
    return {.token = &token,
            .logits = logits.data(),
            .vocabulary = std::int64_t(logits.size()),
            .temperature = temperature,
            .top_k = top_k,
            .top_p = top_p,
            .min_p = min_p,
            .uniform = uniform};
  }
};

}  // namespace troupe::tests
