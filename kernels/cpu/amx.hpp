// Detection and constants of Intel AMX tiles of bf16: eight registers of 16 rows of 64 bytes. One
// instruction multiplies 16 x 32 by 32 x 16. Source: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 1, chapter 18.
//
// A tile of factor a has 16 rows of 32 terms. A tile of factor b has 16 rows, each with two terms
// of 16 columns. Denormal numbers count as zero.

#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::kernels::cpu {

constexpr std::int64_t tile_bytes = 1024;
constexpr std::int64_t block_side
    = 32;  ///< side of a block of four result tiles; also terms per step

/// Number of bf16 pieces per element. A float is split into three bf16, each nearest to the
/// remainder. The three smallest of the nine partial products are left out: an error of at most
/// 1.001 * 2^-24 of the product, like rounding it to float. Henry, Tang, Heinecke: "Leveraging the
/// bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019.
template <class T>
constexpr int pieces_of = std::is_same_v<T, float> ? 3 : 1;
/// Bytes of a packed square: 32 rows of a (columns of b) by 32 terms, two tiles per piece.
template <class T>
constexpr std::int64_t square_bytes = pieces_of<T> * 2 * tile_bytes;

/// True if the processor has AVX-512 and AMX-BF16 and the operating system permits tiles. The first
/// call requests the permission. False if ONEDNN_MAX_CPU_ISA excludes AMX.
bool multiplies_tiles();

}  // namespace troupe::kernels::cpu
