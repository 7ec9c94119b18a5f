// The tile grid and thread scratch that both attention passes share. Private to kernels/cpu.
//
// Tiles have 64 query rows and 64 keys, on a grid that starts at the first row of each sequence. So
// the bits of a query row do not depend on how tiles are assigned to threads. Key positions ascend,
// so two numbers per query row describe causality and window: of the first `visible` keys of its
// sequence the row sees all but the first `hidden`.

#pragma once

#include "kernels/op/attention.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels::cpu {

constexpr std::int64_t tile = 64;           ///< query rows per tile; also keys per tile
static_assert(attention_page % tile == 0);  // a tile of keys is in one page

/// Sequences with at most this many queries read keys and values in place, unless their bits must
/// not depend on that; copying would cost more.
constexpr std::int64_t few_queries = 4;

/// Floats in a padded row of a head: a whole number of vectors in every instruction set.
constexpr std::int64_t padded(std::int64_t D) {
  return (D + 15) / 16 * 16;
}
constexpr std::int64_t tiles(std::int64_t rows) {
  return (rows + tile - 1) / tile;
}

/// Hands out aligned pieces of a thread's scratch. With null memory, only counts the bytes.
class piece {
 public:
  explicit piece(std::byte* begin) : begin_(begin) {}

  template <class T>
  T* take(std::int64_t n) {
    const std::size_t at = used_;
    used_ += (std::size_t(n) * sizeof(T) + 63) / 64 * 64;
    return begin_ ? reinterpret_cast<T*>(begin_ + at) : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* begin_;
  std::size_t used_ = 0;
};

/// State of one tile of query rows.
struct query_tile {
  std::int64_t* hidden;   ///< (tile) index of the first key that each row sees
  std::int64_t* visible;  ///< (tile) index after the last key that each row sees
  std::uint32_t* words;   ///< (tile + 32) random words for one row
  float* q;               ///< (tile, Dp) scaled
  float* s;               ///< (tile, tile) scores, then probabilities
  float* row;             ///< (2, tile) forward: maximum, sum; backward: lse, delta
  std::int64_t rows;
  std::int64_t start;  ///< the smallest `hidden`
  std::int64_t reach;  ///< the largest `visible`

  void take(piece& from, std::int64_t Dp) {
    take_numbers(from);
    q = from.take<float>(tile * Dp);
    s = from.take<float>(tile * tile);
  }
  /// Takes all arrays but q and s.
  void take_numbers(piece& from) {
    hidden = from.take<std::int64_t>(tile);
    visible = from.take<std::int64_t>(tile);
    words = from.take<std::uint32_t>(tile + 32);
    row = from.take<float>(2 * tile);
  }
};

/// One sequence of the batch.
struct sequence {
  std::int64_t query, queries;  ///< first query row, number of query rows
  std::int64_t key, keys;       ///< first key row, number of key rows

  sequence(const attention_shape& a, std::int64_t s)
      : query(a.query_starts[s]),
        queries(a.query_starts[s + 1] - query),
        key(a.key_starts[s]),
        keys(a.key_starts[s + 1] - key) {}

  /// Index of the lse of query row `first` of this sequence; the following rows are adjacent.
  std::int64_t lse_at(std::int64_t H, std::int64_t head, std::int64_t first) const {
    return kernels::lse_at(H, query, query + queries, head, query + first);
  }
};

/// True for a sequence whose keys and values are read in place.
inline bool reads_in_place(const attention_shape& a, const sequence& in) {
  return in.queries <= few_queries && !a.row_invariant;
}

struct longest {
  std::int64_t queries = 0;
  std::int64_t keys = 0;         ///< in any sequence
  std::int64_t copied_keys = 0;  ///< in sequences that are not read in place
};

inline longest longest_of(const attention_shape& a) {
  longest most;
  for (std::int64_t s = 0; s < a.S; ++s) {
    const sequence one(a, s);
    most.queries = std::max(most.queries, one.queries);
    most.keys = std::max(most.keys, one.keys);
    if (!reads_in_place(a, one))
      most.copied_keys = std::max(most.copied_keys, one.keys);
  }
  return most;
}

/// A unit of work for one thread: tiles first, first + step, ... of one sequence and group.
struct part {
  std::int64_t s, g;
  std::int64_t first, step;
};

}  // namespace troupe::kernels::cpu
