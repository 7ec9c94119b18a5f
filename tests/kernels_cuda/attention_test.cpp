// Cases beyond the operation tester (op_tester_test.cpp): our own attention with rows without keys,
// equal bits of different cases, NaN, and its division of work.

#include "tests/support/attention_on_device.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace troupe;
using kernels::bf16;
using tests::attended_on_device;
using memory = tests::attention_memory<float>;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
bool same_bits(const tests::attention_memory<T>& a, const tests::attention_memory<T>& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

}  // namespace

TEST_CASE("attention on a device splits the keys of few queries, not those of many",
          "[attention]") {
  for (const std::int32_t keys : {257, 641}) {
    memory few{.H = 2, .G = 1, .D = 24, .query_lengths = {1, 0, 3}, .key_lengths = {keys, 7, 70}};
    CHECK(kernels::cuda::scratch(few.forward()) > 0);
  }
  memory many{.H = 46, .G = 2, .D = 8, .query_lengths = {131}, .key_lengths = {195}};
  CHECK(kernels::cuda::scratch(many.forward()) == 0);
}

TEST_CASE("on a device a query without keys gets zeros and minus infinity", "[attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {70}, .key_lengths = {70}};
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = std::int32_t(j) + 10;
  const memory mine = attended_on_device(m);
  CHECK(mine.lse[9] == -infinity);
  CHECK(mine.o[9 * 16] == 0);
  CHECK(mine.dq[9 * 16] == 0);
  CHECK(mine.lse[10] > -infinity);
}

TEST_CASE("on a device a window over the whole sequence changes no bit", "[attention]") {
  memory m{.H = 2, .G = 1, .D = 24, .query_lengths = {130}, .key_lengths = {130}, .p_drop = 0.1f};
  memory windowed = m;
  windowed.window = 129;
  CHECK(same_bits(attended_on_device(windowed), attended_on_device(m)));
  windowed.window = std::numeric_limits<std::int32_t>::max();
  CHECK(same_bits(attended_on_device(windowed), attended_on_device(m)));
  windowed.window = 10;
  CHECK_FALSE(same_bits(attended_on_device(windowed), attended_on_device(m)));
}

// The absorbed form of latent attention, whose cache has no values of its own.
TEST_CASE("on a device values may be the first elements of keys", "[attention]") {
  for (const std::int32_t queries : {3, 70}) {
    memory apart{
        .H = 4, .G = 1, .D = 48, .Dv = 32, .query_lengths = {queries}, .key_lengths = {70}};
    for (std::size_t j = 0; j < 70; ++j)
      std::copy_n(&apart.k[j * 48], 32, &apart.v[j * 32]);
    const tests::device_array<std::int32_t> query_starts(apart.query_starts),
        key_starts(apart.key_starts), query_position(apart.query_position),
        key_position(apart.key_position);
    const tests::device_array<float> q(apart.q), k(apart.k);
    tests::device_array<float> o(apart.o), lse(apart.lse);
    auto op = apart.forward();
    op.shape.query_starts = query_starts.data();
    op.shape.key_starts = key_starts.data();
    op.shape.query_position = query_position.data();
    op.shape.key_position = key_position.data();
    op.shape.value_row = op.shape.key_row;
    op.shape.value_group = op.shape.key_group;
    op.o = o.data();
    op.lse = lse.data();
    op.q = q.data();
    op.v = op.k = k.data();
    tests::attend_on_device(op, {});
    const auto expected = attended_on_device(apart);
    CHECK(o.download() == expected.o);
    CHECK(lse.download() == expected.lse);
  }
}

TEST_CASE("attention on a device accepts misaligned pointers", "[attention]") {
  const memory m{.H = 2, .G = 1, .D = 64, .query_lengths = {66}, .key_lengths = {66}};
  CHECK(same_bits(attended_on_device(m), attended_on_device(m, 1)));  // other loads, the same sums
  const tests::attention_memory<bf16> narrow{
      .H = 2, .G = 1, .D = 64, .query_lengths = {66}, .key_lengths = {66}};
  CHECK(same_bits(attended_on_device(narrow), attended_on_device(narrow, 3)));
}

TEST_CASE("on a device a NaN reaches only the result of its own row", "[attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {200}, .key_lengths = {200}, .window = 64};
  m.q[75 * 16] = std::numeric_limits<float>::quiet_NaN();
  memory mine = attended_on_device(m);
  CHECK(std::isnan(mine.o[75 * 16]));
  CHECK(std::isnan(mine.lse[75]));
  CHECK(std::isfinite(mine.o[74 * 16]));
  CHECK(std::isfinite(mine.dq[74 * 16]));
  CHECK(std::isnan(mine.dk[30 * 16]));
  CHECK(std::isfinite(mine.dk[140 * 16]));
  m = memory{.H = 1, .G = 1, .D = 16, .query_lengths = {200}, .key_lengths = {200}, .window = 64};
  m.v[0] = m.k[0] = std::numeric_limits<float>::quiet_NaN();
  mine = attended_on_device(m);
  CHECK(std::isnan(mine.o[64 * 16]));
  for (std::size_t i = 128 * 16; i < mine.o.size(); ++i)  // rows that do not read its tile
    REQUIRE(std::isfinite(mine.o[i]));
}
