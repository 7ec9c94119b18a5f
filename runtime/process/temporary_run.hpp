// The temporary folder of a run, which is gone when the run is. Who shows the run removes it, or,
// when that is gone, the supervisor's process at its end; and where nobody is left who decides, the
// last of the others that ends. Only when all die at once, as with the machine, it stays.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

namespace troupe::runtime {

/// Of the run's folder: there when it is temporary.
inline constexpr const char* temporary_marker = "temporary";

/// `shown_by`: who removes it while that process runs. Throws io_error.
void mark_temporary(const held_run_folder& x, const process_id& shown_by);

/// This process of the run, or of who has looked after it, ends. A temporary folder that nobody
/// else of the run can need any more is removed, and any other left as it is.
void leave_temporary(const run_folder& x);

/// Where the run has said how it ended and nobody shows it: a temporary folder is removed.
void remove_temporary_of_ended(const run_folder& x);

}  // namespace troupe::runtime
