#include "kernels/op/philox.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::kernels;

// Source: kat_vectors of Random123, philox4x32-10.
TEST_CASE("philox gives the known answers of Random123", "[kernels][reference][philox]") {
  CHECK(philox(0, {0, 0, 0, 0}) == philox_counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~std::uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff})
        == philox_counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344})
        == philox_counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("word i of a stream is word i % 4 of its block i / 4", "[kernels][reference][philox]") {
  const std::uint64_t key = 77, stream = 0x123456789abcdef0;
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40}) {
    const philox_counter counter{
        std::uint32_t(index / 4), std::uint32_t(index / 4 >> 32), 0x9abcdef0, 0x12345678};
    CHECK(philox_word(key, stream, index) == philox(key, counter)[index % 4]);
  }
}

TEST_CASE("the drop threshold is the probability in 2^-32", "[kernels][reference][philox]") {
  CHECK(drop_threshold(0) == 0);
  CHECK(drop_threshold(0.25f) == 0x40000000u);
  CHECK(drop_threshold(0.5f) == 0x80000000u);
}
