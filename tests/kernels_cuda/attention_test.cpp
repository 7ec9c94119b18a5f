// Our own attention for devices against the judge, which sums in double and knows no tiles.

#include "tests/support/attention_on_device.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <limits>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::attended_on_device;
using tests::judged;
using memory = tests::attention_memory<float>;

namespace {

// Sums of up to a few hundred products in float, each rounded once, and exponents to base 2 of
// scores that were rounded twice: 30 roundings of 6e-8 leave room for the longest sum here.
template <class T>
constexpr double tolerance = 2e-6;
// The same, and one rounding of the result: half a unit of 8 bits of fraction, and of 11.
template <>
constexpr double tolerance<bf16> = 0x1p-8;
template <>
constexpr double tolerance<f16> = 0x1p-11 + 2e-6;

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
void check_close(const std::vector<T>& mine, const std::vector<double>& judge, double scale = 0) {
  bool same_kind = true;
  for (std::size_t i = 0; i < judge.size(); ++i)
    same_kind = same_kind && std::isfinite(double(mine[i])) == std::isfinite(judge[i]);
  CHECK(same_kind);
  double worst = 0;
  for (std::size_t i = 0; i < judge.size(); ++i) {
    scale = std::max(scale, std::abs(judge[i]));
    worst = std::max(worst, std::abs(double(mine[i]) - judge[i]));
  }
  CHECK(worst <= tolerance<T> * scale);
}

template <class T>
void check(const tests::attention_memory<T>& m) {
  const auto mine = attended_on_device(m);
  const auto judge = judged(mine);
  check_close(mine.o, judge.o);
  bool same_kind = true;
  double worst = 0;
  for (std::size_t i = 0; i < judge.lse.size(); ++i) {
    same_kind = same_kind && std::isfinite(mine.lse[i]) == std::isfinite(judge.lse[i]);
    if (std::isfinite(judge.lse[i]))
      worst = std::max(worst, std::abs(double(mine.lse[i]) - double(judge.lse[i])));
  }
  CHECK(same_kind);
  CHECK(worst < 8 * tolerance<float>);  // of scores, which are below 8
  check_close(mine.dv, judge.dv);
  // A softmax of one number has no slope: what is left are roundings of products near 1.
  check_close(mine.dq, judge.dq, 1);
  check_close(mine.dk, judge.dk, 1);
}

template <class T>
bool same_bits(const tests::attention_memory<T>& a, const tests::attention_memory<T>& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

}  // namespace

TEST_CASE("attention on a device agrees with the judge on every head size", "[attention]") {
  const auto D = GENERATE(1, 3, 20, 40, 64, 80, 96, 128, 131, 256);
  INFO("D " << D);
  check(memory{.H = 2, .G = 1, .D = D, .query_lengths = {70}, .key_lengths = {70}});
}

TEST_CASE("attention on a device agrees with the judge whatever the lengths are to its tiles",
          "[attention]") {
  const std::int32_t T = GENERATE(1, 2, 63, 64, 65, 128, 131);
  INFO("T " << T);
  check(memory{.H = 1, .G = 1, .D = 16, .query_lengths = {T, 40}, .key_lengths = {T, 40}});
}

TEST_CASE("attention on a device without causality sees every key", "[attention]") {
  check(memory{.H = 3,
               .G = 3,
               .D = 24,
               .query_lengths = {70, 3},
               .key_lengths = {131, 77},
               .causal = false});
}

TEST_CASE("attention on a device of grouped queries in packed sequences and one fused product",
          "[attention]") {
  const std::uint32_t seed = GENERATE(1, 2);
  check(redrawn(memory{.H = 6,
                       .G = 2,
                       .D = 32,
                       .query_lengths = {5, 130, 1, 67},
                       .key_lengths = {5, 130, 1, 67},
                       .fused = true},
                seed));
}

TEST_CASE("attention on a device of queries that begin anywhere in a tile of keys", "[attention]") {
  const std::int32_t keys = GENERATE(130, 131, 132, 133);
  check(memory{.H = 1, .G = 1, .D = 16, .query_lengths = {69}, .key_lengths = {keys}});
}

TEST_CASE("attention on a device decodes: few queries, many keys", "[attention]") {
  check(memory{.H = 4, .G = 2, .D = 20, .query_lengths = {1, 4, 2}, .key_lengths = {200, 64, 65}});
  check(memory{.H = 2, .G = 1, .D = 64, .query_lengths = {7}, .key_lengths = {150}});
}

TEST_CASE("attention on a device spreads many keys of few queries, and merges the parts",
          "[attention]") {
  const std::int32_t keys = GENERATE(257, 641);  // three parts, the last of one tile; six
  for (const std::int32_t window : {-1, 100}) {  // parts that see nothing
    INFO("keys " << keys << " window " << window);
    const memory m{.H = 2,
                   .G = 1,
                   .D = 24,
                   .query_lengths = {1, 0, 3},
                   .key_lengths = {keys, 7, 70},
                   .p_drop = 0.2f,
                   .window = window};
    CHECK(kernels::cuda::scratch(memory(m).forward()) > 0);
    check(m);
    check(tests::attention_memory<bf16>{
        .H = 2, .G = 2, .D = 136, .query_lengths = {2}, .key_lengths = {keys}, .window = window});
  }
}

TEST_CASE("attention on a device keeps many queries together", "[attention]") {
  memory m{.H = 46, .G = 2, .D = 8, .query_lengths = {131}, .key_lengths = {195}};
  CHECK(kernels::cuda::scratch(m.forward()) == 0);
  check(m);
}

TEST_CASE("attention on a device takes empty sequences", "[attention]") {
  check(memory{.H = 2, .G = 1, .D = 16, .query_lengths = {0, 9, 0}, .key_lengths = {0, 9, 0}});
  check(memory{.H = 2, .G = 1, .D = 16, .query_lengths = {3, 0}, .key_lengths = {0, 70}});
  check(memory{.H = 2, .G = 1, .D = 16, .query_lengths = {0}, .key_lengths = {0}});
}

TEST_CASE("attention on a device takes queries and keys at any positions, through any window",
          "[attention]") {
  memory m{.H = 2, .G = 2, .D = 16, .query_lengths = {150, 70}, .key_lengths = {140, 66}};
  m.query_position = tests::draws(m.query_rows, 400, 7);  // neither ascending nor all after a key
  std::int32_t at = 3;
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = j == 140 ? at = 2 : at += 1 + std::int32_t(j % 5 == 0) * 2;
  m.window = GENERATE(-1, 0, 2, 100);  // 0: many see none, because keys have gaps
  INFO("window " << m.window);
  check(m);
  m.p_drop = 0.3f;
  check(m);
}

TEST_CASE("on a device a query that sees no key gets zeros and minus infinity", "[attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {70}, .key_lengths = {70}};
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = std::int32_t(j) + 10;
  check(m);
  const memory mine = attended_on_device(m);
  CHECK(mine.lse[9] == -infinity);
  CHECK(mine.o[9 * 16] == 0);
  CHECK(mine.dq[9 * 16] == 0);
  CHECK(mine.lse[10] > -infinity);
}

TEST_CASE("attention on a device sees through a window what the judge sees", "[attention]") {
  const std::int32_t window = GENERATE(0, 1, 17, 63, 64, 65, 125, 126, 127, 130);
  INFO("window " << window);
  check(memory{.H = 2,
               .G = 1,
               .D = 20,
               .query_lengths = {5, 200},
               .key_lengths = {5, 200},
               .fused = true,
               .window = window});
  check(memory{
      .H = 2, .G = 1, .D = 20, .query_lengths = {3}, .key_lengths = {200}, .window = window});
}

TEST_CASE("on a device a window of the whole sequence is none, to the bit", "[attention]") {
  memory m{.H = 2, .G = 1, .D = 24, .query_lengths = {130}, .key_lengths = {130}, .p_drop = 0.1f};
  memory windowed = m;
  windowed.window = 129;
  CHECK(same_bits(attended_on_device(windowed), attended_on_device(m)));
  windowed.window = std::numeric_limits<std::int32_t>::max();
  CHECK(same_bits(attended_on_device(windowed), attended_on_device(m)));
  windowed.window = 10;
  CHECK_FALSE(same_bits(attended_on_device(windowed), attended_on_device(m)));
}

TEST_CASE("attention on a device drops what the judge drops", "[attention]") {
  const std::int32_t keys = GENERATE(90, 91, 92, 93);  // positions start at every place of a block
  memory m{.H = 3,
           .G = 1,
           .D = 16,
           .query_lengths = {70, 33},
           .key_lengths = {keys, 33},
           .p_drop = 0.25f,
           .first_head = 5};
  for (auto& position : m.query_position)
    position += keys;
  for (auto& position : m.key_position)
    position += keys;
  check(m);
}

TEST_CASE("attention on a device in bf16 and fp16 is rounded once", "[attention]") {
  const auto narrow = []<class T>(T) {
    for (const std::int64_t D : {64, 72, 128}) {  // tiles of vectors, padded ones, both halves
      INFO("D " << D);
      check(tests::attention_memory<T>{.H = 4,
                                       .G = 2,
                                       .D = D,
                                       .query_lengths = {67, 9},
                                       .key_lengths = {67, 9},
                                       .fused = true,
                                       .p_drop = 0.1f});
    }
    check(tests::attention_memory<T>{
        .H = 2, .G = 1, .D = 37, .query_lengths = {3}, .key_lengths = {70}, .causal = false});
  };
  narrow(bf16{});
  narrow(f16{});
}

TEST_CASE("attention on a device leaves what lies between its rows", "[attention]") {
  const std::int64_t D = GENERATE(16, 64, 21), gap = 8;
  const memory m{.H = 4,
                 .G = 2,
                 .D = D,
                 .query_lengths = {70},
                 .key_lengths = {70},
                 .fused = true,
                 .query_row = 2 * 4 * D + gap,
                 .key_row = 2 * 4 * D + gap};
  check(m);
  const memory mine = attended_on_device(m);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < mine.dq.size(); ++i)
    kept += mine.dq[i] == tests::unwritten && i % std::size_t(m.query_row) >= std::size_t(8 * D);
  CHECK(kept == std::size_t(70 * gap));
}

TEST_CASE("attention on a device takes pointers that vectors cannot be loaded from",
          "[attention]") {
  const memory m{.H = 2, .G = 1, .D = 64, .query_lengths = {66}, .key_lengths = {66}};
  CHECK(same_bits(attended_on_device(m), attended_on_device(m, 1)));  // other loads, the same sums
  const tests::attention_memory<bf16> narrow{
      .H = 2, .G = 1, .D = 64, .query_lengths = {66}, .key_lengths = {66}};
  CHECK(same_bits(attended_on_device(narrow), attended_on_device(narrow, 3)));
}

TEST_CASE("attention on a device gives the same bits again, in whatever order its threads run",
          "[attention]") {
  const memory m{.H = 2,
                 .G = 1,
                 .D = 64,
                 .query_lengths = {130, 31},
                 .key_lengths = {130, 31},
                 .fused = true,
                 .p_drop = 0.1f};
  const memory first = attended_on_device(m);
  for (const int seed : {2, 3}) {
    const tests::emulated_seed order(seed);
    CHECK(same_bits(first, attended_on_device(m)));
  }
}

TEST_CASE("on a device a number that is none reaches the result of its row alone", "[attention]") {
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
  for (std::size_t i = 128 * 16; i < mine.o.size(); ++i)  // rows that never see its tile
    REQUIRE(std::isfinite(mine.o[i]));
}
