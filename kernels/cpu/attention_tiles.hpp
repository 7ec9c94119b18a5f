// The scratch of attention in tiles of bf16 (amx.hpp). Rows and columns go in strips of 32: two
// tiles.
//
// Private to kernels/cpu.

#pragma once

#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/op/bf16.hpp"

namespace troupe::kernels::cpu {

/// Whether attention of T is computed in tiles here, but for short sequences.
template <class T>
bool may_go_by_tiles() {
  return std::is_same_v<T, bf16> && multiplies_tiles();
}

constexpr std::int64_t strip = 32;
constexpr std::int64_t tile_numbers = 512;  ///< of bf16, in one tile
constexpr std::int64_t scored_keys = 128;   ///< of the forward pass at a time
constexpr int rows_asked_for = 12;          ///< of memory, beside a product

/// Numbers in a row that is padded to whole strips.
constexpr std::int64_t in_strips(std::int64_t n) {
  return (n + strip - 1) / strip * strip;
}

struct tiled_forward_scratch {
  query_tile queries;  ///< without q and s
  bf16* q;             ///< (tile, Ds)
  float* s;  ///< (tile, scored_keys) scores; then bf16 probabilities in the first half of each row
  float* o;  ///< (tile, Ds)
  float* before;  ///< (tile) maxima before the keys at work
  float* sums;    ///< (tile, width of a vector) of probabilities
  bf16* rows;     ///< (strip, Ds) on the way into tiles
  bf16* keys;     ///< (copied strips, Ds, strip) factors b of scores
  bf16* values;   ///< (copied strips, strip, Ds) factors b of outputs

  tiled_forward_scratch(piece& from, std::int64_t D, std::int64_t copied_keys) {
    const std::int64_t Ds = in_strips(D), copied = tiles(copied_keys) * tile;
    queries.take_numbers(from);
    q = from.take<bf16>(tile * Ds);
    s = from.take<float>(tile * scored_keys);
    o = from.take<float>(tile * Ds);
    before = from.take<float>(tile);
    sums = from.take<float>(tile * 16);
    rows = from.take<bf16>(strip * Ds);
    keys = from.take<bf16>(copied * Ds);
    values = from.take<bf16>(copied * Ds);
  }
};

struct tiled_backward_scratch {
  query_tile queries;     ///< without q and s
  std::int32_t* hidden;   ///< (tile) as those of `queries`, from the first key of the tile at work
  std::int32_t* visible;  ///< (tile)
  std::uint64_t* kept;    ///< (tile) a bit for each key of the tile
  bf16* rows;             ///< (tile, Ds) on the way into tiles
  bf16* q_columns;        ///< (tile, Ds) factors b of scores
  bf16* d_o_columns;      ///< (tile, Ds)
  bf16* q_pairs;          ///< (tile, Ds) factors b of dk
  bf16* d_o_pairs;        ///< (tile, Ds) and of dv
  float* s;               ///< (tile of keys, tile of queries)
  float* dp;              ///< (tile of keys, tile of queries)
  bf16* p;                ///< (tile of keys, tile of queries)
  bf16* ds;               ///< (tile of keys, tile of queries)
  bf16* ds_pairs;         ///< (tile of keys, tile of queries) factors b of dq
  float* dq_columns;      ///< (Ds, tile)
  float* dq;              ///< (tile, Ds)
  bf16* keys;             ///< (tiles * tile, Ds)
  bf16* values;           ///< (tiles * tile, Ds)
  bf16* key_columns;      ///< (tiles * 2, Ds, strip)
  float* dk;              ///< (tiles * tile, Ds)
  float* dv;              ///< (tiles * tile, Ds)

  tiled_backward_scratch(piece& from, std::int64_t D, std::int64_t key_tiles) {
    const std::int64_t Ds = in_strips(D), of_keys = key_tiles * tile * Ds;
    queries.take_numbers(from);
    hidden = from.take<std::int32_t>(tile);
    visible = from.take<std::int32_t>(tile);
    kept = from.take<std::uint64_t>(tile);
    for (bf16** one : {&rows, &q_columns, &d_o_columns, &q_pairs, &d_o_pairs})
      *one = from.take<bf16>(tile * Ds);
    s = from.take<float>(tile * tile);
    dp = from.take<float>(tile * tile);
    for (bf16** one : {&p, &ds, &ds_pairs})
      *one = from.take<bf16>(tile * tile);
    dq_columns = from.take<float>(Ds * tile);
    dq = from.take<float>(tile * Ds);
    for (bf16** one : {&keys, &values, &key_columns})
      *one = from.take<bf16>(of_keys);
    dk = from.take<float>(of_keys);
    dv = from.take<float>(of_keys);
  }
};

}  // namespace troupe::kernels::cpu
