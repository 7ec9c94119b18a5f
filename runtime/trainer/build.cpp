#include "runtime/trainer/build.hpp"

#include <unistd.h>

namespace troupe::runtime {

std::map<std::string, std::string> build_identity() {
  std::map<std::string, std::string> out = {{"version", TROUPE_VERSION}, {"compiler", __VERSION__}};
  if (const std::string commit = TROUPE_COMMIT; !commit.empty())
    out["commit"] = commit;
  // Host code takes exp, log and cos from there.
  char libc[64] = {};
  if (::confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc) > 0)
    out["libc"] = libc;
  return out;
}

}  // namespace troupe::runtime
