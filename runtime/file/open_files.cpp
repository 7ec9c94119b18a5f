#include "runtime/file/open_files.hpp"

#include <algorithm>
#include <sys/resource.h>

namespace troupe::runtime {

void raise_limit_of_open_files() {
  constexpr rlim_t enough = 65'536;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough)
    return;
  limit.rlim_cur = std::min(enough, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace troupe::runtime
