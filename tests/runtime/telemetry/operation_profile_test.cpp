#include "runtime/telemetry/operation_profile.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;

namespace {

const operation_kind product{"linear_forward<bf16>", {8, 4, 2}};
const operation_kind sum{"add<bf16>", {}};

/// Two workers: three steps of 10 ms, and one of 20 ms.
void fill(operation_profile& x) {
  x.add({{product, 6, 0.012, 12e9}, {sum, 3, 0.003, 0, 9e6}}, 3, 0.030);
  x.add({{sum, 1, 0.001, 0, 3e6}}, 1, 0.020);
}

}  // namespace

TEST_CASE("a profile adds up the reports of workers and sorts by time, longest first") {
  operation_profile all;
  fill(all);
  CHECK(all.steps() == 4);
  CHECK(all.step_ms() == Catch::Approx(12.5));
  CHECK(all.between_ms() == Catch::Approx((50 - 16) / 4.0));
  const auto times = all.times();
  REQUIRE(times.size() == 2);
  CHECK(times[0].kind == product);
  CHECK(times[1].calls == 4);
  CHECK(times[1].seconds == Catch::Approx(0.004));
}

TEST_CASE("the table of a profile has shares, rates and sizes, and covers the whole step") {
  operation_profile all;
  fill(all);
  const auto lines = all.table(16);
  REQUIRE(lines.size() == 5);
  CHECK(lines[1] == "  24.0 %     3.000       2        1           linear_forward<bf16> 8 x 4 x 2");
  CHECK(lines[2] == "   8.0 %     1.000       1                 3  add<bf16>");
  CHECK(lines[3].starts_with("  68.0 %     8.500"));
  CHECK(lines[4].starts_with(" 100.0 %    12.500"));
  CHECK(all.table(1)[2].ends_with("1 others"));
}

TEST_CASE("a profile without a step says why") {
  CHECK(operation_profile().table(16).at(0).find("the first two are not counted")
        != std::string::npos);
}

TEST_CASE("a profile is written as JSON") {
  troupe::tests::scratch_folder folder;
  operation_profile all;
  fill(all);
  all.write_json(folder / "profile.json");
  const auto found = nlohmann::json::parse(read_text(folder / "profile.json"));
  CHECK(found["steps"] == 4);
  CHECK(found["step_ms"] == Catch::Approx(12.5));
  REQUIRE(found["operations"].size() == 2);
  const auto& first = found["operations"][0];
  CHECK(first["name"] == "linear_forward<bf16>");
  CHECK(first["extents"] == nlohmann::json({8, 4, 2}));
  CHECK(first["flops"] == 2'000'000'000);
  CHECK(first["calls_per_step"] == 1.5);
  CHECK(first["ms_per_step"] == Catch::Approx(3));
}
