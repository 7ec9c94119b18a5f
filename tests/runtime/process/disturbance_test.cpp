// Fault injection into another process.

#include "runtime/process/disturbance.hpp"

#include "runtime/process/child_process.hpp"
#include "runtime/process/run_folder.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <tuple>

using namespace troupe::runtime;
using namespace troupe::tests;
using std::chrono::milliseconds;

namespace {

/// A process that is already asleep: the fault cannot hit its startup.
child_process sleeper() {
  const scratch_folder folder;
  const auto here = folder / "here";
  child_process out({.command = player({"sleep", here.string()})});
  REQUIRE(soon([&] { return std::filesystem::exists(here); }));
  return out;
}

char state_of(const child_process& x) {
  return look_at_process(x.id().pid)->state;
}

rlim_t soft_limit_of(const child_process& x, int resource) {
  struct rlimit out = {};
  REQUIRE(::prlimit(x.id().pid, decltype(RLIMIT_AS)(resource), nullptr, &out) == 0);
  return out.rlim_cur;
}

}  // namespace

TEST_CASE("strike sends a signal to exactly one process", "[process]") {
  auto one = sleeper();
  CHECK(strike(one.id(), SIGABRT));
  CHECK(one.wait().signal == SIGABRT);
  CHECK_FALSE(strike(one.id(), SIGKILL));
}

TEST_CASE("hold_still stops a process for a while, then resumes it", "[process]") {
  auto one = sleeper();
  bool was_stopped = false;
  hold_still(one.id(), milliseconds(60'000), [&] {
    was_stopped = was_stopped || state_of(one) == 'T';
    return !was_stopped;
  });
  CHECK(was_stopped);
  while (state_of(one) == 'T') {
  }
  hold_still(one.id(), milliseconds(60'000), [&] { return !strike(one.id(), SIGKILL); });
  CHECK(one.wait().signal == SIGKILL);
}

TEST_CASE("slow_down stops a process repeatedly", "[process]") {
  auto one = sleeper();
  int looks = 0;
  slow_down(one.id(), 10, milliseconds(60'000), [&] { return ++looks < 4; });
  CHECK(looks == 4);
  while (state_of(one) == 'T') {
  }
}

TEST_CASE("make_scarce restores the limits afterwards", "[process]") {
  auto one = sleeper();
  const scratch_folder folder;
  replace_file(folder / "log", "a record\n");
  for (const auto& [what, resource, within] :
       {std::tuple(scarce::memory, int(RLIMIT_AS), rlim_t(0)),
        {scarce::memory, int(RLIMIT_DATA), rlim_t(0)},
        {scarce::disk, int(RLIMIT_FSIZE), rlim_t(1)},
        {scarce::last_bytes, int(RLIMIT_FSIZE), rlim_t(16)}}) {
    const auto before = soft_limit_of(one, resource);
    rlim_t meanwhile = before;
    const auto why
        = make_scarce(one.id(), what, folder / "log", milliseconds(60'000), [&, which = resource] {
            meanwhile = soft_limit_of(one, which);
            return false;
          });
    CHECK(why == "");
    CHECK(meanwhile == within);
    CHECK(soft_limit_of(one, resource) == before);
  }
  CHECK_FALSE(make_scarce(one.id(), scarce::last_bytes, folder / "none", milliseconds(1), [] {
                return true;
              }).empty());
}
