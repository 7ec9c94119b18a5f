// Scratch of attention with AMX tiles of bf16 (amx.hpp). Rows and columns are processed in strips
// of 32, which is two tiles. Private to kernels/cpu.

#pragma once

#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/op/bf16.hpp"

namespace troupe::kernels::cpu {

/// True if attention of T uses tiles on this processor, except for short sequences.
template <class T>
bool may_go_by_tiles() {
  return std::is_same_v<T, bf16> && multiplies_tiles();
}

constexpr std::int64_t strip = 32;
constexpr std::int64_t tile_numbers = 512;  ///< bf16 numbers per tile
constexpr std::int64_t scored_keys = 128;   ///< keys per step of the forward pass
constexpr int rows_asked_for = 12;          ///< rows prefetched during a product

/// Row length padded to whole strips.
constexpr std::int64_t in_strips(std::int64_t n) {
  return (n + strip - 1) / strip * strip;
}

struct tiled_forward_scratch {
  query_tile queries;  ///< without q and s
  bf16* q;             ///< (tile, Ds)
  float* s;  ///< (tile, scored_keys) scores, then bf16 probabilities in the first half of each row
  float* o;  ///< (tile, Dvs)
  float* before;  ///< (tile) maxima before the current keys
  float* sums;    ///< (tile, width of a vector) sums of probabilities
  bf16* rows;     ///< (strip, the larger of Ds and Dvs) staging for tile packing
  bf16* keys;     ///< (copied strips, Ds, strip) packed as factor b of the scores
  bf16* values;   ///< (copied strips, strip, Dvs) packed as factor b of the outputs

  tiled_forward_scratch(piece& from, std::int64_t D, std::int64_t Dv, std::int64_t copied_keys) {
    const std::int64_t Ds = in_strips(D), Dvs = in_strips(Dv), copied = tiles(copied_keys) * tile;
    queries.take_numbers(from);
    q = from.take<bf16>(tile * Ds);
    s = from.take<float>(tile * scored_keys);
    o = from.take<float>(tile * Dvs);
    before = from.take<float>(tile);
    sums = from.take<float>(tile * 16);
    rows = from.take<bf16>(strip * std::max(Ds, Dvs));
    keys = from.take<bf16>(copied * Ds);
    values = from.take<bf16>(copied * Dvs);
  }
};

struct tiled_backward_scratch {
  query_tile queries;     ///< without q and s
  std::int32_t* hidden;   ///< (tile) as in `queries`, relative to the current key tile
  std::int32_t* visible;  ///< (tile)
  std::uint64_t* kept;    ///< (tile) one bit per key of the tile
  bf16* rows;             ///< (tile, the larger of Ds and Dvs) staging for tile packing
  bf16* q_columns;        ///< (tile, Ds) packed as factor b of the scores
  bf16* d_o_columns;      ///< (tile, Dvs)
  bf16* q_pairs;          ///< (tile, Ds) packed as factor b of dk
  bf16* d_o_pairs;        ///< (tile, Dvs) packed as factor b of dv
  float* s;               ///< (tile of keys, tile of queries)
  float* dp;              ///< (tile of keys, tile of queries)
  bf16* p;                ///< (tile of keys, tile of queries)
  bf16* ds;               ///< (tile of keys, tile of queries)
  bf16* ds_pairs;         ///< (tile of keys, tile of queries) packed as factor b of dq
  float* dq_columns;      ///< (Ds, tile)
  float* dq;              ///< (tile, Ds)
  bf16* keys;             ///< (tiles * tile, Ds)
  bf16* values;           ///< (tiles * tile, Dvs)
  bf16* key_columns;      ///< (tiles * 2, Ds, strip)
  float* dk;              ///< (tiles * tile, Ds)
  float* dv;              ///< (tiles * tile, Dvs)

  tiled_backward_scratch(piece& from, std::int64_t D, std::int64_t Dv, std::int64_t key_tiles) {
    const std::int64_t Ds = in_strips(D), Dvs = in_strips(Dv), rows_of_keys = key_tiles * tile;
    queries.take_numbers(from);
    hidden = from.take<std::int32_t>(tile);
    visible = from.take<std::int32_t>(tile);
    kept = from.take<std::uint64_t>(tile);
    rows = from.take<bf16>(tile * std::max(Ds, Dvs));
    for (bf16** one : {&q_columns, &q_pairs})
      *one = from.take<bf16>(tile * Ds);
    for (bf16** one : {&d_o_columns, &d_o_pairs})
      *one = from.take<bf16>(tile * Dvs);
    s = from.take<float>(tile * tile);
    dp = from.take<float>(tile * tile);
    for (bf16** one : {&p, &ds, &ds_pairs})
      *one = from.take<bf16>(tile * tile);
    dq_columns = from.take<float>(Ds * tile);
    dq = from.take<float>(tile * Ds);
    for (bf16** one : {&keys, &key_columns})
      *one = from.take<bf16>(rows_of_keys * Ds);
    values = from.take<bf16>(rows_of_keys * Dvs);
    dk = from.take<float>(rows_of_keys * Ds);
    dv = from.take<float>(rows_of_keys * Dvs);
  }
};

}  // namespace troupe::kernels::cpu
