// Square norms and fingerprints of the reduced gradients that a rank owns: of each as soon as it is
// final, while it is near, and in one pass.

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

/// Square norms of the reduced gradients of each parameter, by name. They add up exactly, in any
/// order and from any parts, so that no layout of the data and pipeline axes changes their bits. A
/// tied parameter counts once, on the side of its owner; one that every tensor rank has, on the
/// first.
using square_norms = std::map<std::string, exact_sum>;

double total_norm(const square_norms& parts);

/// Adds what other ranks hold of the same or other parameters.
void add_to(square_norms& sum, const square_norms& part);

/// What is known beforehand of the gradients of a store.
struct gradient_prospects {
  /// Of each entry: something is added to it after it was summed over replicas. Empty: to none.
  std::vector<char> added_to_later = {};
  /// Others have the same gradients, with which these are compared: fingerprints are wanted.
  bool compared = false;
};

/// Of ranges of the gradients of replica 0 of a store, which outlives it. What is taken before the
/// end is read no second time.
class gradient_norms {
 public:
  struct range {
    entry_range at;
    bool answered = true;                  ///< by this rank: norms are of these alone
    std::vector<std::uint64_t> keys = {};  ///< of the fingerprints of its grains
  };

  gradient_norms(const parameter_store& store,
                 std::vector<range> ranges,
                 memory_pool& pool,
                 std::int64_t grain,
                 const gradient_prospects& prospects);

  /// The gradients change again: nothing is taken.
  void forget();

  /// Entries [first, end) have been summed over replicas. What nothing is added to any more is
  /// taken, unless it was. Any lane: no other touches these entries meanwhile, and who reads later
  /// waits for its stream.
  void take(stream& by, int first, int end);

  // All gradients are final. What was not taken is, in one pass for both where both are asked for.

  /// `norms` and `digests`, one of each range in the order in which they were given, are filled
  /// when the reads finish. Null: not wanted.
  void read(reads& by, square_norms* norms, std::vector<digest>* digests) const;

 private:
  /// How much was taken of a range.
  enum class taken : char { nothing, norms, fingerprints_too };
  struct piece {
    range of;
    std::size_t number;        ///< of the range, as it was given
    bool final_when_summed;    ///< and wanted then
    std::int64_t first_grain;  ///< of all pieces' grains
  };

  void run(stream& by, std::size_t begin, std::size_t end, bool with_fingerprints) const;
  /// Calls run for the stretches of pieces of which due(number) is true.
  template <class Due>
  void run_due(stream& by, bool with_fingerprints, const Due& due) const;

  const parameter_store& store_;
  std::int64_t grain_;
  bool compared_;
  std::vector<piece> pieces_;  ///< first those that are final when they are summed
  std::vector<taken> taken_;   ///< of each of these
  tensor keys_;                ///< (grains)
  tensor squares_;             ///< (grains)
  tensor fingerprints_;        ///< (pieces, 2)
};

}  // namespace troupe::runtime
