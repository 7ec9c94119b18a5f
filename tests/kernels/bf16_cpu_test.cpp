// How bf16 passes through memory: promoted exactly, rounded once, on every path of a loop.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::bf16;
using tests::on_cpu;
using tests::sum_memory;

namespace {

/// Every bf16 there is: zeros, denormals, infinities and what is not a number among them.
std::vector<bf16> all_numbers() {
  std::vector<bf16> out(65536);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].bits = std::uint16_t(i);
  return out;
}

/// Whose bits are different, but for those that are both not numbers.
std::size_t differences(const std::vector<bf16>& a, const std::vector<bf16>& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    n += a[i] != b[i] && !(std::isnan(float(a[i])) && std::isnan(float(b[i])));
  return n;
}

}  // namespace

TEST_CASE("every bf16 passes through a vector as it is", "[kernels][cpu][bf16]") {
  sum_memory<bf16> a{.n = 65536, .sources = 1, .scale = 1};
  a.x[0] = all_numbers();
  on_cpu(a.ordered_sum());
  CHECK(differences(a.y, a.x[0]) == 0);
}

TEST_CASE("results are rounded to bf16 as a scalar is", "[kernels][cpu][bf16]") {
  // Products by 1/3 and by 1 + 2^-8, which lie between two numbers or just at the middle; 2^-130
  // gives denormals.
  const float scale = GENERATE(1 / 3.0f, 1.00390625f, 7.34683969e-40f);
  sum_memory<bf16> a{.n = 65536, .sources = 1, .scale = scale}, b = a;
  a.x[0] = b.x[0] = all_numbers();
  kernels::reference::run(a.ordered_sum());
  on_cpu(b.ordered_sum());
  CHECK(differences(b.y, a.y) == 0);
}

TEST_CASE("what is not a number stays so in bf16", "[kernels][cpu][bf16]") {
  sum_memory<bf16> a{.n = 5, .sources = 2};
  a.x[0][3].bits = 0x7f81;  // its mantissa would be lost if it were rounded as a number is
  on_cpu(a.add());
  CHECK(std::isnan(float(a.y[3])));
  CHECK_FALSE(std::isnan(float(a.y[2])));
}

TEST_CASE("sums in bf16 on the cpu have the bits of the reference", "[kernels][cpu][bf16]") {
  const auto n = GENERATE(0, 1, 7, 61, 4096, 100003);
  const int threads = GENERATE(1, 2, 3), sources = GENERATE(2, 5);
  sum_memory<bf16> a{.n = n, .sources = sources}, b = a;
  kernels::reference::run(a.add());
  on_cpu(b.add(), threads);
  CHECK(b.y == a.y);
  kernels::reference::run(a.ordered_sum());
  on_cpu(b.ordered_sum(), threads);
  CHECK(b.y == a.y);
}

TEST_CASE("a sum in bf16 is rounded once, not after each source", "[kernels][cpu][bf16]") {
  sum_memory<bf16> a{.n = 1, .sources = 3, .scale = 1};
  a.x = {{bf16(256.0f)}, {bf16(1.0f)}, {bf16(1.0f)}};  // 257 is no bf16
  on_cpu(a.ordered_sum());
  CHECK(float(a.y[0]) == 258);
}

TEST_CASE("a partial step touches nothing beyond its end", "[kernels][cpu][bf16]") {
  const auto n = GENERATE(1, 5, 15, 17, 31);
  sum_memory<bf16> a{.n = 64, .sources = 2};
  auto op = a.add();
  op.n = n;
  on_cpu(op);
  CHECK(
      std::all_of(a.y.begin() + n, a.y.end(), [](bf16 x) { return x == bf16(tests::unwritten); }));
}
