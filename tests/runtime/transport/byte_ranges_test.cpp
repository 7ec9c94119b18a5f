#include "runtime/transport/byte_ranges.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>
#include <vector>

using troupe::runtime::byte_ranges;

TEST_CASE("bytes are counted once, with any ranges in any order", "[transport]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    byte_ranges x;
    std::vector<bool> there(40);
    std::uint64_t expected = 0;
    for (int i = 0; i < 60; ++i) {
      const auto begin = random() % 40, end = begin + random() % (41 - begin);
      bool is_free = true;
      for (auto k = begin; k < end; ++k)
        is_free = is_free && !there[k];
      REQUIRE(x.add(begin, end) == is_free);
      if (is_free) {
        expected += end - begin;
        for (auto k = begin; k < end; ++k)
          there[k] = true;
      }
      REQUIRE(x.bytes() == expected);
    }
  }
}
