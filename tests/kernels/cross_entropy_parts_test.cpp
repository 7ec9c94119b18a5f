// Cross-entropy over vocabulary shards, as in tensor parallelism.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::cross_entropy_memory;
using tests::on_cpu;
using tests::relative_error;

namespace {

constexpr double rounding = 1e-6;
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
std::vector<T> columns(const std::vector<T>& from,
                       std::int64_t V,
                       std::int64_t first,
                       std::int64_t n) {
  std::vector<T> out;
  for (std::size_t at = std::size_t(first); at < from.size(); at += std::size_t(V))
    out.insert(out.end(), from.begin() + long(at), from.begin() + long(at) + n);
  return out;
}

/// Shard k of `parts`, as one tensor rank holds it.
template <class T>
struct part_memory : cross_entropy_memory<T> {
  std::int32_t first;
  std::vector<float> target_logit = tests::blank<float>(this->R);

  static std::int64_t real_columns(const cross_entropy_memory<T>& whole,
                                   std::int64_t k,
                                   std::int64_t parts) {
    const std::int64_t V = whole.V / parts;
    return std::clamp<std::int64_t>(whole.vocabulary - k * V, 0, V);
  }
  part_memory(const cross_entropy_memory<T>& whole, std::int64_t k, std::int64_t parts)
      : cross_entropy_memory<T>{.R = whole.R, .V = whole.V / parts, .vocabulary = 1},
        first(std::int32_t(k * this->V)) {
    this->vocabulary = real_columns(whole, k, parts);
    this->logits = columns(whole.logits, whole.V, first, this->V);
    this->target = whole.target;
    this->dloss = whole.dloss;
  }
  auto forward() {
    auto op = cross_entropy_memory<T>::forward();
    op.first = first;
    op.loss = nullptr;
    op.target_logit = target_logit.data();
    return op;
  }
  auto backward() {
    auto op = cross_entropy_memory<T>::backward();
    op.first = first;
    return op;
  }
};

/// Runs on the reference (0 threads) or the cpu backend.
template <class Op>
void run(const Op& op, int threads) {
  if (threads == 0)
    kernels::reference::run(op);
  else
    on_cpu(op, threads);
}

template <class T>
void check_parts(std::int64_t parts, int threads) {
  // Four shards of 33 columns: the third is partly padding, the fourth only padding.
  cross_entropy_memory<T> whole{.R = 41, .V = 132, .vocabulary = 90};
  run(whole.forward(), threads);
  run(whole.backward(), threads);

  std::vector<part_memory<T>> part;
  std::vector<const float*> lses, logits;
  for (std::int64_t k = 0; k < parts; ++k)
    part.emplace_back(whole, k, parts);
  for (auto& p : part) {
    run(p.forward(), threads);
    CHECK(p.loss == tests::blank<float>(whole.R));
    lses.push_back(p.lse.data());
    logits.push_back(p.target_logit.data());
  }
  auto loss = tests::blank<float>(whole.R), lse = loss;
  run(kernels::cross_entropy_merge<float>{.loss = loss.data(),
                                          .lse = lse.data(),
                                          .part_lse = lses.data(),
                                          .part_logit = logits.data(),
                                          .parts = parts,
                                          .R = whole.R},
      threads);
  CHECK(relative_error(lse, whole.lse) < rounding);
  CHECK(relative_error(loss, whole.loss) < rounding);
  if (parts == 1) {
    CHECK(lse == part[0].lse);
    for (std::size_t r = 0; r < loss.size(); ++r)
      CHECK(loss[r] == part[0].lse[r] - part[0].target_logit[r]);
  }
  for (auto& p : part) {
    const auto expected = columns(whole.dlogits, whole.V, p.first, p.V);
    p.lse = whole.lse;
    run(p.backward(), threads);
    CHECK(p.dlogits == expected);
  }
}

}  // namespace

TEST_CASE("merged vocabulary shards give the result of the whole vocabulary",
          "[kernels][cross_entropy]") {
  const auto parts = GENERATE(1, 2, 4);
  const int threads = GENERATE(0, 1, 2);
  check_parts<float>(parts, threads);
  check_parts<bf16>(parts, threads);
  check_parts<f16>(parts, threads);
}

TEST_CASE("the test of vocabulary shards has targets in every shard with words",
          "[kernels][cross_entropy]") {
  cross_entropy_memory<float> whole{.R = 41, .V = 132, .vocabulary = 90};
  std::vector<int> found(3);
  for (const auto target : whole.target)
    ++found[std::size_t(target / 33)];
  CHECK(*std::min_element(found.begin(), found.end()) > 0);
}

TEST_CASE("the gradient of a vocabulary shard is its part of the whole gradient",
          "[kernels][reference][cross_entropy]") {
  cross_entropy_memory<double> whole{.R = 7, .V = 12, .vocabulary = 8};
  kernels::reference::run(whole.forward());
  for (std::int64_t k = 0; k < 3; ++k) {
    part_memory<double> p(whole, k, 3);
    p.lse = whole.lse;
    kernels::reference::run(p.backward());
    kernels::reference::run(whole.backward());
    CHECK(p.dlogits == columns(whole.dlogits, whole.V, p.first, p.V));
  }
}

TEST_CASE("a vocabulary shard of only padding has lse -infinity and zero gradient",
          "[kernels][cross_entropy]") {
  const int threads = GENERATE(0, 1);
  cross_entropy_memory<float> whole{.R = 5, .V = 132, .vocabulary = 90};
  part_memory<float> p(whole, 3, 4);
  run(p.forward(), threads);
  CHECK(p.lse == std::vector<float>(5, -infinity));
  CHECK(p.target_logit == std::vector<float>(5));
  p.lse = std::vector<float>(5, 4.0f);
  run(p.backward(), threads);
  CHECK(p.dlogits == std::vector<float>(5 * 33));
}

TEST_CASE("merging shards handles distant values, infinities and NaN", "[kernels][cross_entropy]") {
  const int threads = GENERATE(0, 1, 2);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{1000, -infinity, -infinity, nan, -1000, 3},
      b{-1000, 5, -infinity, 1, 90, nan};
  const std::vector<float> c{1000, 5, -infinity, 2, 90, -infinity}, logit{999, 0, 0, 0, 90, 0},
      zero(6);
  const float* lses[] = {a.data(), b.data(), c.data()};
  const float* logits[] = {zero.data(), logit.data(), zero.data()};
  auto loss = tests::blank<float>(6), lse = loss;
  run(kernels::cross_entropy_merge<float>{.loss = loss.data(),
                                          .lse = lse.data(),
                                          .part_lse = lses,
                                          .part_logit = logits,
                                          .parts = 3,
                                          .R = 6},
      threads);
  const double two = std::log(2.0);
  CHECK(lse[0] == float(1000 + two));
  CHECK(loss[0] == float(1 + two));  // computed before rounding to floats near 1000
  CHECK(lse[1] == float(5 + two));
  CHECK(lse[2] == -infinity);
  CHECK(std::isnan(lse[3]));
  CHECK(loss[4] == float(two));
  CHECK(std::isnan(loss[5]));
}

TEST_CASE("merging in double matches the formula", "[kernels][reference][cross_entropy]") {
  const auto a = tests::normal<double>(9, 1), b = tests::normal<double>(9, 2);
  const auto x = tests::normal<double>(9, 3), y = tests::normal<double>(9, 4);
  const double *lses[] = {a.data(), b.data()}, *logits[] = {x.data(), y.data()};
  auto loss = tests::blank<double>(9), lse = loss;
  kernels::reference::run(kernels::cross_entropy_merge<double>{.loss = loss.data(),
                                                               .lse = lse.data(),
                                                               .part_lse = lses,
                                                               .part_logit = logits,
                                                               .parts = 2,
                                                               .R = 9});
  for (std::size_t r = 0; r < 9; ++r) {
    const double expected = std::log(std::exp(a[r]) + std::exp(b[r]));
    CHECK(std::abs(lse[r] - expected) < 1e-14);
    CHECK(std::abs(loss[r] - (expected - x[r] - y[r])) < 1e-14);
  }
}
