// Finds out whether a non-finite step comes from its data or from a wrong computation: a state
// machine without actors and clock.
//
//   the votes of one run of a step -> run it again, or a verdict
//
// A step is a pure function of state, data and number. docs/protocol/verification.md has its table.
//
//   VERIFY-3  A step with a non-finite loss or gradient is judged after two runs. With the bits of
//             that verdict it is not run a third time.

#pragma once

#include "actors/supervisor/cross_check.hpp"
#include "messages/training/step.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// The bits of one run of a step, and what is not finite.
struct run_of_step {
  std::string fault = {};  ///< in words; empty: all is finite
  std::string where
      = {};  ///< the stage with the non-finite gradient, "0.1" or "0.1.0"; empty: none
  struct loss {
    int replica = 0;
    std::uint64_t bits = 0;
    friend bool operator==(const loss&, const loss&) = default;
  };
  std::vector<loss> losses = {};  ///< by replica
  runtime::digest of_ranks = {};  ///< as in the vote

  bool has_bits_of(const run_of_step& x) const {
    return losses == x.losses && of_ranks == x.of_ranks;
  }
};
/// `all`: the merged vote of so many replicas with so many logical ones each. Losses of a second
/// copy of the model follow those of the first (STEP-10).
run_of_step run_of(const messages::vote& all, int replicas_each, int replicas);

class second_runs {
 public:
  struct finding {
    bits_verdict verdict = {};  ///< reproducible, transient or persistent
    std::string fault;          ///< of the first run
    /// Replicas with a non-finite loss when `reproducible`, else with a changed loss. Empty when
    /// only gradients are affected.
    std::vector<int> replicas = {};
    /// The stage with the first non-finite gradient, as in run_of_step; empty: none.
    std::string where = {};
    /// Number of transient findings in this run, including this one; the maximum over `replicas`.
    int transients = 0;
  };
  struct answer {
    bool again = false;  ///< the step must run again before a decision
    std::optional<finding> found = {};
  };
  /// After a death, a judged step may run again before it is committed. With the same bits it is
  /// neither repeated nor judged again.
  answer compare(std::uint64_t step, run_of_step now);
  void commit(std::uint64_t step) { judged_.erase(step); }

  /// Whether that step has run once and is not judged yet.
  bool awaits(std::uint64_t step) const { return first_.contains(step); }

 private:
  std::map<std::uint64_t, run_of_step> first_;   ///< by step
  std::map<std::uint64_t, run_of_step> judged_;  ///< non-finite steps, until they are committed
  std::map<int, int> transients_;                ///< by replica
};

}  // namespace troupe::actors
