// Loads and stores of bf16 and f16: exact conversion to float, one rounding back. Tests every path
// of a loop with every instruction set of this processor.

#include "kernels/reference/reference.hpp"
#include "tests/kernels/vector_targets.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::all_numbers;
using tests::on_cpu;
using tests::sum_memory;

namespace {

/// Counts elements with different bits; two NaN count as equal.
template <class T>
std::size_t differences(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    n += a[i] != b[i] && !(std::isnan(float(a[i])) && std::isnan(float(b[i])));
  return n;
}

/// Products with this factor are denormal.
template <class T>
constexpr float tiny = std::is_same_v<T, bf16> ? 7.34683969e-40f : 2.3e-5f;

/// The smallest number with a distance above 1 to the next one: 2^fraction * 2.
template <class T>
constexpr float gapless = 2 << tests::narrow_format<T>::fraction;

}  // namespace

TEMPLATE_TEST_CASE("every narrow number passes through a vector unchanged",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target now(target);
    sum_memory<TestType> a{.n = 65536, .sources = 1, .scale = 1};
    a.x[0] = all_numbers<TestType>();
    on_cpu(a.ordered_sum());
    CHECK(differences(a.y, a.x[0]) == 0);
  }
}

TEMPLATE_TEST_CASE("vector results are rounded to a narrow type like scalars",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  // Products with 1/3; with a number that gives exact midpoints between two results; with 37, which
  // makes many infinite.
  const float middle = 1 + 1 / gapless<TestType>;
  const float scale = GENERATE_COPY(1 / 3.0f, middle, 37.0f, tiny<TestType>);
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target now(target);
    sum_memory<TestType> a{.n = 65536, .sources = 1, .scale = scale}, b = a;
    a.x[0] = b.x[0] = all_numbers<TestType>();
    kernels::reference::run(a.ordered_sum());
    on_cpu(b.ordered_sum());
    CHECK(differences(b.y, a.y) == 0);
  }
}

TEMPLATE_TEST_CASE("NaN stays NaN in a narrow type", "[kernels][cpu][narrow]", bf16, f16) {
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target now(target);
    sum_memory<TestType> a{.n = 5, .sources = 2};
    // Rounding it like a number would lose its mantissa, and so make it infinite.
    a.x[0][3].bits = std::is_same_v<TestType, bf16> ? 0x7f81 : 0x7c01;
    on_cpu(a.add());
    CHECK(std::isnan(float(a.y[3])));
    CHECK_FALSE(std::isnan(float(a.y[2])));
  }
}

TEMPLATE_TEST_CASE("a sum in a narrow type is rounded once, not after each source",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  sum_memory<TestType> a{.n = 1, .sources = 3, .scale = 1};
  const float large = gapless<TestType>;  // large + 1 is not representable
  a.x = {{TestType(large)}, {TestType(1.0f)}, {TestType(1.0f)}};
  on_cpu(a.ordered_sum());
  CHECK(float(a.y[0]) == large + 2);
}

TEMPLATE_TEST_CASE("casts to and from a narrow type have the bits of the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto all = all_numbers<TestType>();
  const auto n = std::int64_t(all.size());
  std::vector<float> wide(all.size()), judged(all.size());
  on_cpu(kernels::widen<TestType>{wide.data(), all.data(), n}, 2);
  kernels::reference::run(kernels::widen<TestType>{judged.data(), all.data(), n});
  CHECK(std::memcmp(wide.data(), judged.data(), all.size() * sizeof(float)) == 0);

  const auto x = tests::normal<float>(all.size(), 5);
  std::vector<TestType> mine(all.size()), theirs(all.size());
  on_cpu(kernels::narrow<TestType>{mine.data(), x.data(), n}, 2);
  kernels::reference::run(kernels::narrow<TestType>{theirs.data(), x.data(), n});
  CHECK(mine == theirs);
}
