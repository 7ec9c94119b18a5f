// Split of action times: nanoseconds in, seconds out.

#include "actors/stage/timing.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using actors::action_time;
using Catch::Approx;

namespace {

constexpr std::int64_t millisecond = 1000000;

messages::stage_times times_with(const action_time& x) {
  messages::stage_times out;
  actors::add_action(x, out);
  return out;
}

}  // namespace

TEST_CASE("the time of an action is computing, except for redeeming", "[actors]") {
  const auto x
      = times_with({.all = 50 * millisecond, .redeeming = 20 * millisecond, .bytes = 4096});
  CHECK(x.computing == Approx(0.03));
  CHECK(x.redeeming == Approx(0.02));
  CHECK(x.redeemed == 4096);
  CHECK(x.no_core == 0);
}

TEST_CASE("time without a core is separate", "[actors]") {
  action_time x{.all = 50 * millisecond,
                .redeeming = 20 * millisecond,
                .bytes = 4096,
                .no_core = 15 * millisecond};
  SECTION("only while it redeems") {
    x.no_core_redeeming = 15 * millisecond;
    CHECK(times_with(x).computing == Approx(0.03));
    CHECK(times_with(x).redeeming == Approx(0.005));
  }
  SECTION("only while it computes") {
    CHECK(times_with(x).computing == Approx(0.015));
    CHECK(times_with(x).redeeming == Approx(0.02));
  }
  SECTION("in both") {
    x.no_core_redeeming = 5 * millisecond;
    CHECK(times_with(x).computing == Approx(0.02));
    CHECK(times_with(x).redeeming == Approx(0.015));
  }
  CHECK(times_with(x).no_core == Approx(0.015));
}

TEST_CASE("waits in collectives are waits for ranks", "[actors]") {
  const auto x = times_with({.all = 50 * millisecond,
                             .redeeming = 20 * millisecond,
                             .bytes = 4096,
                             .waited = 12 * millisecond,
                             .no_core = 3 * millisecond});
  CHECK(x.computing == Approx(0.015));
  CHECK(x.redeeming == Approx(0.02));
  CHECK(x.awaiting_ranks == Approx(0.012));
  CHECK(times_with({.all = 5 * millisecond, .waited = 6 * millisecond}).computing == 0);
}

TEST_CASE("an action without a redeem only computes", "[actors]") {
  const auto x = times_with({.all = 50 * millisecond,
                             .redeeming = 1 * millisecond,
                             .bytes = 0,
                             .no_core = 10 * millisecond,
                             .no_core_redeeming = 1 * millisecond});
  CHECK(x.computing == Approx(0.04));
  CHECK(x.redeeming == 0);
  CHECK(x.redeemed == 0);
}

TEST_CASE("inconsistent clocks give no negative time", "[actors]") {
  // More time without a core than the part lasted, in either part.
  auto x = times_with({.all = 50 * millisecond,
                       .redeeming = 20 * millisecond,
                       .bytes = 1,
                       .no_core = 60 * millisecond,
                       .no_core_redeeming = 21 * millisecond});
  CHECK(x.computing == 0);
  CHECK(x.redeeming == 0);
  // Less in the whole than in a part.
  x = times_with({.all = 50 * millisecond,
                  .redeeming = 20 * millisecond,
                  .bytes = 1,
                  .no_core = 4 * millisecond,
                  .no_core_redeeming = 5 * millisecond});
  CHECK(x.computing == Approx(0.03));
  CHECK(x.redeeming == Approx(0.015));
}

TEST_CASE("the times of actions add up", "[actors]") {
  messages::stage_times out{.awaiting_ranks = 2};
  for (int i = 0; i < 3; ++i)
    actors::add_action({.all = 50 * millisecond,
                        .redeeming = 20 * millisecond,
                        .bytes = 7,
                        .no_core = 10 * millisecond},
                       out);
  CHECK(out.computing == Approx(0.06));
  CHECK(out.redeeming == Approx(0.06));
  CHECK(out.redeemed == 21);
  CHECK(out.no_core == Approx(0.03));
  CHECK(out.awaiting_ranks == 2);
}
