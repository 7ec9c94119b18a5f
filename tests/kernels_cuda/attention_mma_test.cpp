// Compares attention on tensor cores with the reference, for all options of attention.

#include "tests/support/attention_on_device.hpp"
#include "tests/support/device_tolerance.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <limits>
#include <utility>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using kernels::cuda::own_kernels;
using kernels::cuda::tensor_cores_take;
using tests::attention_memory;
using tests::relative_error;

namespace {

template <class T>
attention_memory<T> attended(const attention_memory<T>& m, std::size_t shift = 0) {
  return attended_on_device(m, shift, false, own_kernels::tensor_cores);
}

template <class T>
void check_passes(const attention_memory<T>& m) {
  INFO("H " << m.H << " G " << m.G << " D " << m.D << " sequences " << m.query_lengths.size()
            << " of " << m.query_lengths[0] << " causal " << m.causal << " window " << m.window
            << " dropout " << m.p_drop);
  auto copy = m;
  REQUIRE(tensor_cores_take(copy.forward()));
  REQUIRE(tensor_cores_take(copy.backward()));
  const auto mine = attended(m);
  const auto judge = judged(mine);
  CHECK(relative_error(mine.o, judge.o) < tests::roundings_of_attention<T>);
  CHECK(relative_error(mine.lse, judge.lse) < tests::error_of_log_sum_exp);
  CHECK(relative_error(mine.dq, judge.dq) < tests::roundings_of_attention<T>);
  CHECK(relative_error(mine.dk, judge.dk) < tests::roundings_of_attention<T>);
  CHECK(relative_error(mine.dv, judge.dv) < tests::roundings_of_attention<T>);
}

}  // namespace

TEMPLATE_TEST_CASE("attention on tensor cores handles packed sequences of grouped queries",
                   "[attention]",
                   bf16,
                   f16) {
  check_passes(attention_memory<TestType>{.H = 4,
                                          .G = 2,
                                          .D = 64,
                                          .query_lengths = {70, 0, 5, 64},
                                          .key_lengths = {70, 0, 5, 64},
                                          .fused = true});
}

TEMPLATE_TEST_CASE(
    "attention on tensor cores handles more keys than queries, with and without a mask",
    "[attention]",
    bf16,
    f16) {
  attention_memory<TestType> m{
      .H = 2, .G = 1, .D = 80, .query_lengths = {40, 3}, .key_lengths = {135, 20}};
  check_passes(m);
  m.causal = false;
  check_passes(m);
}

TEMPLATE_TEST_CASE("attention on tensor cores handles values of another head size",
                   "[attention]",
                   bf16,
                   f16) {
  for (const auto& [D, Dv] : {std::pair{64, 40}, {40, 72}, {192, 128}, {64, 136}})
    check_passes(attention_memory<TestType>{.H = 4,
                                            .G = 2,
                                            .D = D,
                                            .Dv = Dv,
                                            .query_lengths = {70, 5},
                                            .key_lengths = {70, 5},
                                            .fused = true,
                                            .p_drop = 0.2F});
}

TEMPLATE_TEST_CASE("attention on tensor cores handles a window", "[attention]", bf16, f16) {
  attention_memory<TestType> m{.H = 1,
                               .G = 1,
                               .D = 128,
                               .query_lengths = {200},
                               .key_lengths = {200},
                               .window = GENERATE(1, 20, 100)};
  check_passes(m);
}

TEST_CASE("attention on tensor cores handles all head sizes", "[attention]") {
  const std::int64_t D = GENERATE(8, 24, 72, 136, 256);
  check_passes(attention_memory<bf16>{
      .H = 2, .G = 1, .D = D, .query_lengths = {67}, .key_lengths = {67}, .fused = true});
}

TEST_CASE("tensor cores and scalar kernels drop the same weights", "[attention]") {
  const std::int64_t D = GENERATE(64, 128, 256);
  attention_memory<f16> m{.H = 2,
                          .G = 1,
                          .D = D,
                          .query_lengths = {17, 66},
                          .key_lengths = {17, 66},
                          .p_drop = 0.3f,
                          .first_head = 5};
  for (auto& position : m.key_position)  // groups of four random words do not align with four keys
    position += 3;
  for (auto& position : m.query_position)
    position += 3;
  check_passes(m);
}

TEST_CASE("attention on tensor cores has reproducible bits", "[attention]") {
  const attention_memory<bf16> m{
      .H = 2, .G = 1, .D = 128, .query_lengths = {130}, .key_lengths = {130}, .p_drop = 0.1f};
  const auto mine = attended(m), again = attended(m);
  CHECK(mine.o == again.o);
  CHECK(mine.lse == again.lse);
  CHECK(mine.dq == again.dq);
  CHECK(mine.dk == again.dk);
  CHECK(mine.dv == again.dv);
}

TEST_CASE("on tensor cores a query without keys gets zeros and minus infinity", "[attention]") {
  attention_memory<bf16> m{.H = 1, .G = 1, .D = 64, .query_lengths = {70}, .key_lengths = {70}};
  for (auto& position : m.key_position)
    position += 10;
  const auto mine = attended(m);
  CHECK(mine.lse[9] == -std::numeric_limits<float>::infinity());
  CHECK(double(mine.o[9 * 64]) == 0);
  CHECK(double(mine.dq[9 * 64]) == 0);
  CHECK(mine.lse[10] > -std::numeric_limits<float>::infinity());
  check_passes(m);
}

TEST_CASE("on tensor cores a NaN reaches only the result of its own row", "[attention]") {
  attention_memory<bf16> m{
      .H = 1, .G = 1, .D = 64, .query_lengths = {100}, .key_lengths = {100}, .window = 20};
  m.q[75 * 64] = bf16(std::numeric_limits<float>::quiet_NaN());
  const auto mine = attended(m);
  CHECK(std::isnan(float(mine.o[75 * 64])));
  CHECK(std::isnan(mine.lse[75]));
  for (const int row : {74, 76}) {
    CHECK(std::isfinite(float(mine.o[row * 64])));
    CHECK(std::isfinite(float(mine.dq[row * 64])));
  }
  CHECK(std::isnan(float(mine.dk[60 * 64])));
}

TEST_CASE("scalar kernels compute the shapes that tensor cores do not support", "[attention]") {
  const auto refused = [](auto m, std::size_t shift = 0) {
    if (shift == 0) {
      CHECK_FALSE(tensor_cores_take(m.forward()));
      CHECK_FALSE(tensor_cores_take(m.backward()));
    }
    const auto mine = attended(m, shift);
    const auto scalar = attended_on_device(m, shift, false, own_kernels::scalar);
    CHECK(mine.o == scalar.o);
    CHECK(mine.dk == scalar.dk);
    return scalar;
  };
  const auto sized = []<class T>(T, std::int64_t D, std::int32_t rows) {
    return attention_memory<T>{
        .H = 1, .G = 1, .D = D, .query_lengths = {rows}, .key_lengths = {rows}};
  };
  refused(sized(float{}, 64, 20));
  refused(sized(bf16{}, 12, 20));  // rows are not a multiple of 16 bytes
  refused(sized(bf16{}, 64, 15));  // too few queries
  const auto m = sized(bf16{}, 64, 20);
  const auto scalar = refused(m, 3);  // misaligned
  CHECK(scalar.o != attended(m).o);   // the two kernels have different bits
}
