// Beside the tester (op_tester.hpp): the fast attention where positions, windows and infinities
// leave rows or tiles without keys, and heads that are spread.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

using namespace troupe;
using kernels::backend;
using memory = tests::attention_memory<float>;

namespace {

// Sums of up to a thousand products in float, each rounded once: errors grow with the square root
// of their number, so 30 roundings of 6e-8 leave room for the longest sum here.
constexpr double tolerance = 2e-6;

constexpr float infinity = std::numeric_limits<float>::infinity();

memory judged(memory m) {
  kernels::run(backend::reference, m.forward(), {});
  kernels::run(backend::reference, m.backward(), {});
  return m;
}

memory computed(memory m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward(), threads);
  return m;
}

template <class T>
void check_close(const std::vector<T>& mine, const std::vector<T>& judge) {
  bool same_kind = true;
  for (std::size_t i = 0; i < judge.size(); ++i)
    same_kind = same_kind && std::isfinite(mine[i]) == std::isfinite(judge[i]);
  CHECK(same_kind);
  CHECK(tests::relative_error(mine, judge) < tolerance);
}

/// Zero but for roundings of numbers near 1.
void check_zero(const std::vector<float>& mine) {
  float most = 0;
  for (const float x : mine)
    most = std::max(most, std::abs(x));
  CHECK(most < 4 * tolerance);
}

void check(const memory& m) {
  const memory judge = judged(m);
  for (const int threads : {1, 2, 3}) {
    const memory mine = computed(m, threads);
    INFO("threads " << threads);
    check_close(mine.o, judge.o);
    check_close(mine.lse, judge.lse);
    check_close(mine.dv, judge.dv);
    if (m.window == 0 && !m.fused) {
      // A softmax of one number has no slope: what is left are roundings of products near 1.
      check_zero(mine.dq);
      check_zero(mine.dk);
      continue;
    }
    check_close(mine.dq, judge.dq);
    check_close(mine.dk, judge.dk);
  }
}

bool same_bits(const memory& a, const memory& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

}  // namespace

TEST_CASE("cpu attention takes empty sequences", "[kernels][attention]") {
  check({.H = 2, .G = 1, .D = 16, .query_lengths = {0, 9, 0}, .key_lengths = {0, 9, 0}});
}

TEST_CASE("cpu attention takes queries and keys at any positions", "[kernels][attention]") {
  memory m{.H = 2, .G = 2, .D = 16, .query_lengths = {150, 70}, .key_lengths = {140, 66}};
  m.query_position = tests::draws(m.query_rows, 400, 7);
  std::int32_t at = 3;
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = j == 140 ? at = 2 : at += 1 + std::int32_t(j % 5 == 0) * 2;
  check(m);
  m.p_drop = 0.3f;
  check(m);
}

TEST_CASE("a query that sees no key gets zeros and minus infinity", "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {70}, .key_lengths = {70}};
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = std::int32_t(j) + 10;
  check(m);
  const memory mine = computed(m, 1);
  CHECK(mine.lse[9] == -infinity);
  CHECK(mine.o[9 * 16] == 0);
  CHECK(mine.dq[9 * 16] == 0);
  CHECK(mine.lse[10] > -infinity);
}

TEST_CASE("a number that is none reaches the result of its row, so that the vote sees it",
          "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {80}, .key_lengths = {80}};
  m.q[75 * 16] = std::numeric_limits<float>::quiet_NaN();
  const memory mine = computed(m, 1);
  CHECK(std::isnan(mine.o[75 * 16]));
  CHECK(std::isnan(mine.lse[75]));
  CHECK(std::isfinite(mine.o[74 * 16]));
  CHECK(std::isnan(mine.dk[3 * 16]));
}

TEST_CASE("cpu attention sees through a window what the judge sees", "[kernels][attention]") {
  // None but itself; within a vector, a block of rows, a tile; a tile; across several.
  for (const std::int32_t window : {0, 1, 5, 17, 63, 64, 65, 130, 199}) {
    for (const float p_drop : {0.f, 0.3f}) {
      INFO("window " << window << " dropout " << p_drop);
      check({.H = 4,
             .G = 2,
             .D = 20,
             .query_lengths = {5, 330, 1, 67},
             .key_lengths = {5, 330, 1, 67},
             .fused = true,
             .p_drop = p_drop,
             .window = window});
    }
  }
}

TEST_CASE("cpu attention decodes through a window", "[kernels][attention]") {
  for (const std::int32_t window : {0, 3, 40, 64, 100, 250}) {
    for (const std::int64_t D : {20, 64}) {
      INFO("window " << window << " D " << D);
      check({.H = 4,
             .G = 2,
             .D = D,
             .query_lengths = {1, 4, 2},
             .key_lengths = {300, 64, 165},
             .window = window});
      check({.H = 4,
             .G = 2,
             .D = D,
             .query_lengths = {70},
             .key_lengths = {300},
             .p_drop = 0.2f,
             .window = window});
    }
  }
}

TEST_CASE("a window may lie between queries and keys at any positions", "[kernels][attention]") {
  memory m{.H = 2, .G = 2, .D = 16, .query_lengths = {150, 70}, .key_lengths = {140, 66}};
  m.query_position = tests::draws(m.query_rows, 400, 7);  // neither ascending nor all after a key
  std::int32_t at = 3;
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = j == 140 ? at = 2 : at += 1 + std::int32_t(j % 5 == 0) * 2;
  for (const std::int32_t window : {0, 2, 30, 100}) {  // 0: many see none, because keys have gaps
    INFO("window " << window);
    m.window = window;
    m.p_drop = 0;
    check(m);
    m.p_drop = 0.3f;
    check(m);
  }
}

TEST_CASE("a window of the whole sequence is none, to the bit", "[kernels][attention]") {
  for (const std::int32_t queries : {200, 70, 3}) {
    memory m{.H = 4,
             .G = 2,
             .D = 24,
             .query_lengths = {queries, 31},
             .key_lengths = {200, 31},
             .p_drop = 0.1f};
    memory windowed = m;
    windowed.window = 199;
    CHECK(same_bits(computed(windowed, 2), computed(m, 2)));
    windowed.window = std::numeric_limits<std::int32_t>::max();
    CHECK(same_bits(computed(windowed, 2), computed(m, 2)));
    windowed.window = 10;
    CHECK_FALSE(same_bits(computed(windowed, 2), computed(m, 2)));
  }
}

TEST_CASE(
    "cpu attention through a window gives the same bits again, and in forward for any number "
    "of threads",
    "[kernels][attention]") {
  const memory m{.H = 2,
                 .G = 1,
                 .D = 64,
                 .query_lengths = {500},
                 .key_lengths = {500},
                 .p_drop = 0.1f,
                 .window = 70};
  const memory one = computed(m, 1), two = computed(m, 2);
  CHECK(same_bits(one, computed(m, 1)));
  CHECK(same_bits(two, computed(m, 2)));
  CHECK(one.o == two.o);
  CHECK(one.lse == two.lse);
}

TEST_CASE("a number that is none does not reach rows that never see its tile",
          "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {300}, .key_lengths = {300}, .window = 64};
  m.v[0] = m.k[0] = std::numeric_limits<float>::quiet_NaN();
  const memory mine = computed(m, 1);
  CHECK(std::isnan(mine.o[64 * 16]));
  for (std::size_t i = 128 * 16; i < mine.o.size(); ++i)
    REQUIRE(std::isfinite(mine.o[i]));
}

TEST_CASE("heads that are spread drop what they drop together, to the bit",
          "[kernels][attention]") {
  memory whole{
      .H = 4, .G = 2, .D = 20, .query_lengths = {90, 7}, .key_lengths = {90, 33}, .p_drop = 0.4f};
  whole = computed(whole, 1);
  memory half{.H = 2,
              .G = 1,
              .D = 20,
              .query_lengths = whole.query_lengths,
              .key_lengths = whole.key_lengths,
              .p_drop = 0.4f};
  half.first_head = 2;
  // Group 1 of the whole is all of the half.
  const auto second = [](const auto& from, std::size_t size) {
    std::remove_cvref_t<decltype(from)> out;
    for (std::size_t at = size; at < from.size(); at += 2 * size)
      out.insert(out.end(), from.begin() + long(at), from.begin() + long(at + size));
    return out;
  };
  half.q = second(whole.q, 40);
  half.k = second(whole.k, 20);
  half.v = second(whole.v, 20);
  half.d_o = second(whole.d_o, 40);
  const memory mine = computed(half, 1);
  CHECK(mine.o == second(whole.o, 40));
  CHECK(mine.lse == second(whole.lse, 2));
  CHECK(mine.dq == second(whole.dq, 40));
  CHECK(mine.dk == second(whole.dk, 20));
  CHECK(mine.dv == second(whole.dv, 20));
  check(half);
}
