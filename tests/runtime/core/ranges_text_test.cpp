#include "runtime/core/ranges_text.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("numbers as ranges", "[core]") {
  CHECK(ranges_of({1, 3, 4}) == "1-1, 3-4");
  CHECK(ranges_of({0, 1, 2}, {.to = " to "}) == "0 to 2");
  CHECK(ranges_of({0, 1, 2, 3, 8}, {.single_alone = true}) == "0-3, 8");
  CHECK(ranges_of({}).empty());
}
