#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/grains.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sum.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fingerprint-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void add_range(const add<T>& op, std::int64_t begin, std::int64_t end) {
  const T *a = op.a + begin, *b = op.b + begin;
  T* y = op.y + begin;
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    step.store(hn::Add(step.load(a + i), step.load(b + i)), y + i);
  });
}

template <class T>
void ordered_sum_range(const ordered_sum<T>& op, std::int64_t begin, std::int64_t end) {
  const T* const* x = op.x;
  const std::int64_t sources = op.sources;
  T* y = op.y + begin;
  const vec scale = hn::Set(d, op.scale);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    vec s = sources > 0 ? step.load(x[0] + begin + i) : hn::Zero(d);
    for (std::int64_t k = 1; k < sources; ++k)
      s = hn::Add(s, step.load(x[k] + begin + i));
    step.store(hn::Mul(s, scale), y + i);
  });
}

// The square of a float is exact in double, so FMA and vector width do not change the bits. There
// are 16 running sums, in as many vectors as needed.
double square_norm_block(const float* x, std::int64_t n) {
  const hn::CappedTag<double, square_norm<float>::lanes> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr int step = hn::MaxLanes(wide);
  constexpr int vectors = square_norm<float>::lanes / step;

  hn::Vec<decltype(wide)> running[vectors];
  for (auto& v : running)
    v = hn::Zero(wide);
  std::int64_t i = 0;
  for (; i + vectors * step <= n; i += vectors * step)
    for (int k = 0; k < vectors; ++k) {
      const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, x + i + k * step));
      running[k] = hn::MulAdd(value, value, running[k]);
    }

  alignas(64) double lane[square_norm<float>::lanes];
  for (int k = 0; k < vectors; ++k)
    hn::Store(running[k], wide, lane + k * step);
  for (int l = 0; i + l < n; ++l)
    lane[l] += double(x[i + l]) * double(x[i + l]);
  double total = 0;
  for (const double l : lane)
    total += l;
  return total;
}

/// Sum of squares of a grain, block by block.
double square_norm_grain(const float* x, std::int64_t n) {
  double total = 0;
  for (std::int64_t i = 0; i < n; i += square_norm<float>::block)
    total += square_norm_block(x + i, std::min(square_norm<float>::block, n - i));
  return total;
}

/// square_norm_grain that also adds the fingerprint of each block while the block is in the L1
/// cache.
double square_norm_and_fingerprint(const float* x,
                                   std::int64_t n,
                                   std::uint64_t key,
                                   std::uint64_t (&sums)[2]) {
  double total = 0;
  for (std::int64_t i = 0; i < n; i += square_norm<float>::block) {
    const auto some = std::min(square_norm<float>::block, n - i);
    total += square_norm_block(x + i, some);
    add_fingerprint(x + i, i, some, key, sums);
  }
  return total;
}

void square_norm_blocks(const square_norm<float>& op,
                        double* of_block,
                        std::int64_t begin,
                        std::int64_t end) {
  for (std::int64_t b = begin; b < end; ++b)
    of_block[b] = square_norm_block(op.x + b * op.block, std::min(op.block, op.n - b * op.block));
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(add_range);
TROUPE_EXPORT(ordered_sum_range);
HWY_EXPORT(square_norm_blocks);
HWY_EXPORT(square_norm_grain);
HWY_EXPORT(square_norm_and_fingerprint);

template <class T>
void run(const add<T>& op, const context& in) {
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(add_range, T)(op, begin, end);
  });
}

template <class T>
void run(const ordered_sum<T>& op, const context& in) {
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(ordered_sum_range, T)(op, begin, end);
  });
}

std::size_t scratch(const square_norm<float>& op, int threads) {
  return workspace_bytes(op, threads);
}

template <class T>
void run(const square_norm<T>& op, const context& in) {
  auto* of_block = scratch_array<double>(in, scratch(op, in.threads));
  const std::int64_t blocks = (op.n + op.block - 1) / op.block;
  const std::int64_t grain = elements_worth_a_thread / op.block;
  split(in.threads, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(square_norm_blocks)(op, of_block, begin, end);
  });
  double total = 0;
  for (std::int64_t b = 0; b < blocks; ++b)
    total += of_block[b];
  *op.result = total;
}

template <class T>
void run(const square_norms<T>& op, const context& in) {
  if (op.fingerprints) {
    fingerprint_results prints(op.fingerprints, op.count);
    split_grains(in.threads, op, [&](const grain_of_piece& at) {
      const auto& piece = op.pieces[at.piece];
      std::uint64_t sums[2] = {};
      op.results[at.before + at.number] = HWY_DYNAMIC_DISPATCH(square_norm_and_fingerprint)(
          piece.x + at.begin, at.n, piece.keys[at.number], sums);
      prints.add(at.piece, sums);
    });
    return;
  }
  split_grains(in.threads, op, [&](const grain_of_piece& at) {
    op.results[at.before + at.number]
        = HWY_DYNAMIC_DISPATCH(square_norm_grain)(op.pieces[at.piece].x + at.begin, at.n);
  });
}

template void run(const add<float>&, const context&);
template void run(const add<bf16>&, const context&);
template void run(const add<f16>&, const context&);
template void run(const ordered_sum<float>&, const context&);
template void run(const ordered_sum<bf16>&, const context&);
template void run(const ordered_sum<f16>&, const context&);
template void run(const square_norm<float>&, const context&);
template void run(const square_norms<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
