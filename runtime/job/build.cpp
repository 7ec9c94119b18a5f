#include "runtime/job/build.hpp"

#include "kernels/backend/backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

#ifdef __clang__
constexpr const char* compiler = "Clang";
#else
constexpr const char* compiler = "GCC";
#endif

}  // namespace

std::map<std::string, std::string> build_identity() {
  std::map<std::string, std::string> out = {{"version", TROUPE_VERSION}, {"compiler", __VERSION__}};
  if (const std::string options = TROUPE_OPTIONS; !options.empty())
    out["options"] = options;
  if (const std::string commit = TROUPE_COMMIT; !commit.empty())
    out["commit"] = commit;
  // Host code takes exp, log and cos from libc.
  char libc[64] = {};
  if (::confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc) > 0)
    out["libc"] = libc;
  return out;
}

std::string version_text() {
  const auto of = build_identity();
  const auto or_unknown
      = [&](const char* key) { return of.contains(key) ? of.at(key) : std::string("unknown"); };
  return fmt::format("troupe {} (commit {}, {} {}, {}; {})",
                     of.at("version"),
                     or_unknown("commit"),
                     compiler,
                     of.at("compiler"),
                     or_unknown("options"),
                     kernels::instruction_set());
}

}  // namespace troupe::runtime
