#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// Vector of a gain offset. -0 replaces 0, because adding -0 preserves every number, even -0.
HWY_INLINE vec offset(float of_gain) {
  return hn::Set(d, of_gain == 0 ? -0.0f : of_gain);
}

// Three passes over a row in the L1 or L2 cache, and one more that computes it if there is a
// residual. Memory is read once.
template <class T>
void norm_rows(const norm_forward<T>& op, std::int64_t begin, std::int64_t end) {
  const bool centred = op.kind == normalization::layer;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = op.x + r * op.C;
    T* y = op.y + r * op.C;
    if (op.residual) {
      const T *added = x, *residual = op.residual + r * op.C;
      T* to = op.sum + r * op.C;
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Add(step.load(added + i), step.load(residual + i)), to + i);
      });
      x = to;
    }

    const float mean
        = centred ? sum(op.C, [=](std::int64_t i, auto step) HWY_ATTR { return step.load(x + i); })
                        / float(op.C)
                  : 0;
    const vec middle = hn::Set(d, mean);
    const float squares = sum(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec away = hn::Sub(step.load(x + i), middle);
      return hn::Mul(away, away);
    });
    const float rstd = 1 / std::sqrt(squares / float(op.C) + op.eps);

    const vec scale = hn::Set(d, rstd);
    const vec above = offset(op.gain_offset);
    const T *gain = op.gain, *bias = op.bias;
    if (bias)
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        const vec xh = hn::Mul(hn::Sub(step.load(x + i), middle), scale);
        step.store(hn::MulAdd(xh, hn::Add(step.load(gain + i), above), step.load(bias + i)), y + i);
      });
    else
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        const vec xh = hn::Mul(hn::Sub(step.load(x + i), middle), scale);
        step.store(hn::Mul(xh, hn::Add(step.load(gain + i), above)), y + i);
      });
    if (op.mean)
      op.mean[r] = mean;
    if (op.rstd)
      op.rstd[r] = rstd;
  }
}

template <class T>
void norm_input_rows(const norm_backward_input<T>& op, std::int64_t begin, std::int64_t end) {
  const bool centred = op.kind == normalization::layer;
  for (std::int64_t r = begin; r < end; ++r) {
    const T *x = op.x + r * op.C, *dy = op.dy + r * op.C, *gain = op.gain;
    const T* residual = op.residual ? op.residual + r * op.C : nullptr;
    T* dx = op.dx + r * op.C;
    const vec middle = hn::Set(d, centred ? op.mean[r] : 0);
    const vec scale = hn::Set(d, op.rstd[r]);
    const vec above = offset(op.gain_offset);
    const auto scaled = [=](std::int64_t i, auto step) HWY_ATTR {
      return hn::Mul(step.load(dy + i), hn::Add(step.load(gain + i), above));
    };

    const float h_sum = centred ? sum(op.C, scaled) : 0;
    const float hx_sum = sum(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec h = scaled(i, step);
      return hn::Mul(h, hn::Mul(hn::Sub(step.load(x + i), middle), scale));
    });

    const vec h_mean = hn::Set(d, h_sum / float(op.C));
    const vec hx_mean = hn::Set(d, hx_sum / float(op.C));
    const auto gradient = [=](std::int64_t i, auto step) HWY_ATTR {
      const vec h = scaled(i, step);
      const vec xh = hn::Mul(hn::Sub(step.load(x + i), middle), scale);
      return hn::Mul(scale, hn::NegMulAdd(xh, hx_mean, hn::Sub(h, h_mean)));
    };
    if (residual)
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Add(gradient(i, step), step.load(residual + i)), dx + i);
      });
    else
      each(op.C,
           [=](std::int64_t i, auto step) HWY_ATTR { step.store(gradient(i, step), dx + i); });
  }
}

// Adds `Rows` rows at once, because loading and storing the partial sums costs more than adding.
template <int Rows, class T>
HWY_INLINE void add_rows(const norm_backward_weight<T>& op,
                         std::int64_t r,
                         float* dgain,
                         float* dbias) {
  const T *x = op.x + r * op.C, *dy = op.dy + r * op.C;
  const std::int64_t C = op.C;
  float mean[Rows], rstd[Rows];
  for (int k = 0; k < Rows; ++k) {
    mean[k] = op.kind == normalization::layer ? op.mean[r + k] : 0;
    rstd[k] = op.rstd[r + k];
  }
  each(C, [=](std::int64_t i, auto step) HWY_ATTR {
    vec gain_sum = step.load(dgain + i);
    vec bias_sum = dbias ? step.load(dbias + i) : hn::Zero(d);
    for (int k = 0; k < Rows; ++k) {
      const vec up = step.load(dy + k * C + i);
      const vec xh
          = hn::Mul(hn::Sub(step.load(x + k * C + i), hn::Set(d, mean[k])), hn::Set(d, rstd[k]));
      gain_sum = hn::MulAdd(up, xh, gain_sum);
      bias_sum = hn::Add(bias_sum, up);
    }
    step.store(gain_sum, dgain + i);
    if (dbias)
      step.store(bias_sum, dbias + i);
  });
}

template <class T>
void norm_weight_rows(const norm_backward_weight<T>& op,
                      std::int64_t begin,
                      std::int64_t end,
                      float* dgain,
                      float* dbias) {
  for (std::int64_t c = 0; c < op.C; ++c) {
    dgain[c] = 0;
    if (dbias)
      dbias[c] = 0;
  }
  std::int64_t r = begin;
  for (; r + 4 <= end; r += 4)
    add_rows<4>(op, r, dgain, dbias);
  for (; r < end; ++r)
    add_rows<1>(op, r, dgain, dbias);
}

/// total[begin, end) += the partial sums in order; without `accumulates`, total = 0 + the sums.
void add_partial_sums(float* total,
                      bool accumulates,
                      const float* partial_sums,
                      std::int64_t stride,
                      std::int64_t blocks,
                      std::int64_t begin,
                      std::int64_t end) {
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    vec s = step.load(partial_sums + begin + i);
    for (std::int64_t b = 1; b < blocks; ++b)
      s = hn::Add(s, step.load(partial_sums + b * stride + begin + i));
    const vec before = accumulates ? step.load(total + begin + i) : hn::Zero(d);
    step.store(hn::Add(before, s), total + begin + i);
  });
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(norm_rows);
TROUPE_EXPORT(norm_input_rows);
TROUPE_EXPORT(norm_weight_rows);
HWY_EXPORT(add_partial_sums);

// At most 64 blocks, with at least 32 rows each. The division depends only on R, so the thread
// count does not change bits.
std::int64_t rows_of_a_block(std::int64_t R) {
  return std::max<std::int64_t>(32, (R + 63) / 64);
}
std::int64_t blocks_of_rows(std::int64_t R) {
  return (R + rows_of_a_block(R) - 1) / rows_of_a_block(R);
}

}  // namespace

template <class T>
void run(const norm_forward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.C), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(norm_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const norm_backward_input<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.C), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(norm_input_rows, T)(op, begin, end);
  });
}

template <class T>
std::size_t scratch(const norm_backward_weight<T>& op, int) {
  return sizeof(float) * std::size_t(blocks_of_rows(op.R) * op.C * (op.dbias ? 2 : 1));
}

template <class T>
void run(const norm_backward_weight<T>& op, const context& in) {
  auto* partial_sums = scratch_array<float>(in, scratch(op, in.threads));
  const std::int64_t rows = rows_of_a_block(op.R), blocks = blocks_of_rows(op.R);
  const std::int64_t stride = op.C * (op.dbias ? 2 : 1);
  if (blocks == 0) {
    if (!op.gain_accumulates)
      std::fill_n(op.dgain, op.C, 0);
    if (op.dbias && !op.bias_accumulates)
      std::fill_n(op.dbias, op.C, 0);
    return;
  }

  const std::int64_t grain = (rows_worth_a_thread(op.C) + rows - 1) / rows;
  split(in.threads, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      float* dgain = partial_sums + b * stride;
      TROUPE_DISPATCH(norm_weight_rows, T)
      (op, b * rows, std::min(op.R, (b + 1) * rows), dgain, op.dbias ? dgain + op.C : nullptr);
    }
  });
  const auto finish = [&](float* total, bool accumulates, const float* from) {
    const std::int64_t columns
        = std::max<std::int64_t>(16, elements_worth_a_thread / blocks / 16 * 16);
    split(in.threads, op.C, columns, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(add_partial_sums)
      (total, accumulates, from, stride, blocks, begin, end);
    });
  };
  finish(op.dgain, op.gain_accumulates, partial_sums);
  if (op.dbias)
    finish(op.dbias, op.bias_accumulates, partial_sums + op.C);
}

template void run(const norm_forward<float>&, const context&);
template void run(const norm_forward<bf16>&, const context&);
template void run(const norm_forward<f16>&, const context&);
template void run(const norm_backward_input<float>&, const context&);
template void run(const norm_backward_input<bf16>&, const context&);
template void run(const norm_backward_input<f16>&, const context&);
template void run(const norm_backward_weight<float>&, const context&);
template void run(const norm_backward_weight<bf16>&, const context&);
template void run(const norm_backward_weight<f16>&, const context&);
template std::size_t scratch(const norm_backward_weight<float>&, int);
template std::size_t scratch(const norm_backward_weight<bf16>&, int);
template std::size_t scratch(const norm_backward_weight<f16>&, int);

}  // namespace troupe::kernels::cpu
#endif
