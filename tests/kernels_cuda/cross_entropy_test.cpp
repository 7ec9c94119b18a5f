// Cross-entropy on devices against the judge, which sums in double.

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

// A sum of floats has few terms (a thread's, then a tree of doubles) and each is known to 2e-7.
constexpr double rounding = 1e-6;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// What a row's place of columns is among those of the whole vocabulary.
struct place {
  std::int32_t first = 0;
  std::vector<float>* target_logit = nullptr;
};

/// Every array begins `shift` elements after an aligned address.
template <class T>
void forward_on_device(cross_entropy_memory<T>& m, std::size_t shift = 0, place at = {}) {
  const device_array<T> logits(m.logits, shift);
  const device_array<std::int32_t> target(m.target, shift);
  device_array<float> loss(m.loss, shift), lse(m.lse, shift), logit(m.loss, shift);
  auto op = m.forward();
  op.logits = logits.data();
  op.target = target.data();
  op.loss = loss.data();
  op.lse = lse.data();
  op.first = at.first;
  if (at.target_logit != nullptr)
    op.target_logit = logit.data();
  tests::run_on_device(op);
  m.loss = loss.download();
  m.lse = lse.download();
  if (at.target_logit != nullptr)
    *at.target_logit = logit.download();
}

enum class where { apart, in_place, unlike };  ///< unlike: 16 bytes begin elsewhere in a row

template <class T>
void backward_on_device(cross_entropy_memory<T>& m,
                        where to = where::apart,
                        std::size_t shift = 0,
                        std::int32_t first = 0) {
  device_array<T> logits(m.logits, shift);
  device_array<T> dlogits(m.dlogits, to == where::unlike ? shift + 1 : shift);
  const device_array<std::int32_t> target(m.target);
  const device_array<float> lse(m.lse), dloss(m.dloss);
  auto op = m.backward();
  op.logits = logits.data();
  op.dlogits = to == where::in_place ? logits.data() : dlogits.data();
  op.target = target.data();
  op.lse = lse.data();
  op.dloss = dloss.data();
  op.first = first;
  tests::run_on_device(op);
  m.dlogits = to == where::in_place ? logits.download() : dlogits.download();
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

/// Logits that make some words sure.
template <class T>
cross_entropy_memory<T> drawn(std::int64_t R, std::int64_t V, std::int64_t n, std::uint32_t seed) {
  cross_entropy_memory<T> m{.R = R, .V = V, .vocabulary = n};
  const auto numbers = tests::normal<double>(m.logits.size(), seed);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    m.logits[i] = T(4 * numbers[i]);
  return m;
}

template <class T>
void check(std::int64_t R, std::int64_t V, std::int64_t vocabulary, std::size_t shift) {
  auto m = drawn<T>(R, V, vocabulary, 7);
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m, shift);
  CHECK(relative_error(m.loss, judge.loss) < rounding);
  CHECK(relative_error(m.lse, judge.lse) < rounding);
  judge.lse = m.lse;
  kernels::reference::run(judge.backward());
  for (const auto to : {where::apart, where::in_place, where::unlike}) {
    INFO("to " << int(to));
    backward_on_device(m, to, shift);
    CHECK(away(m.dlogits, judge.dlogits) < rounding);
    for (std::int64_t r = 0; r < R; ++r)
      for (std::int64_t v = vocabulary; v < V; ++v)
        REQUIRE(double(m.dlogits[std::size_t(r * V + v)]) == 0);
  }
}

}  // namespace

// e^200 is more than a float holds: without the highest logit of the row the sum overflows.
TEST_CASE("cross-entropy on a device knows the highest logit wherever it lies", "[kernels][cuda]") {
  const std::int64_t V = GENERATE(700, 3001, 9001);  // blocks of one warp, of 4, of 8
  for (const std::int64_t at : {std::int64_t{0}, V / 7, V / 3, V / 2, V - 150, V - 1}) {
    cross_entropy_memory<float> m{.R = 1, .V = V, .vocabulary = V};
    for (float& x : m.logits)
      x = 0;
    m.logits[std::size_t(at)] = 200;
    m.target[0] = std::int32_t(V - 1);
    auto judge = judge_of(m);
    kernels::reference::run(judge.forward());
    forward_on_device(m);
    CAPTURE(at);
    CHECK(std::abs(m.lse[0] - judge.lse[0]) < rounding * 200);
    CHECK(std::abs(m.loss[0] - judge.loss[0]) < rounding * 200);
  }
}

TEMPLATE_TEST_CASE(
    "cross-entropy on a device agrees with the judge", "[cross_entropy]", float, bf16, f16) {
  struct shape {
    std::int64_t R, V, vocabulary;
  };
  // One word; a character model; padding inside a vector; several parts of a row, the last short;
  // GPT-2's, padded and not, so that rows begin at any element.
  const auto [R, V, vocabulary] = GENERATE(values<shape>({{1, 1, 1},
                                                          {5, 65, 65},
                                                          {7, 80, 67},
                                                          {131, 131, 127},
                                                          {3, 4099, 4099},
                                                          {2, 50304, 50257},
                                                          {3, 50257, 50257}}));
  const std::size_t shift = GENERATE(0, 1);
  INFO("R " << R << " V " << V << " shift " << shift);
  check<TestType>(R, V, vocabulary, shift);
}

TEST_CASE("cross-entropy on a device with a block for each long row", "[cross_entropy]") {
  auto m = drawn<bf16>(530, 8200, 8197, 3);
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  CHECK(relative_error(m.loss, judge.loss) < rounding);
  CHECK(relative_error(m.lse, judge.lse) < rounding);
}

TEST_CASE("cross-entropy on a device finds a maximum that comes last", "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 1, .V = 20011, .vocabulary = 20011};
  for (std::size_t v = 0; v < m.logits.size(); ++v)
    m.logits[v] = float(v) / 100;
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  CHECK(relative_error(m.lse, judge.lse) < rounding);
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
  // The sum, 1.005, is a float; lse, 1010, as a float would be known to 3e-5.
  for (std::size_t r = 0; r < 2; ++r)
    CHECK(std::abs(m.loss[r] - judge.loss[r]) < 3e-7);
}

TEST_CASE("cross-entropy on a device keeps a small slope where the model is sure",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 1, .V = 65, .vocabulary = 65};
  const auto target = std::size_t(m.target[0]);
  m.logits[target] = 20;
  m.dloss = {1};
  auto judge = judge_of(m);
  forward_on_device(m);
  m.lse[0] = 20.0F + 4e-6F;  // p is 1 - 4e-6, which a float would know to 1.5 %
  judge.lse = m.lse;
  kernels::reference::run(judge.backward());
  backward_on_device(m);
  CHECK(std::abs(double(m.dlogits[target]) / judge.dlogits[target] - 1) < rounding);
}

TEST_CASE("cross-entropy on a device: a masked row has no gradient, whatever it holds",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 3, .V = 67, .vocabulary = 65};
  m.logits[2 * 67 + 5] = infinity;
  m.logits[2 * 67 + 6] = std::numeric_limits<float>::quiet_NaN();
  forward_on_device(m);
  backward_on_device(m);  // row 2 is masked
  CHECK(std::vector<float>(m.dlogits.begin() + 2 * 67, m.dlogits.end()) == std::vector<float>(67));
}

TEST_CASE("cross-entropy on a device takes words that cannot be and tells of what is no number",
          "[cross_entropy]") {
  cross_entropy_memory<float> m{.R = 2, .V = 9001, .vocabulary = 9001};
  std::fill(m.logits.begin(), m.logits.begin() + 8990, -infinity);  // all of most threads
  m.target[0] = 9000;
  m.logits[9001 + 17] = std::numeric_limits<float>::quiet_NaN();
  auto judge = judge_of(m);
  kernels::reference::run(judge.forward());
  forward_on_device(m);
  CHECK(std::abs(m.loss[0] - judge.loss[0]) < rounding * judge.loss[0]);
  CHECK(std::isnan(m.loss[1]));
}

TEST_CASE("cross-entropy on a device gives the same bits again, in whatever order its threads run",
          "[cross_entropy]") {
  const auto m = drawn<bf16>(3, 20001, 19999, 5);
  auto first = m;
  forward_on_device(first);
  backward_on_device(first);
  for (const int seed : {2, 3}) {
    const tests::emulated_seed order(seed);
    auto again = m;
    forward_on_device(again);
    backward_on_device(again);
    CHECK(first.loss == again.loss);
    CHECK(first.lse == again.lse);
    CHECK(first.dlogits == again.dlogits);
  }
}

TEST_CASE("parts of the vocabulary on a device, merged, are the whole", "[cross_entropy]") {
  // Parts of 33 columns: the third is partly padding, the fourth is nothing else.
  const std::int64_t parts = GENERATE(1, 4);
  const std::int64_t V = parts == 1 ? 90 : 33;
  auto whole = drawn<float>(41, parts * V, 90, 9);
  auto judge = judge_of(whole);
  kernels::reference::run(judge.forward());
  auto exact = judge;
  kernels::reference::run(exact.backward());

  std::vector<device_array<float>> kept;
  std::vector<const float*> lses, logits;
  for (std::int64_t k = 0; k < parts; ++k) {
    cross_entropy_memory<float> part{.R = whole.R, .V = V, .vocabulary = 1};
    part.vocabulary = std::clamp<std::int64_t>(90 - k * V, 0, V);
    part.target = whole.target;
    part.dloss = whole.dloss;
    for (std::int64_t r = 0; r < whole.R; ++r)
      std::copy_n(whole.logits.begin() + r * whole.V + k * V, V, part.logits.begin() + r * V);
    std::vector<float> logit;
    const auto first = std::int32_t(k * V);
    forward_on_device(part, 0, {.first = first, .target_logit = &logit});
    if (part.vocabulary == 0) {
      CHECK(part.lse == std::vector<float>(std::size_t(whole.R), -infinity));
      CHECK(logit == std::vector<float>(std::size_t(whole.R)));
    }
    kept.emplace_back(part.lse);
    lses.push_back(kept.back().data());
    kept.emplace_back(logit);
    logits.push_back(kept.back().data());

    part.lse = judge.lse;
    backward_on_device(part, where::apart, 0, first);
    std::vector<double> columns;
    for (std::int64_t r = 0; r < whole.R; ++r)
      columns.insert(columns.end(),
                     exact.dlogits.begin() + r * whole.V + k * V,
                     exact.dlogits.begin() + r * whole.V + (k + 1) * V);
    // Of the whole's scale, where a part has nothing but padding.
    double worst = 0;
    for (std::size_t i = 0; i < columns.size(); ++i)
      worst = std::max(worst, std::abs(double(part.dlogits[i]) - columns[i]));
    CHECK(worst < rounding);
  }
  device_array<float> loss(std::size_t(whole.R)), lse(std::size_t(whole.R));
  tests::run_on_device(kernels::cross_entropy_merge<float>{.loss = loss.data(),
                                                           .lse = lse.data(),
                                                           .part_lse = lses.data(),
                                                           .part_logit = logits.data(),
                                                           .parts = parts,
                                                           .R = whole.R});
  CHECK(relative_error(lse.download(), judge.lse) < rounding);
  CHECK(relative_error(loss.download(), judge.loss) < rounding);
}

TEST_CASE("more parts of the vocabulary than one launch merges", "[cross_entropy]") {
  constexpr std::size_t parts = 130, R = 3;
  std::vector<device_array<float>> kept;
  std::vector<const float*> lses, logits;
  std::vector<std::vector<double>> exact_lse, exact_logit;
  std::vector<const double*> judge_lses, judge_logits;
  for (std::uint32_t k = 0; k < parts; ++k) {
    const auto lse = tests::normal<float>(R, 2 * k), logit = tests::normal<float>(R, 2 * k + 1);
    lses.push_back(kept.emplace_back(lse).data());
    logits.push_back(kept.emplace_back(logit).data());
    judge_lses.push_back(exact_lse.emplace_back(tests::exactly(lse)).data());
    judge_logits.push_back(exact_logit.emplace_back(tests::exactly(logit)).data());
  }
  device_array<float> loss(R), lse(R);
  tests::run_on_device(kernels::cross_entropy_merge<float>{.loss = loss.data(),
                                                           .lse = lse.data(),
                                                           .part_lse = lses.data(),
                                                           .part_logit = logits.data(),
                                                           .parts = parts,
                                                           .R = R});
  std::vector<double> judge_loss(R), judge_lse(R);
  kernels::reference::run(kernels::cross_entropy_merge<double>{.loss = judge_loss.data(),
                                                               .lse = judge_lse.data(),
                                                               .part_lse = judge_lses.data(),
                                                               .part_logit = judge_logits.data(),
                                                               .parts = parts,
                                                               .R = R});
  CHECK(relative_error(lse.download(), judge_lse) < rounding);
  CHECK(relative_error(loss.download(), judge_loss) < rounding);
}

TEST_CASE("merging on a device keeps far parts, infinities and what is not a number",
          "[cross_entropy]") {
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
