// Tiles of bf16 (Intel AMX): eight registers of 16 rows of 64 bytes, multiplied 16 x 32 by 32 x 16
// at once; Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
//
// A factor a lies in a tile as 16 rows of 32 terms, a factor b as 16 rows of 16 columns of two
// terms each. Denormal numbers count as zero.

#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::kernels::cpu {

constexpr std::int64_t tile_bytes = 1024;
constexpr std::int64_t block_side = 32;  ///< of four tiles of sums; and terms of a step

/// A float is the sum of three bf16, each the nearest to what those before it leave. Of the nine
/// products of two such, the three smallest are left out: at most 1.001 times 2^-24 of the product,
/// which is what rounding it to float may change. Henry, Tang, Heinecke: "Leveraging the bfloat16
/// Artificial Intelligence Datatype For Higher-Precision Computations", 2019.
template <class T>
constexpr int pieces_of = std::is_same_v<T, float> ? 3 : 1;
/// A square of a factor, 32 rows of a (columns of b) times 32 terms: two tiles of each piece.
template <class T>
constexpr std::int64_t square_bytes = pieces_of<T> * 2 * tile_bytes;

/// Whether this processor multiplies such tiles beside AVX-512, and the operating system lets this
/// process, which this asks for, once. Not where ONEDNN_MAX_CPU_ISA forbids it to oneDNN.
bool multiplies_tiles();

}  // namespace troupe::kernels::cpu
