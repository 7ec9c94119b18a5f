#include "kernels/cuda/architecture.hpp"

#include <catch2/catch_test_macros.hpp>

using troupe::kernels::cuda::architecture_obstacle;
using troupe::kernels::cuda::code_for;
using troupe::kernels::cuda::device_code;
using troupe::kernels::cuda::runs_on;

TEST_CASE("code runs on later devices of its major version, PTX on all later ones") {
  CHECK(runs_on("80-real", 8, 0));
  CHECK(runs_on("80-real", 8, 9));
  CHECK_FALSE(runs_on("86-real", 8, 0));
  CHECK_FALSE(runs_on("80-real", 9, 0));
  CHECK(runs_on("80-virtual", 9, 0));
  CHECK(runs_on("80", 12, 0));
  CHECK_FALSE(runs_on("90-virtual", 8, 9));
}

TEST_CASE("architecture-specific code runs only on that architecture") {
  CHECK(runs_on("90a-real", 9, 0));
  CHECK_FALSE(runs_on("90a-real", 10, 0));
  CHECK_FALSE(runs_on("90a", 10, 0));
}

TEST_CASE("family-specific code runs on later devices of that family only") {
  for (const auto* const made : {"100f", "100f-real", "100f-virtual"}) {
    CHECK(runs_on(made, 10, 0));
    CHECK(runs_on(made, 10, 3));
    CHECK_FALSE(runs_on(made, 11, 0));
    CHECK_FALSE(runs_on(made, 12, 0));
    CHECK_FALSE(runs_on(made, 9, 0));
  }
  CHECK_FALSE(runs_on("103f-real", 10, 0));
}

TEST_CASE("one matching architecture suffices; a name without a number is accepted") {
  const auto* const usual = "80-real,90a-real,90-virtual";
  for (const int capability : {80, 86, 89, 90, 100, 120})
    CHECK(runs_on(usual, capability / 10, capability % 10));
  CHECK_FALSE(runs_on("90a-real,100-real", 8, 0));
  CHECK(runs_on("native", 8, 6));
}

TEST_CASE("a device runs the newest matching code, and PTX only without such code") {
  const auto* const usual = "80-real,90a-real,90-virtual";
  for (const int capability : {80, 86, 89})
    CHECK(code_for(usual, 8, capability % 10) == device_code{80, false});
  CHECK(code_for(usual, 9, 0) == device_code{90, false});
  for (const int major : {10, 12})  // B200, consumer Blackwell
    CHECK(code_for(usual, major, 0) == device_code{90, true});
  CHECK(code_for("90-virtual,80-virtual,89-real,86-real", 8, 9) == device_code{89, false});
  CHECK(code_for("90-virtual,80-virtual,86-real", 8, 0) == device_code{80, true});
  CHECK(code_for("80-virtual,90-virtual", 12, 0) == device_code{90, true});
  CHECK(code_for("80,86", 12, 0) == device_code{86, true});
  CHECK(code_for("80,86", 8, 6) == device_code{86, false});
  CHECK(code_for("90a-real", 12, 0) == device_code{});
  CHECK(code_for("native", 9, 0) == device_code{});
}

TEST_CASE("devices that are too old for the kernels are refused by name") {
  CHECK_FALSE(runs_on("70-virtual", 7, 5));
  CHECK_FALSE(runs_on("all", 7, 5));
  CHECK(architecture_obstacle(7, 5)
        == "is of compute capability 7.5, and troupe computes on 8.0 (A100) and later");
  CHECK(architecture_obstacle(9, 0).empty());
}
