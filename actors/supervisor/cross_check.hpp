// Who computed wrong bits, where replicas do not have alike what they must: a pure machine.
//
//   what the replicas reported of a step -> whether it may go on, and verdicts
//
// It knows no actor and no clock. docs/protocol/verification.md has its table.
//
//   VERIFY-1  Where most of three or more replicas agree, who does not is guilty: by one
//             computation. Else nobody is named by one computation, but by the step that runs
//             again.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// What is compared, at which point of the step.
enum class checked_bits : std::uint8_t {
  passes,     ///< that another replica has computed again
  gradients,  ///< voted
  state,      ///< after the update
};

/// What those who must have the same have of one stage, or of one of its passes.
struct ballot {
  int stage = 0;           ///< counts the stages of a replica
  std::uint64_t pass = 0;  ///< any number of its own
  std::vector<int> replicas;
  std::vector<runtime::digest> digests;  ///< of each of these
};
/// Of whole replicas: by replica, then by stage.
std::vector<ballot> ballots_of(const std::vector<std::vector<runtime::digest>>& digests);

enum class bits_verdict : std::uint8_t {
  undecided,       ///< the step has to run again
  outvoted,        ///< most replicas had the same, these had not
  transient,       ///< wrong once; when the step ran again they had what the others have
  persistent,      ///< wrong again when it ran again, or only right in another place
  irreproducible,  ///< when it ran again, nobody had what he had before
  reproducible,    ///< not finite (second_run.hpp), with the same bits when it ran again
};
std::string to_string(bits_verdict x);

struct wrong_bits {
  bits_verdict verdict = {};
  int stage = 0;           ///< as of the ballot
  std::uint64_t pass = 0;  ///< the same
  /// Guilty; of `undecided` and `irreproducible`: those that differ from one another.
  std::vector<int> replicas;
  /// Of them, those whose place is not to be trusted any more: they are to be exchanged, when it is
  /// their turn (docs/protocol/verification.md).
  std::vector<int> replaced;
  /// What they differed in when they last did, as `compare` was told.
  std::string parameters = {};

  friend bool operator==(const wrong_bits&, const wrong_bits&) = default;
};

class cross_check {
 public:
  struct answer {
    bool alike = true;  ///< else the step runs again
    std::vector<wrong_bits> found = {};
  };
  /// `parameters`: in which they differ, in words; of the one that is decided later it is known
  /// then what they had differed in.
  answer compare(std::uint64_t step,
                 checked_bits what,
                 const std::vector<ballot>& all,
                 const std::string& parameters = {});

 private:
  using bits = std::vector<runtime::digest>;
  /// A stage of which nobody knows yet who is right, since it was first computed.
  struct open_case {
    bits before;              ///< the newest computation
    bool again = false;       ///< it has run again, and differed again
    std::set<int> exchanged;  ///< replicas whose place was replaced because of it
    std::string parameters;   ///< in which they differed
  };
  struct key {
    checked_bits what = {};
    std::uint64_t step = 0;
    int stage = 0;
    std::uint64_t pass = 0;
    auto operator<=>(const key&) const = default;
  };

  static wrong_bits settle(const open_case& open, const ballot& now);
  wrong_bits differ(const key& which, const ballot& now);
  static wrong_bits differ_again(open_case& open, const ballot& now);
  void blame(const wrong_bits& x);

  std::map<key, open_case> open_;
  std::set<std::pair<int, int>> blamed_;  ///< replica and stage, of all verdicts so far
};

}  // namespace troupe::actors
