#include "actors/supervisor/save_schedule.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using troupe::actors::save_schedule;

namespace {

/// Iterations from 1 to `until` after which a save begins; all saves up to `broken_until` fail.
std::vector<std::uint64_t> begun(std::uint64_t interval,
                                 std::uint64_t until,
                                 std::uint64_t broken_until) {
  save_schedule saves(true, 0, interval);
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 1; i <= until; ++i) {
    if (!saves.is_due(i, i == until))
      continue;
    out.push_back(i);
    saves.begin(i, i == until);
    if (i <= broken_until)
      saves.fail(i);
    else
      saves.succeed();
  }
  return out;
}

using iterations = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("checkpoints are due at their interval and at the end", "[scenario]") {
  CHECK(begun(10, 25, 0) == iterations{10, 20, 25});
  CHECK(begun(10, 20, 0) == iterations{10, 20});
  CHECK(begun(0, 25, 0) == iterations{25});
}

TEST_CASE("SAVE-RETRY: a failed save is retried after 1, 2, 4 and more iterations", "[scenario]") {
  CHECK(begun(100, 140, 130) == iterations{100, 101, 103, 107, 115, 131, 140});
  // At the latest at the next interval; a success resets the backoff.
  CHECK(begun(10, 45, 33) == iterations{10, 11, 13, 17, 20, 30, 40, 45});
  CHECK(begun(10, 30, 10) == iterations{10, 11, 20, 30});
}

TEST_CASE("SAVE-RETRY: the announced retry is never later than the next regular save",
          "[scenario]") {
  save_schedule x(true, 0, 10);
  x.begin(10, false);
  x.fail(10);
  CHECK(x.next_try() == 11);
  for (const std::uint64_t iteration : {11, 13, 17}) {
    CHECK(x.is_due(iteration, false));
    x.begin(iteration, false);
    x.fail(iteration);
  }
  CHECK(x.next_try() == 20);
  for (std::uint64_t iteration = 20; iteration <= 400; iteration += 10) {
    CHECK(x.is_due(iteration, false));
    x.begin(iteration, false);
    x.fail(iteration + 3);  // the failure is reported later
    CHECK(x.next_try() == iteration + 10);
  }
}

TEST_CASE("the last iteration is tried four times, with growing pauses", "[scenario]") {
  using std::chrono::milliseconds;
  save_schedule saves(true, 0, 0);
  for (const auto pause : {10, 20, 40}) {
    REQUIRE(saves.is_due(7, true));
    saves.begin(7, true);
    CHECK_FALSE(saves.is_due(7, true));
    saves.fail(7);
    REQUIRE(saves.may_try_last_again(7));
    CHECK(saves.pause(milliseconds(10)) == milliseconds(pause));
  }
  REQUIRE(saves.is_due(7, true));
  saves.begin(7, true);
  saves.fail(7);
  CHECK_FALSE(saves.may_try_last_again(7));
  CHECK_FALSE(saves.is_due(7, true));
  CHECK_FALSE(saves.is_saved(7));
}

TEST_CASE("an iteration that waits for an older save stays due until it begins", "[scenario]") {
  save_schedule saves(true, 0, 2);
  saves.begin(2, false);
  CHECK(saves.is_due(4, false));
  saves.succeed();
  CHECK(saves.is_due(4, false));
  CHECK_FALSE(save_schedule(false, 0, 2).is_due(4, true));
  CHECK_FALSE(save_schedule(true, 4, 2).is_due(4, true));  // no step was trained
}
