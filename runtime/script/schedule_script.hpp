// Schedules as Lua 5.4 scripts in a sandbox: no files, network, clock and loading of code; bounded
// instructions and memory.
//
// A script defines one of these functions:
//
//   function plan(rank, ranks, chunks, microbatches)    returns the rank's row: "0F0 1F0 ..." or a
//                                                       list of "0F0" or {"F", stage, microbatch}
//   function next(state)                                returns an action of state.ready, or nil
//
// It may also define chunks_per_rank (a number) and placement(stage, ranks) (a rank). See
// docs/guides/write_a_schedule.md.

#pragma once

#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe::runtime {

struct script_limits {
  std::uint64_t instructions = 50'000'000;     ///< per call
  std::size_t memory = std::size_t{64} << 20;  ///< bytes per interpreter
};

/// A schedule script. Its functions run in separate interpreters, one per rank. Thread-safe. All
/// errors are input_error with file, line and reason.
class schedule_script {
 public:
  /// `file`: name in messages. Runs `text` once to find its definitions.
  schedule_script(std::string file, std::string text, script_limits limits = {});

  bool is_behaviour() const { return behaviour_; }
  int chunks_per_rank() const { return chunks_per_rank_; }

  /// All rows of a script with plan(), not yet checked.
  plan make_plan(int ranks, int microbatches) const;
  /// Behaviours of a script with next().
  behaviour_factory behaviours() const;

 private:
  std::string file_, text_;
  script_limits limits_;
  bool behaviour_ = false, places_ = false;
  int chunks_per_rank_ = 1;
};

}  // namespace troupe::runtime
