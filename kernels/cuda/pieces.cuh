// One launch over many arrays: a table of the arrays is passed by value, and tiles are numbered
// over all of them.
//
// A `Piece` has a member `first`: the number of its first tile in this launch. Pieces without tiles
// are left out.

#pragma once

#include "kernels/cuda/device.cuh"

namespace troupe::kernels::cuda {

/// A table of pieces for the 4 KiB of kernel parameters, with room for a few other parameters.
template <class Piece>
struct piece_table {
  static constexpr int most = int(3840 / sizeof(Piece));
  Piece piece[most];
  int count = 0;

  /// The piece that contains a tile.
  __device__ __forceinline__ int find(std::int64_t tile) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (piece[middle].first <= tile)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

/// Number of tiles of an array in grains; a tile lies in one grain.
constexpr std::int64_t tiles_in_grains(std::int64_t n, std::int64_t grain, std::int64_t tile) {
  const std::int64_t whole = n / grain;
  return whole * ceil_div(grain, tile) + ceil_div(n - whole * grain, tile);
}

/// Calls start(table, number of tiles, tiles before them) for the pieces make(0) to make(count -
/// 1).
template <class Piece, class Make, class Tiles, class Start>
void in_tables(std::int64_t count, const Make& make, const Tiles& tiles_of, const Start& start) {
  piece_table<Piece> table;
  std::int64_t tiles = 0, before = 0;
  const auto flush = [&] {
    if (table.count > 0)
      start(table, tiles, before);
    before += tiles;
    tiles = 0;
    table.count = 0;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    Piece piece = make(i);
    const std::int64_t own = tiles_of(piece);
    if (own == 0)
      continue;
    piece.first = tiles;
    table.piece[table.count++] = piece;
    tiles += own;
    if (table.count == table.most)
      flush();
  }
  flush();
}

}  // namespace troupe::kernels::cuda
