// Cases beyond the operation tester (op_tester_test.cpp): logits that are large, infinite, NaN or
// near certainty, very many rows, and gradients with another alignment than the logits.

#include "kernels/reference/reference.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <limits>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::cross_entropy_memory;
using tests::device_array;
using tests::relative_error;

namespace {

// Float sums have few terms (those of a thread; the rest is a tree of doubles), each exact to 2e-7.
constexpr double rounding = 1e-6;
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
void forward_on_device(cross_entropy_memory<T>& m) {
  const device_array<T> logits(m.logits);
  const device_array<std::int32_t> target(m.target);
  device_array<float> loss(m.loss), lse(m.lse);
  auto op = m.forward();
  op.logits = logits.data();
  op.target = target.data();
  op.loss = loss.data();
  op.lse = lse.data();
  tests::run_on_device(op);
  m.loss = loss.download();
  m.lse = lse.download();
}

/// The gradients begin `shift` elements after an aligned address.
template <class T>
void backward_on_device(cross_entropy_memory<T>& m, std::size_t shift = 0) {
  const device_array<T> logits(m.logits);
  device_array<T> dlogits(m.dlogits, shift);
  const device_array<std::int32_t> target(m.target);
  const device_array<float> lse(m.lse), dloss(m.dloss);
  auto op = m.backward();
  op.logits = logits.data();
  op.dlogits = dlogits.data();
  op.target = target.data();
  op.lse = lse.data();
  op.dloss = dloss.data();
  tests::run_on_device(op);
  m.dlogits = dlogits.download();
}

/// Writes the gradients over the logits.
template <class T>
void both_passes_on_device(cross_entropy_memory<T>& m) {
  device_array<T> logits(m.logits);
  const device_array<std::int32_t> target(m.target);
  const device_array<float> dloss(m.dloss);
  device_array<float> loss(m.loss), lse(m.lse);
  auto op = m.both_passes();
  op.logits = op.dlogits = logits.data();
  op.target = target.data();
  op.dloss = dloss.data();
  op.loss = loss.data();
  op.lse = lse.data();
  tests::run_on_device(op);
  m.loss = loss.download();
  m.lse = lse.download();
  m.dlogits = logits.download();
}

template <class T>
cross_entropy_memory<double> judge_of(const cross_entropy_memory<T>& m) {
  cross_entropy_memory<double> judge{.R = m.R, .V = m.V, .vocabulary = m.vocabulary};
  judge.logits = tests::exactly(m.logits);
  judge.target = m.target;
  judge.dloss = m.dloss;
  return judge;
}

template <class T>
double away(const std::vector<T>& mine, const std::vector<double>& exact) {
  if constexpr (std::is_same_v<T, float>)
    return relative_error(mine, exact);
  else
    return tests::beyond_rounding(mine, exact);
}

/// Logits with some near-certain words.
template <class T>
cross_entropy_memory<T> drawn(std::int64_t R, std::int64_t V, std::int64_t n, std::uint32_t seed) {
  cross_entropy_memory<T> m{.R = R, .V = V, .vocabulary = n};
  const auto numbers = tests::normal<double>(m.logits.size(), seed);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    m.logits[i] = T(4 * numbers[i]);
  return m;
}

}  // namespace

TEMPLATE_TEST_CASE("on a device gradients and logits may have different alignments",
                   "[cross_entropy]",
                   float,
                   bf16,
                   f16) {
  const std::int64_t V = GENERATE(80, 4099);
  auto m = drawn<TestType>(3, V, V - 13, 7);
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  m.lse = judge.lse;
  kernels::reference::run(judge.backward());
  backward_on_device(m, 1);
  CHECK(away(m.dlogits, judge.dlogits) < rounding);
}

TEST_CASE("cross-entropy on a device uses one block per long row", "[cross_entropy]") {
  auto m = drawn<bf16>(530, 8200, 8197, 3);
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  CHECK(relative_error(m.loss, judge.loss) < rounding);
  CHECK(relative_error(m.lse, judge.lse) < rounding);
}

TEMPLATE_TEST_CASE("both passes of cross-entropy on a device use one block per long row",
                   "[cross_entropy]",
                   float,
                   bf16,
                   f16) {
  // More rows than multiprocessors, so each row has one block; each row has several parts.
  const std::int64_t V = sizeof(TestType) == 4 ? 8301 : 16602;
  auto m = drawn<TestType>(133, V, V - 4, 5);
  m.target[0] = std::int32_t(V);  // outside the row
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  both_passes_on_device(m);
  CHECK(relative_error(m.loss, judge.loss) < rounding);
  CHECK(relative_error(m.lse, judge.lse) < rounding);
  judge.lse = m.lse;
  kernels::reference::run(judge.backward());
  CHECK(away(m.dlogits, judge.dlogits) < rounding);
}

TEST_CASE("both passes of cross-entropy on a device: a masked row has a loss and zero gradient",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 3, .V = 67, .vocabulary = 65};
  m.logits[2 * 67 + 5] = -infinity;
  m.logits[1 * 67 + 7] = std::numeric_limits<float>::quiet_NaN();
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  both_passes_on_device(m);  // row 2 is masked
  CHECK(std::vector<float>(m.dlogits.begin() + 2 * 67, m.dlogits.end()) == std::vector<float>(67));
  CHECK(std::abs(m.loss[2] - judge.loss[2]) < 8 * rounding);
  CHECK(std::isnan(m.loss[1]));
  CHECK(std::isnan(m.dlogits[67]));
}

TEST_CASE("cross-entropy on a device keeps a small loss beside large logits", "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 2, .V = 65, .vocabulary = 65};
  for (auto& value : m.logits)
    value += 1000;
  for (std::size_t r = 0; r < 2; ++r)
    m.logits[r * 65 + std::size_t(m.target[r])] = 1010;
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  // The sum, 1.005, is a float; lse, 1010, would have an error of 3e-5 as a float.
  for (std::size_t r = 0; r < 2; ++r)
    CHECK(std::abs(m.loss[r] - judge.loss[r]) < 3e-7);
}

TEST_CASE("cross-entropy on a device keeps a small gradient near certainty", "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 1, .V = 65, .vocabulary = 65};
  const auto target = std::size_t(m.target[0]);
  m.logits[target] = 20;
  m.dloss = {1};
  auto judge = judge_of(m);
  forward_on_device(m);
  m.lse[0] = 20.0F + 4e-6F;  // p is 1 - 4e-6; as a float, 1 - p would have an error of 1.5 %
  judge.lse = m.lse;
  kernels::reference::run(judge.backward());
  backward_on_device(m);
  CHECK(std::abs(double(m.dlogits[target]) / judge.dlogits[target] - 1) < rounding);
}

TEST_CASE("cross-entropy on a device: a masked row has zero gradient for any contents",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 3, .V = 67, .vocabulary = 65};
  m.logits[2 * 67 + 5] = infinity;
  m.logits[2 * 67 + 6] = std::numeric_limits<float>::quiet_NaN();
  forward_on_device(m);
  backward_on_device(m);  // row 2 is masked
  CHECK(std::vector<float>(m.dlogits.begin() + 2 * 67, m.dlogits.end()) == std::vector<float>(67));
}

TEST_CASE("cross-entropy on a device accepts impossible words and propagates NaN",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 2, .V = 9001, .vocabulary = 9001};
  std::fill(m.logits.begin(), m.logits.begin() + 8990, -infinity);  // most threads have only these
  m.target[0] = 9000;
  m.logits[9001 + 17] = std::numeric_limits<float>::quiet_NaN();
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  CHECK(std::abs(m.loss[0] - judge.loss[0]) < rounding * judge.loss[0]);
  CHECK(std::isnan(m.loss[1]));
}

TEST_CASE("merging on a device handles distant parts, infinities and NaN", "[cross_entropy]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const device_array<float> a(std::vector<float>{1000, -infinity, -infinity, nan, -1000, 3});
  const device_array<float> b(std::vector<float>{-1000, 5, -infinity, 1, 90, nan});
  const device_array<float> c(std::vector<float>{1000, 5, -infinity, 2, 90, -infinity});
  const device_array<float> logit(std::vector<float>{999, 0, 0, 0, 90, 0});
  const device_array<float> zero(std::vector<float>(6));
  const float* lses[] = {a.data(), b.data(), c.data()};
  const float* logits[] = {zero.data(), logit.data(), zero.data()};
  device_array<float> loss_there(6), lse_there(6);
  tests::run_on_device(kernels::cross_entropy_merge<float>{.loss = loss_there.data(),
                                                           .lse = lse_there.data(),
                                                           .part_lse = lses,
                                                           .part_logit = logits,
                                                           .parts = 3,
                                                           .R = 6});
  const auto loss = loss_there.download(), lse = lse_there.download();
  const double two = std::log(2.0);
  CHECK(lse[0] == float(1000 + two));
  CHECK(loss[0] == float(1 + two));  // not the difference of two floats near 1000
  CHECK(lse[1] == float(5 + two));
  CHECK(lse[2] == -infinity);
  CHECK(std::isnan(lse[3]));
  CHECK(loss[4] == float(two));
  CHECK(std::isnan(loss[5]));
}
