// Schedules as Lua 5.4 scripts, in a sandbox: no files, no network, no clock, no loading of code;
// bounded instructions and memory.
//
// A script defines one of:
//
//   function plan(rank, ranks, chunks, microbatches)    returns the rank's row: "0F0 1F0 ..." or a
//                                                       list of "0F0" or {"F", stage, microbatch}
//   function next(state)                                returns an action of state.ready, or nil
//
// and may define chunks_per_rank (a number) and placement(stage, ranks) (a rank). See
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
  std::uint64_t instructions = 50'000'000;     ///< of each call
  std::size_t memory = std::size_t{64} << 20;  ///< bytes, of each interpreter
};

/// A schedule script. Its functions are called in interpreters of their own, one a rank; any
/// thread. Whatever is wrong is an input_error with the file, the line and the reason.
class schedule_script {
 public:
  /// `file` stands in messages; `text` is run once here, to see what it defines.
  schedule_script(std::string file, std::string text, script_limits limits = {});

  bool is_behaviour() const { return behaviour_; }
  int chunks_per_rank() const { return chunks_per_rank_; }

  /// Of a script with plan(): every row. Not yet checked.
  plan make_plan(int ranks, int microbatches) const;
  /// Of a script with next().
  behaviour_factory behaviours() const;

 private:
  std::string file_, text_;
  script_limits limits_;
  bool behaviour_ = false, places_ = false;
  int chunks_per_rank_ = 1;
};

}  // namespace troupe::runtime
