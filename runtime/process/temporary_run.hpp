// The temporary folder of a run, removed with the run. The front removes it. When the front is
// gone, the supervisor process removes it at its end; without a supervisor, the last process that
// ends does. It stays only when all die at once, for example with the machine.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

namespace troupe::runtime {

/// A file in the run's folder that marks the folder as temporary.
inline constexpr const char* temporary_marker = "temporary";

/// The process `shown_by` removes the folder while it runs. Throws io_error.
void mark_temporary(const held_run_folder& x, const process_id& shown_by);

/// Called at the end of a process of the run or one that watched it. Removes a temporary folder
/// that no other process of the run needs; leaves any other folder.
void leave_temporary(const run_folder& x);

/// Removes a temporary folder when the run's end is recorded and its front is gone.
void remove_temporary_of_ended(const run_folder& x);

}  // namespace troupe::runtime
