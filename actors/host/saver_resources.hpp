// Resources of a process for its checkpointer.

#pragma once

#include "actors/host/watch_resources.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::runtime {
class save_lock;
}

namespace troupe::actors {

struct saver_resources : virtual watch_resources {
  /// Lock on the folder where the job saves; the checkpointers hold it one after the other. Null:
  /// not locked.
  std::shared_ptr<runtime::save_lock> save_lock = {};
  /// Name of the process that continues the run in this one's place; this process must then stop
  /// publishing. Empty: there is none. Null: takeover is impossible. Blocks on the file system.
  /// Throws io_error if the answer is unknown.
  std::function<std::string()> superseded = {};
};

}  // namespace troupe::actors
