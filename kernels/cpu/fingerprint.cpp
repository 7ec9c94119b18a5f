#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/grains.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fingerprint.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/fingerprint-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

void fingerprint_grain(const std::uint32_t* x,
                       std::int64_t n,
                       std::uint64_t key,
                       std::uint64_t (&sums)[2]) {
  add_fingerprint(x, 0, n, key, sums);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(fingerprint_grain);

template <class T>
void run(const fingerprint<T>& op, const context& in) {
  fingerprint_results results(op.results, op.count);
  split_grains(in.threads, op, [&](const grain_of_piece& g) {
    const auto& piece = op.pieces[g.piece];
    std::uint64_t sums[2] = {};
    HWY_DYNAMIC_DISPATCH(fingerprint_grain)
    (static_cast<const std::uint32_t*>(piece.x) + g.begin, g.n, piece.keys[g.number], sums);
    results.add(g.piece, sums);
  });
}

template void run(const fingerprint<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
