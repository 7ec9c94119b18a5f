// Cases beyond the operation tester (op_tester.hpp): rows without visible keys, equal bits in
// equivalent shapes, and NaN.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

using namespace troupe;
using memory = tests::attention_memory<float>;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

memory computed(memory m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward(), threads);
  return m;
}

bool same_bits(const memory& a, const memory& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

}  // namespace

TEST_CASE("a query that sees no key gets zeros and minus infinity", "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {70}, .key_lengths = {70}};
  for (std::size_t j = 0; j < m.key_position.size(); ++j)
    m.key_position[j] = std::int32_t(j) + 10;
  const memory mine = computed(m, 1);
  CHECK(mine.lse[9] == -infinity);
  CHECK(mine.o[9 * 16] == 0);
  CHECK(mine.dq[9 * 16] == 0);
  CHECK(mine.lse[10] > -infinity);
}

TEST_CASE("NaN reaches the result of its row, so that the training step detects it",
          "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {80}, .key_lengths = {80}};
  m.q[75 * 16] = std::numeric_limits<float>::quiet_NaN();
  const memory mine = computed(m, 1);
  CHECK(std::isnan(mine.o[75 * 16]));
  CHECK(std::isnan(mine.lse[75]));
  CHECK(std::isfinite(mine.o[74 * 16]));
  CHECK(std::isnan(mine.dk[3 * 16]));
}

TEST_CASE("NaN reaches every bf16 result that depends on it", "[kernels][attention][narrow]") {
  const kernels::bf16 none(std::numeric_limits<float>::quiet_NaN());
  const auto is_none = [](kernels::bf16 x) { return std::isnan(float(x)); };
  const tests::attention_memory<kernels::bf16> clean{
      .H = 1, .G = 1, .D = 24, .query_lengths = {200}, .key_lengths = {200}};
  const auto computed_with = [&](auto tensor, std::size_t at) {
    auto m = clean;
    if (at < (m.*tensor).size())
      (m.*tensor)[at] = none;
    tests::on_cpu(m.forward());
    tests::on_cpu(m.backward());
    return m;
  };
  using narrow = tests::attention_memory<kernels::bf16>;
  const auto of_q = computed_with(&narrow::q, 175 * 24);
  CHECK(is_none(of_q.o[175 * 24 + 23]));
  CHECK(std::isnan(of_q.lse[175]));
  CHECK_FALSE(is_none(of_q.o[174 * 24]));
  CHECK_FALSE(is_none(of_q.o[176 * 24]));
  CHECK(is_none(of_q.dk[3 * 24]));
  CHECK(is_none(of_q.dk[175 * 24 + 23]));
  CHECK(is_none(of_q.dq[175 * 24]));
  const auto of_k = computed_with(&narrow::k, 50 * 24 + 5);
  CHECK(std::isnan(of_k.lse[50]));
  CHECK(is_none(of_k.o[199 * 24]));
  CHECK(is_none(of_k.dq[199 * 24]));
  CHECK_FALSE(std::isnan(of_k.lse[49]));
  const auto of_v = computed_with(&narrow::v, 50 * 24 + 5);
  CHECK(is_none(of_v.o[50 * 24 + 5]));
  CHECK(is_none(of_v.o[199 * 24 + 5]));
  CHECK_FALSE(is_none(of_v.o[199 * 24 + 6]));
  const auto of_d_o = computed_with(&narrow::d_o, 130 * 24 + 5);
  CHECK(is_none(of_d_o.dv[130 * 24 + 5]));
  CHECK(is_none(of_d_o.dk[0]));
  CHECK(is_none(of_d_o.dq[130 * 24]));
  const auto of_none = computed_with(&narrow::q, clean.q.size());
  CHECK(std::none_of(of_none.dk.begin(), of_none.dk.end(), is_none));
  CHECK(std::none_of(of_none.dq.begin(), of_none.dq.end(), is_none));
}

TEST_CASE("a window of the whole sequence has the bits of no window", "[kernels][attention]") {
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

TEST_CASE("NaN does not reach rows that never see its tile", "[kernels][attention]") {
  memory m{.H = 1, .G = 1, .D = 16, .query_lengths = {300}, .key_lengths = {300}, .window = 64};
  m.v[0] = m.k[0] = std::numeric_limits<float>::quiet_NaN();
  const memory mine = computed(m, 1);
  CHECK(std::isnan(mine.o[64 * 16]));
  for (std::size_t i = 128 * 16; i < mine.o.size(); ++i)
    REQUIRE(std::isfinite(mine.o[i]));
}

// The absorbed form of latent attention, whose cache has no values of its own.
TEMPLATE_TEST_CASE("values may be the first elements of keys",
                   "[kernels][attention]",
                   float,
                   kernels::bf16) {
  for (const std::int32_t queries : {3, 70}) {
    tests::attention_memory<TestType> apart{
        .H = 4, .G = 1, .D = 48, .Dv = 32, .query_lengths = {queries}, .key_lengths = {70}};
    for (std::size_t j = 0; j < 70; ++j)
      std::copy_n(&apart.k[j * 48], 32, &apart.v[j * 32]);
    auto shared = apart;
    auto op = shared.forward();
    op.v = op.k;
    op.shape.value_row = op.shape.key_row;
    op.shape.value_group = op.shape.key_group;
    tests::on_cpu(op, 2);
    tests::on_cpu(apart.forward(), 2);
    CHECK(shared.o == apart.o);
    CHECK(shared.lse == apart.lse);
  }
}

TEST_CASE("heads spread over ranks have the dropout bits of all heads together",
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
  // Group 1 of `whole` is the only group of `half`.
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
  // lse is (4, 90) and (4, 7): takes the last two heads of each.
  std::vector<float> lse(whole.lse.begin() + 2 * 90, whole.lse.begin() + 4 * 90);
  lse.insert(lse.end(), whole.lse.end() - 2 * 7, whole.lse.end());
  CHECK(mine.lse == lse);
  CHECK(mine.dq == second(whole.dq, 40));
  CHECK(mine.dk == second(whole.dk, 20));
  CHECK(mine.dv == second(whole.dv, 20));
}

// For the maximum, the difference of scores must be exactly 0, however large they are.
TEMPLATE_TEST_CASE("scores beyond the float range give one key all the weight",
                   "[kernels][attention]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  for (const float scale : {3e8f, 1e10f, -1e10f}) {
    tests::attention_memory<TestType> m{
        .H = 2, .G = 2, .D = 32, .query_lengths = {64}, .key_lengths = {64}};
    auto op = m.forward();
    op.shape.scale = scale;
    tests::on_cpu(op, 2);
    INFO("scale " << scale);
    for (int r = 0; r < 64; ++r)
      for (int h = 0; h < 2; ++h) {
        const TestType* const o = &m.o[std::size_t((r * 2 + h) * 32)];
        const bool found = std::any_of(&m.v[0], &m.v[0] + 64 * 2 * 32, [&](const TestType& v) {
          return (&v - &m.v[0]) % 32 == 0
                 && std::equal(o, o + 32, &v, [](auto a, auto b) { return float(a) == float(b); });
        });
        REQUIRE(found);
      }
  }
}
