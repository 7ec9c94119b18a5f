#include "runtime/core/counted.hpp"
#include "runtime/core/divisor.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>

using namespace troupe::runtime;

TEST_CASE("bytes are shown in readable units", "[core]") {
  CHECK(human_bytes(12) == "12 B");
  CHECK(human_bytes(1500) == "1.5 kB");
  CHECK(human_bytes(2.5e9) == "2.5 GB");
}

TEST_CASE("the nearest divisor equals that of a full search; a tie takes the smaller one",
          "[core]") {
  for (std::int64_t number = 0; number <= 60; ++number)
    for (std::int64_t wanted = 1; wanted <= 70; ++wanted) {
      std::int64_t best = 1;
      for (std::int64_t d = 1; d <= number; ++d)
        if (number % d == 0 && std::abs(d - wanted) < std::abs(best - wanted))
          best = d;
      CAPTURE(number, wanted);
      REQUIRE(nearest_divisor(number, wanted) == best);
    }
  CHECK(nearest_divisor(std::int64_t{1} << 40, (std::int64_t{1} << 39) + 1)
        == std::int64_t{1} << 39);
}
