// Cases beyond the operation tester (op_tester.hpp): large and infinite logits, and NaN.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>
#include <utility>

using namespace troupe;
using tests::cross_entropy_memory;
using tests::on_cpu;

namespace {

constexpr double rounding = 1e-6;

}  // namespace

TEST_CASE("cross-entropy on the cpu is accurate for small losses of large logits",
          "[kernels][cpu]") {
  cross_entropy_memory<float> a{.R = 2, .V = 65, .vocabulary = 65};
  for (auto& value : a.logits)
    value += 1000;
  for (std::size_t r = 0; r < 2; ++r)
    a.logits[r * 65 + std::size_t(a.target[r])] = 1010;
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  // The sum, 1.005, is a float. As a float, lse (1010) would have an error of 3e-5.
  for (std::size_t r = 0; r < 2; ++r)
    CHECK(std::abs(b.loss[r] - a.loss[r]) < 3e-7);
}

TEST_CASE("cross-entropy on the cpu gives a masked row a zero gradient, even with infinite logits",
          "[kernels][cpu]") {
  cross_entropy_memory<float> a{.R = 3, .V = 67, .vocabulary = 65};
  a.logits[2 * 67 + 5] = std::numeric_limits<float>::infinity();
  on_cpu(a.forward());
  on_cpu(a.backward());  // row 2 is masked
  CHECK(std::vector<float>(a.dlogits.begin() + 2 * 67, a.dlogits.end()) == std::vector<float>(67));
}

TEST_CASE("cross-entropy on the cpu accepts logits of -infinity and propagates NaN",
          "[kernels][cpu]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  cross_entropy_memory<float> a{.R = 2, .V = 9001, .vocabulary = 9001};
  std::fill(a.logits.begin(), a.logits.begin() + 8000, -infinity);  // a whole chunk
  a.target[0] = 9000;
  a.logits[9001 + 17] = std::numeric_limits<float>::quiet_NaN();
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  CHECK(std::abs(b.loss[0] - a.loss[0]) < rounding * a.loss[0]);
  CHECK(std::isnan(b.loss[1]));
}

namespace {

template <class T>
void check_both_passes(std::int64_t R, std::int64_t V, int threads) {
  cross_entropy_memory<T> two{.R = R, .V = V, .vocabulary = V - 3};
  two.target[0] = std::int32_t(V + 5);  // in another shard
  auto one = two, in_place = two;
  on_cpu(two.forward(), threads);
  on_cpu(two.backward(), threads);
  on_cpu(one.both_passes(), threads);
  auto over = in_place.both_passes();
  over.dlogits = in_place.logits.data();
  on_cpu(over, threads);
  for (const auto* const x : {&one, &in_place}) {
    CHECK(x->loss == two.loss);
    CHECK(x->lse == two.lse);
  }
  CHECK(one.dlogits == two.dlogits);
  CHECK(one.logits == two.logits);
  CHECK(in_place.logits == two.dlogits);
}

}  // namespace

TEST_CASE("cross-entropy on the cpu: fused passes have the bits of separate passes",
          "[kernels][cpu]") {
  const int threads = GENERATE(1, 3);
  const auto& [R, V] = GENERATE(std::pair<std::int64_t, std::int64_t>{1, 5},
                                std::pair<std::int64_t, std::int64_t>{131, 131},
                                std::pair<std::int64_t, std::int64_t>{7, 9001});
  check_both_passes<float>(R, V, threads);
  check_both_passes<kernels::bf16>(R, V, threads);
  check_both_passes<kernels::f16>(R, V, threads);
}
