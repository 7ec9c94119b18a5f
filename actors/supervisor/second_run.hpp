// Whether a step that is not finite is so because of its data, or because somebody computed wrong:
// a pure machine.
//
//   what a run of a step came to, as it was voted -> run it again, or a verdict
//
// A step is a pure function of state, data and number. It knows no actor and no clock.
// docs/protocol/verification.md has its table.
//
//   VERIFY-3  A step whose loss or gradient is not finite is judged when it has run twice, and is
//             not run again for that a third time with the bits that it was judged by.

#pragma once

#include "actors/supervisor/cross_check.hpp"
#include "messages/training/step.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// The bits of one run of a step, and what of them is not finite.
struct run_of_step {
  std::string fault = {};  ///< in words; empty: all is finite
  std::string where = {};  ///< the stage whose gradient is not, "0.1" or "0.1.0"; empty: all are
  struct loss {
    int replica = 0;
    std::uint64_t bits = 0;
    friend bool operator==(const loss&, const loss&) = default;
  };
  std::vector<loss> losses = {};
  std::vector<runtime::digest> gradients = {};  ///< what each replica voted, of all its stages
  std::map<std::string, runtime::exact_sum> norms = {};  ///< by parameter, over all replicas

  bool has_bits_of(const run_of_step& x) const {
    return losses == x.losses && gradients == x.gradients && norms == x.norms;
  }
};
/// Of the votes of all replicas, in their order. `sums_norms`: each has voted a part of them.
run_of_step run_of(const std::vector<messages::vote>& votes, bool sums_norms);

class second_runs {
 public:
  struct finding {
    bits_verdict verdict = {};  ///< reproducible, transient or persistent
    std::string fault;          ///< of the first run
    /// Whose loss was another one, or is not finite where nothing was: only gradients are where
    /// none.
    std::vector<int> replicas = {};
    /// The stage whose gradient was found not finite first, as run_of_step has it; empty: none.
    std::string where = {};
    /// With this one: that were transient, in this run, of whom of `replicas` had most.
    int transients = 0;
  };
  struct answer {
    bool again = false;  ///< the step is to run again, before anything is decided
    std::optional<finding> found = {};
  };
  /// A step that was judged may run once more before it is committed, after a death: with the bits
  /// that it was judged by it is neither run again nor judged.
  answer compare(std::uint64_t step, run_of_step now);
  void commit(std::uint64_t step) { judged_.erase(step); }

  /// Whether that step has run once and is not judged yet.
  bool awaits(std::uint64_t step) const { return first_.contains(step); }

 private:
  std::map<std::uint64_t, run_of_step> first_;   ///< by step
  std::map<std::uint64_t, run_of_step> judged_;  ///< not finite; until the step is committed
  std::map<int, int> transients_;                ///< by replica
};

}  // namespace troupe::actors
