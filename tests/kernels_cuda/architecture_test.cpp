#include "kernels/cuda/architecture.hpp"

#include <catch2/catch_test_macros.hpp>

using troupe::kernels::cuda::architecture_obstacle;
using troupe::kernels::cuda::code_for;
using troupe::kernels::cuda::device_code;
using troupe::kernels::cuda::runs_on;

TEST_CASE("code runs on later devices of its major number, PTX on all later ones") {
  CHECK(runs_on("80-real", 8, 0));
  CHECK(runs_on("80-real", 8, 9));
  CHECK_FALSE(runs_on("86-real", 8, 0));
  CHECK_FALSE(runs_on("80-real", 9, 0));
  CHECK(runs_on("80-virtual", 9, 0));
  CHECK(runs_on("80", 12, 0));
  CHECK_FALSE(runs_on("90-virtual", 8, 9));
}

TEST_CASE("what is made for one architecture alone runs on that") {
  CHECK(runs_on("90a-real", 9, 0));
  CHECK_FALSE(runs_on("90a-real", 10, 0));
  CHECK_FALSE(runs_on("90a", 10, 0));
}

TEST_CASE("what is made for a family runs on its later devices, and on no other family's") {
  for (const auto* const made : {"100f", "100f-real", "100f-virtual"}) {
    CHECK(runs_on(made, 10, 0));
    CHECK(runs_on(made, 10, 3));
    CHECK_FALSE(runs_on(made, 11, 0));
    CHECK_FALSE(runs_on(made, 12, 0));
    CHECK_FALSE(runs_on(made, 9, 0));
  }
  CHECK_FALSE(runs_on("103f-real", 10, 0));
}

TEST_CASE("one of several architectures suffices, and a name without a number says nothing") {
  const auto* const usual = "80-real,90a-real,90-virtual";
  for (const int capability : {80, 86, 89, 90, 100, 120})
    CHECK(runs_on(usual, capability / 10, capability % 10));
  CHECK_FALSE(runs_on("90a-real,100-real", 8, 0));
  CHECK(runs_on("native", 8, 6));
}

TEST_CASE("a device runs the newest code that it can and PTX only where there is none") {
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

TEST_CASE("devices that are older than what kernels use are refused by name whatever was built") {
  CHECK_FALSE(runs_on("70-virtual", 7, 5));
  CHECK_FALSE(runs_on("all", 7, 5));
  CHECK(architecture_obstacle(7, 5)
        == "is of compute capability 7.5, and troupe computes on 8.0 (A100) and later");
  CHECK(architecture_obstacle(9, 0).empty());
}
