// Compiler attributes and setup for functions that use AMX tiles. Included like vector-inl.hpp.
// Defines TROUPE_TILES if the current instruction set is AVX-512, the only one combined with tiles.
//
// Such functions are placed between HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES) and
// HWY_POP_ATTRIBUTES, outside HWY_BEFORE_NAMESPACE. Call them only if multiplies_tiles() (amx.hpp).

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
/// Attribute of lambdas inside such functions: clang does not inline code into a function with
/// fewer features.
#undef TROUPE_TILE_ATTR
#define TROUPE_TILE_ATTR __attribute__((target(TROUPE_TILE_ATTRIBUTES)))

HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// While alive, configures the calling thread's eight tiles for products of `terms` terms: an even
/// number, at most 32. Sums, in tiles 0 to 3, have 16 rows of 64 bytes. Factors a, in tiles 4 and
/// 5, have 16 rows of `terms` numbers. Factors b, in tiles 6 and 7, have `terms` / 2 rows of 64
/// bytes.
class tiles_in_use {
 public:
  explicit tiles_in_use(std::int64_t terms = block_side) {
    // The format of LDTILECFG, palette 1.
    struct {
      std::uint8_t palette = 1, start = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    static_assert(sizeof shape == 64);
    shape.bytes[4] = shape.bytes[5] = std::uint16_t(2 * terms);
    shape.rows[6] = shape.rows[7] = std::uint8_t(terms / 2);
    // Inline assembly, because gcc 12 assumes that _tile_loadconfig reads only 8 bytes.
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
