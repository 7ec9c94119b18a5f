#include "runtime/data/split.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("splits have the boundaries of megatron-core", "[data][golden]") {
  for (const auto& c : golden()["splits"]) {
    const split_matrix split(c["split"].get<std::string>());
    INFO(c["split"]);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto part = data_split(i);
      const auto& expected = c["matrix"][i];
      REQUIRE(split.share(part).has_value() != expected.is_null());
      if (expected.is_null())
        continue;
      CHECK(split.share(part)->begin
            == std::strtod(expected[0].get<std::string>().c_str(), nullptr));
      CHECK(split.share(part)->end == std::strtod(expected[1].get<std::string>().c_str(), nullptr));
      for (const auto& [count, ranges] : c["ranges"].items())
        CHECK(split.of(part, std::stoll(count)) == sequence_range{ranges[i][0], ranges[i][1]});
    }
  }
}

TEST_CASE("an invalid split is refused with an example", "[data]") {
  for (const char* bad : {"",
                          ",",
                          "1,,1",
                          "a",
                          "-1,2",
                          "1,2,3,4",
                          "0,0,0",
                          "1e3",
                          "inf",
                          "nan",
                          "1.2.3",
                          "1;2",
                          "."}) {
    INFO(bad);
    CHECK_THROWS_WITH(split_matrix(bad), ContainsSubstring("969,30,1"));
  }
  CHECK_NOTHROW(split_matrix(" 1 , 2 "));
}

TEST_CASE("a split is one of three", "[data]") {
  CHECK_BREAKS("SPLIT-1", to_string(data_split(3)));
}
