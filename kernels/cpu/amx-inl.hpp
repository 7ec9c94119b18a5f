// What may be said within functions for tiles. Included like vector-inl.hpp; defines
// TROUPE_TILES where the instruction set at hand is AVX-512, the one that has them beside it.
//
// Such functions stand between HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES) and HWY_POP_ATTRIBUTES,
// outside of HWY_BEFORE_NAMESPACE, and are called where multiplies_tiles() (amx.hpp).

#if defined(TROUPE_KERNELS_CPU_AMX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_AMX_INL
#undef TROUPE_KERNELS_CPU_AMX_INL
#else
#define TROUPE_KERNELS_CPU_AMX_INL
#endif

#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/vector-inl.hpp"

#undef TROUPE_TILES
#if HWY_TARGET == HWY_AVX3
#define TROUPE_TILES

#include <immintrin.h>

#undef TROUPE_TILE_ATTRIBUTES
#define TROUPE_TILE_ATTRIBUTES HWY_TARGET_STR ",avx512bf16,amx-tile,amx-bf16"
/// Of lambdas within such functions: clang does not inline into less.
#undef TROUPE_TILE_ATTR
#define TROUPE_TILE_ATTR __attribute__((target(TROUPE_TILE_ATTRIBUTES)))

HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// As long as this stands, the calling thread's eight tiles have 16 rows of 64 bytes.
class tiles_in_use {
 public:
  tiles_in_use() {
    // Palette 1 of LDTILECFG.
    struct {
      std::uint8_t palette = 1, start = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    static_assert(sizeof shape == 64);
    // Not by _tile_loadconfig: gcc 12 lets it read 8 bytes.
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  ~tiles_in_use() { _tile_release(); }
  tiles_in_use(const tiles_in_use&) = delete;
  tiles_in_use& operator=(const tiles_in_use&) = delete;
};

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

#endif  // AVX-512
#endif  // per-target include guard
