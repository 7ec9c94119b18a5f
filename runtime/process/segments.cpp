#include "runtime/process/segments.hpp"

#include <sys/mman.h>

namespace troupe::runtime {

std::string segment_prefix(const std::string& run_id) {
  return "/troupe-" + run_id + "-";
}

int remove_segments(const std::string& run_id) {
  const auto prefix = segment_prefix(run_id).substr(1);
  int removed = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored))
    if (file.path().filename().string().starts_with(prefix))
      removed += ::shm_unlink(("/" + file.path().filename().string()).c_str()) == 0;
  return removed;
}

}  // namespace troupe::runtime
