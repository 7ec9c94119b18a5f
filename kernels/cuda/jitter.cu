#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

/// With W = 4 a row is a multiple of four words, so a step uses a whole Philox block.
template <int W>
struct jitter_body {
  static constexpr int width = W, steps = 2;
  using inputs = pack<float, W>;
  float* y;
  const float* x;
  const std::uint64_t* sample;
  std::int64_t C;
  std::int64_t first_row;  ///< of this body, within the micro-batch
  divider steps_of_row;
  std::int64_t T_;
  std::uint64_t key;
  float lowest, width_of_word;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    return cuda::load<float, W>(x + i);
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    const std::int64_t r = steps_of_row.quotient(unsigned(i / W)), q = first_row + r;
    const std::int64_t s = q / T_;
    const auto word = std::uint64_t((q - s * T_) * C + (i - r * C));
    const auto words = philox(key, philox_block(sample[s], word / 4));
    inputs out;
#pragma unroll
    for (int i_of = 0; i_of < W; ++i_of) {
      const unsigned bits = words[W == 4 ? std::size_t(i_of) : std::size_t(word % 4)] >> 8;
      out.x[i_of] = in.x[i_of] * fmaf(float(bits), width_of_word, lowest);
    }
    store_global(y + i, out);
  }
};

}  // namespace

template <>
void run(const jitter<float>& op, const context& in) {
  each_in_rows<4>(in,
                  op.R,
                  op.C,
                  op.C % 4 == 0 && all_aligned(op.y, op.x),
                  [&](auto width, std::int64_t r, const divider& steps) {
                    const std::int64_t q = op.first_row + r, s = q / op.T_;
                    return jitter_body<width()>{.y = op.y + r * op.C,
                                                .x = op.x + r * op.C,
                                                .sample = op.sample + s,
                                                .C = op.C,
                                                .first_row = q - s * op.T_,
                                                .steps_of_row = steps,
                                                .T_ = op.T_,
                                                .key = op.key,
                                                .lowest = 1 - op.eps,
                                                .width_of_word = 2 * op.eps * 0x1p-24f};
                  });
}

}  // namespace troupe::kernels::cuda
