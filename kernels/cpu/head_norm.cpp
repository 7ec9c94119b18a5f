#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

#ifndef TROUPE_KERNELS_CPU_HEAD_NORM_ONCE
#define TROUPE_KERNELS_CPU_HEAD_NORM_ONCE
namespace troupe::kernels::cpu {
namespace {

std::int64_t heads_of(const head_norm_shape& s) {
  return s.R * s.G * s.heads;
}

/// Offset of the first element of head n.
std::int64_t place(const head_norm_shape& s, std::int64_t n) {
  const std::int64_t group = n / s.heads;
  return group / s.G * s.row + group % s.G * s.group + n % s.heads * s.D;
}

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void head_norm_heads(const head_norm_forward<T>& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t D = op.shape.D;
  const bool centred = op.shape.kind == normalization::layer;
  const vec offset = hn::Set(d, op.shape.gain_offset);
  const T *gain = op.gain, *bias = op.bias;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t at = place(op.shape, n);
    const T* x = op.x + at;
    T* y = op.y + at;

    const float mean
        = centred ? sum(D, [=](std::int64_t i, auto step) HWY_ATTR { return step.load(x + i); })
                        / float(D)
                  : 0;
    const vec middle = hn::Set(d, mean);
    const float squares = sum(D, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec away = hn::Sub(step.load(x + i), middle);
      return hn::Mul(away, away);
    });
    const float rstd = 1 / std::sqrt(squares / float(D) + op.shape.eps);

    const vec scale = hn::Set(d, rstd);
    each(D, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec xh = hn::Mul(hn::Sub(step.load(x + i), middle), scale);
      const vec g = hn::Add(step.load(gain + i), offset);
      step.store(bias ? hn::MulAdd(xh, g, step.load(bias + i)) : hn::Mul(xh, g), y + i);
    });
    if (op.mean)
      op.mean[n] = mean;
    if (op.rstd)
      op.rstd[n] = rstd;
  }
}

template <class T>
void head_norm_input_heads(const head_norm_backward_input<T>& op,
                           std::int64_t begin,
                           std::int64_t end) {
  const std::int64_t D = op.shape.D;
  const bool centred = op.shape.kind == normalization::layer;
  const vec offset = hn::Set(d, op.shape.gain_offset);
  const T* gain = op.gain;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t at = place(op.shape, n);
    const T *x = op.x + at, *dy = op.dy + at;
    T* dx = op.dx + at;
    const vec middle = hn::Set(d, centred ? op.mean[n] : 0);
    const vec scale = hn::Set(d, op.rstd[n]);
    const auto h = [=](std::int64_t i, auto step) HWY_ATTR {
      return hn::Mul(step.load(dy + i), hn::Add(step.load(gain + i), offset));
    };
    const auto xh = [=](std::int64_t i, auto step)
                        HWY_ATTR { return hn::Mul(hn::Sub(step.load(x + i), middle), scale); };
    const float h_sum = centred ? sum(D, h) : 0;
    const float hx_sum = sum(
        D, [=](std::int64_t i, auto step) HWY_ATTR { return hn::Mul(h(i, step), xh(i, step)); });
    const vec h_mean = hn::Set(d, h_sum / float(D)), hx_mean = hn::Set(d, hx_sum / float(D));
    each(D, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec along = hn::NegMulAdd(xh(i, step), hx_mean, hn::Sub(h(i, step), h_mean));
      step.store(hn::Mul(scale, along), dx + i);
    });
  }
}

// Adds `Heads` heads at once, because loading and storing the partial sums costs more than adding.
template <int Heads, class T>
HWY_INLINE void add_heads(const head_norm_backward_weight<T>& op,
                          std::int64_t n,
                          float* dgain,
                          float* dbias) {
  const T *x[Heads], *dy[Heads];
  float mean[Heads], rstd[Heads];
  for (int k = 0; k < Heads; ++k) {
    const std::int64_t at = place(op.shape, n + k);
    x[k] = op.x + at;
    dy[k] = op.dy + at;
    mean[k] = op.shape.kind == normalization::layer ? op.mean[n + k] : 0;
    rstd[k] = op.rstd[n + k];
  }
  each(op.shape.D, [&](std::int64_t i, auto step) HWY_ATTR {
    vec gain_sum = step.load(dgain + i);
    vec bias_sum = dbias ? step.load(dbias + i) : hn::Zero(d);
    for (int k = 0; k < Heads; ++k) {
      const vec up = step.load(dy[k] + i);
      const vec xh
          = hn::Mul(hn::Sub(step.load(x[k] + i), hn::Set(d, mean[k])), hn::Set(d, rstd[k]));
      gain_sum = hn::MulAdd(up, xh, gain_sum);
      bias_sum = hn::Add(bias_sum, up);
    }
    step.store(gain_sum, dgain + i);
    if (dbias)
      step.store(bias_sum, dbias + i);
  });
}

template <class T>
void head_norm_weight_heads(const head_norm_backward_weight<T>& op,
                            std::int64_t begin,
                            std::int64_t end,
                            float* dgain,
                            float* dbias) {
  std::fill_n(dgain, op.shape.D, 0.0f);
  if (dbias)
    std::fill_n(dbias, op.shape.D, 0.0f);
  std::int64_t n = begin;
  for (; n + 4 <= end; n += 4)
    add_heads<4>(op, n, dgain, dbias);
  for (; n < end; ++n)
    add_heads<1>(op, n, dgain, dbias);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(head_norm_heads);
TROUPE_EXPORT(head_norm_input_heads);
TROUPE_EXPORT(head_norm_weight_heads);

// At most 64 blocks, with at least 128 heads each. The division depends only on the number of
// heads, so the thread count does not change bits.
std::int64_t heads_of_a_block(std::int64_t heads) {
  return std::max<std::int64_t>(128, (heads + 63) / 64);
}
std::int64_t blocks_of_heads(std::int64_t heads) {
  return (heads + heads_of_a_block(heads) - 1) / heads_of_a_block(heads);
}

}  // namespace

template <class T>
void run(const head_norm_forward<T>& op, const context& in) {
  split(in.threads,
        heads_of(op.shape),
        rows_worth_a_thread(op.shape.D),
        [&](std::int64_t begin, std::int64_t end) {
          TROUPE_DISPATCH(head_norm_heads, T)(op, begin, end);
        });
}

template <class T>
void run(const head_norm_backward_input<T>& op, const context& in) {
  split(in.threads,
        heads_of(op.shape),
        rows_worth_a_thread(op.shape.D),
        [&](std::int64_t begin, std::int64_t end) {
          TROUPE_DISPATCH(head_norm_input_heads, T)(op, begin, end);
        });
}

template <class T>
std::size_t scratch(const head_norm_backward_weight<T>& op, int) {
  const std::int64_t blocks = blocks_of_heads(heads_of(op.shape));
  return sizeof(float) * std::size_t(blocks * op.shape.D * (op.dbias ? 2 : 1));
}

template <class T>
void run(const head_norm_backward_weight<T>& op, const context& in) {
  auto* partial_sums = scratch_array<float>(in, scratch(op, in.threads));
  const std::int64_t all = heads_of(op.shape), D = op.shape.D;
  const std::int64_t heads = heads_of_a_block(all), blocks = blocks_of_heads(all);
  const std::int64_t stride = D * (op.dbias ? 2 : 1);
  const std::int64_t grain = (rows_worth_a_thread(D) + heads - 1) / heads;
  split(in.threads, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      float* dgain = partial_sums + b * stride;
      TROUPE_DISPATCH(head_norm_weight_heads, T)
      (op, b * heads, std::min(all, (b + 1) * heads), dgain, op.dbias ? dgain + D : nullptr);
    }
  });
  // Single-threaded: at most 64 partial sums per element.
  for (std::int64_t c = 0; c < stride; ++c) {
    float sum = blocks > 0 ? partial_sums[c] : 0;
    for (std::int64_t b = 1; b < blocks; ++b)
      sum += partial_sums[b * stride + c];
    const bool accumulates = c < D ? op.gain_accumulates : op.bias_accumulates;
    float& total = c < D ? op.dgain[c] : op.dbias[c - D];
    total = (accumulates ? total : 0) + sum;
  }
}

template void run(const head_norm_forward<float>&, const context&);
template void run(const head_norm_forward<bf16>&, const context&);
template void run(const head_norm_forward<f16>&, const context&);
template void run(const head_norm_backward_input<float>&, const context&);
template void run(const head_norm_backward_input<bf16>&, const context&);
template void run(const head_norm_backward_input<f16>&, const context&);
template void run(const head_norm_backward_weight<float>&, const context&);
template void run(const head_norm_backward_weight<bf16>&, const context&);
template void run(const head_norm_backward_weight<f16>&, const context&);
template std::size_t scratch(const head_norm_backward_weight<float>&, int);
template std::size_t scratch(const head_norm_backward_weight<bf16>&, int);
template std::size_t scratch(const head_norm_backward_weight<f16>&, int);

}  // namespace troupe::kernels::cpu
#endif
