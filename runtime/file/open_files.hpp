// The limit of open files, which data sets, connections and logs of a large run reach.

#pragma once

namespace troupe::runtime {

/// Raises the soft limit of this process to the hard one, or to 65,536 where that is larger:
/// libraries may walk over all descriptors that are possible. Does nothing where the system
/// refuses.
void raise_limit_of_open_files();

}  // namespace troupe::runtime
