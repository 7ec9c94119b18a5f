// Counts restarts and enforces their limits.

#pragma once

#include "runtime/state/step_ledger.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct restart_limits {
  bool on = false;  ///< false: no restarts
  int most = 10;    ///< maximum within the window
  std::uint64_t window_ns = 3'600'000'000'000;
  /// Maximum of consecutive deaths without a newly committed step. The last but one goes back to an
  /// older tier. The last ends the run: a fault that always strikes is not an accident. Broken
  /// connections are counted separately: the same number ends the run, but they do not make a state
  /// suspect.
  int without_progress = 4;
};

/// MEMBER-5. Counts the restarts of a run across its supervisors.
class restart_counter {
 public:
  /// `before`: restarts from the ledger.
  restart_counter(restart_limits limits, std::vector<runtime::restart> before);

  /// Counts a restart while `step` runs. Returns why the run ends; empty: it continues.
  std::optional<std::string> add(const std::string& who,
                                 const std::string& why,
                                 std::uint64_t step,
                                 std::uint64_t now_ns);
  /// Counts a restart of an optional service. Returns whether the run continues without it.
  bool forgoes(const std::string& who, std::uint64_t now_ns);
  /// Consecutive deaths at this step, or broken connections ("connection:0-1").
  int without_progress(std::uint64_t step, bool of_connections = false) const;
  /// The next death without progress ends the run; the fault may lie in the kept state.
  bool is_last(std::uint64_t step) const {
    return without_progress(step) >= limits_.without_progress - 1;
  }
  std::vector<runtime::restart> take_new();  ///< since the last call, for the ledger

 private:
  restart_limits limits_;
  std::vector<runtime::restart> all_;  ///< step 0: counted only by `forgoes`
  std::size_t taken_;
};

}  // namespace troupe::actors
