// Finds the rank that computed wrong bits when ranks differ that must be alike: a state machine
// without actors and clock.
//
//   what the ranks reported of a step -> whether it may continue, and verdicts
//
// docs/protocol/verification.md has its table.
//
//   VERIFY-1  When most of three or more ranks agree, one computation convicts the others.
//             Otherwise a verdict needs a second run of the step.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors {

/// Compared values, by their point in the step.
enum class checked_bits : std::uint8_t {
  passes,     ///< recomputed by another rank
  gradients,  ///< voted
  state,      ///< after the update
};

/// The digests that ranks reported of something that must be alike.
struct ballot {
  int first = 0;                          ///< the first of these ranks
  std::uint64_t what = 0;                 ///< unique among the ballots of this rank
  std::vector<int> ranks;                 ///< of the job
  std::vector<runtime::digest> digests;   ///< one per rank
  std::set<std::string> parameters = {};  ///< that differ, if values of parameters are compared
};

enum class bits_verdict : std::uint8_t {
  undecided,       ///< the step must run again
  outvoted,        ///< most ranks agreed; these differed
  transient,       ///< wrong once; the second run agreed with the others
  persistent,      ///< wrong in the second run as well, or right only in another place
  irreproducible,  ///< every value changed in the second run
  reproducible,    ///< not finite (second_run.hpp), with the same bits in the second run
};
std::string to_string(bits_verdict x);

struct wrong_bits {
  bits_verdict verdict = {};
  int first = 0;  ///< as in the ballot
  std::uint64_t what = 0;
  /// The wrong ranks; for `undecided` and `irreproducible`: those that differ from each other.
  std::vector<int> ranks;
  /// The wrong ranks in places that are no longer trusted. They are exchanged, one at a time if
  /// necessary (docs/protocol/verification.md).
  std::vector<int> replaced;
  std::set<std::string> parameters = {};  ///< that last differed

  friend bool operator==(const wrong_bits&, const wrong_bits&) = default;
};

class cross_check {
 public:
  struct answer {
    bool alike = true;  ///< false: the step runs again
    std::vector<wrong_bits> found = {};
  };
  answer compare(std::uint64_t step, checked_bits what, const std::vector<ballot>& all);
  /// Some ballots are not settled. Without any, those of alike ranks may be left out.
  bool has_open_cases() const { return !open_.empty(); }

 private:
  using bits = std::vector<runtime::digest>;
  /// A ballot without a verdict since its first computation.
  struct open_case {
    bits before;                       ///< the newest computation
    bool again = false;                ///< the second run differed as well
    std::set<int> exchanged;           ///< ranks in places that were replaced because of it
    std::set<std::string> parameters;  ///< that differed
  };
  struct key {
    checked_bits point = {};
    std::uint64_t step = 0;
    int first = 0;
    std::uint64_t what = 0;
    auto operator<=>(const key&) const = default;
  };

  static wrong_bits settle(const open_case& open, const ballot& now);
  wrong_bits differ(const key& which, const ballot& now);
  static wrong_bits differ_again(open_case& open, const ballot& now);
  void blame(const wrong_bits& x);

  std::map<key, open_case> open_;
  std::set<int> blamed_;  ///< ranks of all verdicts so far
};

}  // namespace troupe::actors
