// Square norms and fingerprints of a rank's reduced gradients. Each gradient is read once, as soon
// as it is final and still in the cache.

#pragma once

#include "runtime/core/exact_sum.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/parameters/buckets.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/reads.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Square norms of the reduced gradients by parameter name. Sums are exact in any order and
/// grouping, so the layout of the data and pipeline axes does not change their bits. A tied
/// parameter counts once, on its owner's side. A parameter replicated over the tensor ranks counts
/// on the first one.
using square_norms = std::map<std::string, exact_sum>;

double total_norm(const square_norms& parts);

/// Adds the norms of other ranks.
void add_to(square_norms& sum, const square_norms& part);

/// Facts about the gradients of a store that are known before the step.
struct gradient_prospects {
  /// One flag per entry: nonzero if gradients are added after the all-reduce. Empty: none.
  std::vector<char> added_to_later = {};
  /// Other replicas have the same gradients to compare with, so fingerprints are computed.
  bool compared = false;
};

/// Norms and fingerprints of ranges of the gradients of replica 0 of a store, which outlives it.
/// Gradients that take() has read are not read again by read().
class gradient_norms {
 public:
  struct range {
    entry_range at;
    bool answered = true;                  ///< true: this rank reports the norms of this range
    std::vector<std::uint64_t> keys = {};  ///< keys of the fingerprints of its grains
  };

  gradient_norms(const parameter_store& store,
                 std::vector<range> ranges,
                 memory_pool& pool,
                 std::int64_t grain,
                 const gradient_prospects& prospects);

  /// Discards all results, because the gradients will change.
  void forget();

  /// Entries [first, end) have been reduced over replicas: reads those that are final and not yet
  /// read. Any lane may call it, if no other lane touches these entries meanwhile. Later readers
  /// must wait for its stream.
  void take(stream& by, int first, int end);

  /// All gradients are final: reads the rest in one pass. Fills `norms`, and `digests` with one
  /// digest per range, in the order given, when the reads finish. Null: not wanted.
  void read(reads& by, square_norms* norms, std::vector<digest>* digests) const;

 private:
  /// Results that take() has computed for a piece.
  enum class taken : char { nothing, norms, fingerprints_too };
  struct piece {
    range of;
    std::size_t number;        ///< index of its range
    bool final_when_summed;    ///< final after the all-reduce, and read then
    std::int64_t first_grain;  ///< index among the grains of all pieces
  };

  void run(stream& by, std::size_t begin, std::size_t end, bool with_fingerprints) const;
  /// Calls run for each stretch of consecutive pieces for which due(number) is true.
  template <class Due>
  void run_due(stream& by, bool with_fingerprints, const Due& due) const;

  const parameter_store& store_;
  std::int64_t grain_;
  bool compared_;
  std::vector<piece> pieces_;  ///< pieces that are final after the all-reduce come first
  std::vector<taken> taken_;   ///< by piece, for these first pieces
  tensor keys_;                ///< (grains)
  tensor squares_;             ///< (grains)
  tensor fingerprints_;        ///< (pieces, 2)
};

}  // namespace troupe::runtime
