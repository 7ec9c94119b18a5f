// Wrong bits with two copies of the model.

#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("VERIFY-2: the copy of the model with a wrong input gradient is named",
          "[scenario][recovery]") {
  auto job = tests::tiny_job(2, 2);
  job.layout.schedule.source = "dualpipe";
  job.training.batch.micro = 1;
  job.training.batch.global = 16;
  tests::arrangement what{"wrong input gradient of two copies", tests::watched_job(job)};
  const auto calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = 1;
  // The first rank has the first chunk of one copy, and sends gradients of the other's last.
  const auto x = tests::live(what, "lane:0.0@4:input-gradient:wrong-bits");
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(x.events[1]["who"] == "stage:0.0");
  CHECK_THAT(
      std::string(x.events[1]["why"]),
      ContainsSubstring("wrong input gradient of") && ContainsSubstring("by chunk 1 of copy 1"));
}
