#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Selects one of four words without indexing: an indexed array would be in local memory.
__device__ __forceinline__ unsigned word_of(const philox_counter& words, unsigned which) {
  const unsigned low = which & 1 ? words[1] : words[0], high = which & 1 ? words[3] : words[2];
  return which & 2 ? high : low;
}

/// Both passes; the backward pass has no residual and no bias. With vectors a row is a multiple of
/// four words, so a pack uses whole Philox blocks.
template <class T, int W, bool Drops>
struct dropout_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> x, residual, bias;
  };
  T* y;
  const T* x;
  const T* residual;
  const T* bias;
  const std::uint64_t* sample;
  std::int64_t C;
  std::int64_t first_row;  ///< of this body, within the micro-batch
  divider steps_of_row, rows_of_sequence;
  std::uint64_t key;
  unsigned threshold;
  float scale;

  __device__ __forceinline__ unsigned row_of(std::int64_t i) const {
    return steps_of_row.quotient(unsigned(i / W));
  }

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    inputs in;
    in.x = fetch<T, W>(x + i);
    if (residual)
      in.residual = fetch<T, W>(residual + i);
    else
      in.residual = {};
    if (bias)
      in.bias = fetch<T, W>(bias + (i - row_of(i) * C));
    else
      in.bias = {};
    return in;
  }

  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    unsigned words[W] = {};
    if constexpr (Drops) {
      const unsigned r = row_of(i), q = unsigned(first_row) + r;
      const unsigned s = rows_of_sequence.quotient(q);
      const std::uint64_t stream = sample[s];
      const auto word
          = std::uint64_t(std::int64_t{q - s * rows_of_sequence.by()} * C + (i - r * C));
      if constexpr (W == 1) {
        words[0] = word_of(philox(key, philox_block(stream, word / 4)), unsigned(word % 4));
      } else {
#pragma unroll
        for (int k = 0; k < W; k += 4) {
          const auto four = philox(key, philox_block(stream, word / 4 + unsigned(k / 4)));
#pragma unroll
          for (int j = 0; j < 4; ++j)
            words[k + j] = four[std::size_t(j)];
        }
      }
    }
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k) {
      float value = in.x[k] + in.bias[k];
      if constexpr (Drops)
        value = words[k] < threshold ? 0.0f : value;
      out[k] = fmaf(value, scale, in.residual[k]);
    }
    put(y + i, out);
  }
};

template <bool Drops, class T>
void run_rows(const dropout_forward<T>& op, const context& in) {
  const bool vectors = op.C % wide<T> == 0 && all_aligned(op.y, op.x, op.residual, op.bias);
  each_in_rows<wide<T>>(
      in, op.R, op.C, vectors, [&](auto width, std::int64_t r, const divider& steps) {
        // Row and sequence are counted from the body's first sequence.
        const std::int64_t q = op.first_row + r, s = Drops ? q / op.T_ : 0;
        return dropout_body<T, width(), Drops>{
            .y = op.y + r * op.C,
            .x = op.x + r * op.C,
            .residual = op.residual ? op.residual + r * op.C : nullptr,
            .bias = op.bias,
            .sample = Drops ? op.sample + s : nullptr,
            .C = op.C,
            .first_row = Drops ? q - s * op.T_ : 0,
            .steps_of_row = steps,
            .rows_of_sequence = divider(Drops ? op.T_ : 1),
            .key = op.key,
            .threshold = drop_threshold(op.p),
            .scale = float(double(op.scale) / (1 - double(op.p)))};
      });
}

template <class T>
void run_op(const dropout_forward<T>& op, const context& in) {
  if (op.p > 0)
    run_rows<true>(op, in);
  else
    run_rows<false>(op, in);
}

template <class T>
void run_op(const dropout_backward<T>& op, const context& in) {
  run_op(dropout_forward<T>{.y = op.dx,
                            .x = op.dy,
                            .residual = nullptr,
                            .R = op.R,
                            .C = op.C,
                            .T_ = op.T_,
                            .p = op.p,
                            .key = op.key,
                            .sample = op.sample,
                            .first_row = op.first_row,
                            .scale = op.scale},
         in);
}

}  // namespace

#define TROUPE_INSTANTIATE(T)                                  \
  template <>                                                  \
  void run(const dropout_forward<T>& op, const context& in) {  \
    run_op(op, in);                                            \
  }                                                            \
  template <>                                                  \
  void run(const dropout_backward<T>& op, const context& in) { \
    run_op(op, in);                                            \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
