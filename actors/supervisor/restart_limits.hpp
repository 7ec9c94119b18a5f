// How often somebody may be replaced, counted.

#pragma once

#include "runtime/trainer/step_ledger.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct restart_limits {
  bool on = false;  ///< nobody is, else
  int most = 10;    ///< within the window
  std::uint64_t window_ns = 3'600'000'000'000;
  /// Deaths in a row without a step more committed: the last but one goes back to an older tier,
  /// the last ends the run, because what strikes each time is no accident. Connections that break
  /// are counted apart: as many end the run, but they say nothing against a state.
  int without_progress = 4;
};

/// MEMBER-5. Those of a run, whichever supervisor counts.
class restart_counter {
 public:
  /// `before`: what the ledger has.
  restart_counter(restart_limits limits, std::vector<runtime::restart> before);

  /// One more, while `step` runs. Why the run ends; nothing: it goes on.
  std::optional<std::string> add(const std::string& who,
                                 const std::string& why,
                                 std::uint64_t step,
                                 std::uint64_t now_ns);
  /// One of a service without which a run goes on. Whether it is to do so.
  bool forgoes(const std::string& who, std::uint64_t now_ns);
  /// In a row, at this step: deaths, or connections that broke ("connection:0-1").
  int without_progress(std::uint64_t step, bool of_connections = false) const;
  /// The next death without progress ends the run: what strikes may lie in what was kept.
  bool is_last(std::uint64_t step) const {
    return without_progress(step) >= limits_.without_progress - 1;
  }
  std::vector<runtime::restart> take_new();  ///< since last asked, for the ledger

 private:
  restart_limits limits_;
  std::vector<runtime::restart> all_;  ///< step 0: counts for `forgoes` alone
  std::size_t taken_;
};

}  // namespace troupe::actors
