// Matrix products of every tail shape of a kernel's blocks, in every direction and type, with and
// without epilogue. Each element is compared with the double reference.
//
// products_by_isa.py runs these tests once for each oneDNN instruction set of this processor. Here
// they run with each Highway instruction set, and with AMX tiles if available, including float
// products that are normally too small for tiles.

#include "kernels/cpu/product.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/vector_targets.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <vector>

using namespace troupe;
using kernels::bf16;
using kernels::epilogue;
using kernels::f16;
using tests::linear_memory;

namespace {

constexpr double u = 0x1p-24;  // rounding unit of float, the type of all sums

/// Error bound of a sum of n products; their absolute values sum to `size`. The errors are a random
/// walk, so they stay below a few times the square root of n (Higham, Mary: "A New Approach to
/// Probabilistic Rounding Error Analysis", 2019). In the worst order, the factor 4 is exceeded once
/// in thousands of sums; kernels sum in blocks and stay far below.
double of_sum(std::int64_t n, double size) {
  return u * (1 + 4 * std::sqrt(double(n))) * size;
}

/// Error of rounding a result of that size once.
template <class T>
double of_rounding(double size) {
  if constexpr (sizeof(T) == 4)
    return u * size;
  else
    return tests::unit_at<T>(size) / 2;
}

/// `away` plus the final rounding; the result may be beyond the next power of two.
template <class T>
double with_rounding(double exact, double away) {
  return away + of_rounding<T>(std::abs(exact) + away);
}

template <class T>
linear_memory<double> in_double(const linear_memory<T>& m) {
  const auto wide = [](const auto& x) { return std::vector<double>(tests::exactly(x)); };
  return {.R = m.R,
          .N = m.N,
          .K = m.K,
          .activation = m.activation,
          .with_bias = m.with_bias,
          .with_z = m.with_z,
          .made_x = m.made_x,
          .x = wide(m.x),
          .weight = wide(m.weight),
          .bias = wide(m.bias),
          .dz = wide(m.dz),
          .z_of_x = wide(m.z_of_x),
          .dweight = wide(m.dweight),
          .dbias = wide(m.dbias)};
}

void multiply(linear_memory<double>& m) {
  kernels::reference::run(m.forward());
  kernels::reference::run(m.backward_input());
  kernels::reference::run(m.backward_weight());
}

/// Products of the absolute values: the magnitude of the summed terms.
linear_memory<double> sizes(linear_memory<double> m) {
  for (auto* x : {&m.x, &m.weight, &m.bias, &m.dz, &m.dweight, &m.dbias})
    for (double& value : *x)
      value = std::abs(value);
  m.activation = m.made_x = epilogue::none;
  multiply(m);
  return m;
}

/// Largest slope of an epilogue near z: below 1.13 for GELU, 2 z for squares.
double steepest(epilogue e, double z, double away) {
  return e == epilogue::none ? 1 : e == epilogue::squared_relu ? 2 * (std::abs(z) + away) : 1.13;
}

/// Error of an activation: a few float units of its argument (kernels/cpu/activation.cpp).
double of_activation(epilogue e, double z) {
  return e == epilogue::none ? 0 : 16 * u * std::max(1.0, std::abs(z) * steepest(e, z, 0));
}

template <class Array, class Bound>
bool within(const Array& mine, const std::vector<double>& exact, Bound bound) {
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (!(std::abs(double(mine[i]) - exact[i]) <= bound(i)))
      return false;
  return true;
}

linear_memory<double> multiplied(linear_memory<double> m) {
  m.with_z = true;
  multiply(m);
  return m;
}

/// A copy without activations and their gradients.
linear_memory<double> without_epilogues(linear_memory<double> m) {
  m.y = m.z;
  if (m.made_x != epilogue::none) {
    m.made_x = epilogue::none;
    kernels::reference::run(m.backward_input());
  }
  return m;
}

/// Reference values of all three products.
struct judgement {
  linear_memory<double> exact, plain, size;

  explicit judgement(const linear_memory<double>& m)
      : exact(multiplied(m)), plain(without_epilogues(exact)), size(sizes(m)) {}
};

/// True if all three computed products of `m` are within their bounds.
template <class T>
bool right(const linear_memory<T>& m, const judgement& by) {
  const auto &exact = by.exact, &plain = by.plain, &size = by.size;
  const auto of_z
      = [&](std::size_t i) { return with_rounding<T>(plain.y[i], of_sum(m.K + 1, size.y[i])); };
  const auto of_y = [&](std::size_t i) {
    const double z = plain.y[i], away = of_z(i);
    return with_rounding<T>(
        exact.y[i], away * steepest(m.activation, z, away) + of_activation(m.activation, z));
  };
  const auto of_dx = [&](std::size_t i) {
    const double z = exact.z_of_x[i], sum = plain.dx[i];
    const double away = with_rounding<T>(sum, of_sum(m.N, size.dx[i]));
    return with_rounding<T>(
        exact.dx[i], away * steepest(m.made_x, z, 0) + of_activation(m.made_x, z) * std::abs(sum));
  };
  const auto of_dweight = [&](std::size_t i) { return of_sum(m.R + 1, size.dweight[i]); };
  const auto of_dbias = [&](std::size_t i) { return of_sum(m.R + 1, size.dbias[i]); };
  return within(m.y, exact.y, of_y) && (!m.with_z || within(m.z, plain.y, of_z))
         && within(m.dx, exact.dx, of_dx) && within(m.dweight, exact.dweight, of_dweight)
         && (!m.with_bias || within(m.dbias, exact.dbias, of_dbias));
}

template <class T>
void compute(linear_memory<T>& m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward_input(), threads);
  tests::on_cpu(m.backward_weight(), threads);
}

/// Neighbouring shapes differ in epilogue, bias and z.
template <class T>
linear_memory<T> of_shape(std::int64_t R, std::int64_t N, std::int64_t K, int number) {
  constexpr auto& all = kernels::every_epilogue;
  constexpr auto count = int(std::size(all));
  return {.R = R,
          .N = N,
          .K = K,
          .activation = all[number % count],
          .with_bias = number % 3 != 0,
          .with_z = number % 5 != 0,
          .made_x = all[number / count % count]};
}

/// The Highway instruction sets to test; 0: this machine's best. products_by_isa.py limits only
/// oneDNN, so then the best one suffices.
std::vector<std::int64_t> sets() {
  return std::getenv("ONEDNN_MAX_CPU_ISA") ? std::vector<std::int64_t>{0} : tests::vector_targets();
}

/// Checks with each instruction set and each team size.
template <class T>
void check(std::int64_t R,
           std::int64_t N,
           std::int64_t K,
           int number,
           std::initializer_list<int> teams,
           const std::vector<std::int64_t>& targets = {0}) {
  const auto before = of_shape<T>(R, N, K, number);
  const judgement by(in_double(before));
  for (const auto target : targets)
    for (const int threads : teams) {
      const tests::vector_target now(target);
      auto m = before;
      compute(m, threads);
      INFO("R " << R << " N " << N << " K " << K << " number " << number << " threads " << threads
                << ", " << kernels::instruction_set());
      REQUIRE(right(m, by));
    }
}

/// An array that begins `after` elements after a multiple of 64 bytes.
template <class T>
class placed_array {
 public:
  placed_array(const std::vector<T>& of, std::int64_t after) : n_(of.size()), all_(n_ + 64) {
    const auto begin = reinterpret_cast<std::uintptr_t>(all_.data());
    at_ = all_.data() + (64 - begin % 64) % 64 / sizeof(T) + after;
    std::copy(of.begin(), of.end(), at_);
  }
  T* data() { return at_; }
  std::vector<T> now() const { return {at_, at_ + n_}; }

 private:
  std::size_t n_;
  std::vector<T> all_;
  T* at_;
};

template <class T>
std::vector<char> bytes_of(const std::vector<T>& x) {
  const auto* const begin = reinterpret_cast<const char*>(x.data());
  return {begin, begin + x.size() * sizeof(T)};
}

/// The bytes of all results of `m`, at that offset from a cache line.
template <class T>
std::vector<char> placed(linear_memory<T> m, std::int64_t after) {
  placed_array<T> y(m.y, after), z(m.z, after), dx(m.dx, after);
  placed_array<kernels::accumulator<T>> added(m.dweight, after), written(m.dweight, after);
  auto forward = m.forward();
  forward.y = y.data();
  forward.z = m.with_z ? z.data() : nullptr;
  auto input = m.backward_input();
  input.dx = dx.data();
  auto weight = m.backward_weight();
  weight.dbias = nullptr;
  tests::on_cpu(forward, 2);
  tests::on_cpu(input, 2);
  for (auto* const to : {&added, &written}) {
    weight.dweight = to->data();
    weight.accumulates = to == &added;
    tests::on_cpu(weight, 2);
  }
  std::vector<char> out;
  for (const auto& one : {bytes_of(y.now()),
                          bytes_of(z.now()),
                          bytes_of(dx.now()),
                          bytes_of(added.now()),
                          bytes_of(written.now())})
    out.insert(out.end(), one.begin(), one.end());
  return out;
}

}  // namespace

// Blocks have 4 to 64 rows or columns, and sums advance by 2 (pairs of bf16), 8, 16, 32 (an AMX
// tile) or 64 terms. The lengths are below, at and one above these.
TEMPLATE_TEST_CASE("products are right at every tail", "[kernels][products]", float, bf16, f16) {
  const kernels::cpu::small_products_in_tiles all;
  const auto by = sets();
  int number = 0;
  for (const int R : {1, 2, 5, 16, 17, 32, 33, 65})
    for (const int N : {1, 2, 7, 16, 33, 64, 65}) {
      ++number;  // 11 per N, which is coprime to 8, 3 and 5: each K meets every choice
      for (const int K : {1, 2, 3, 7, 16, 31, 32, 33, 65, 127})
        check<TestType>(R, N, K, ++number, {1}, by);
    }
  check<TestType>(
      25, 70, 400, ++number, {2}, by);  // more terms than are packed at once, two threads
}

TEMPLATE_TEST_CASE("large products are right with one thread and several",
                   "[kernels][products][unsanitized]",
                   float,
                   bf16,
                   f16) {
  const kernels::cpu::small_products_in_tiles all;
  int number = 0;
  for (const auto& [R, N, K] :
       {std::array{131, 113, 127},
        {131, 113, 127},  // with different epilogues
        {1, 8200, 20},    // few rows (tile_few_rows-inl.hpp), and fewer steps than threads
        {32, 3100, 64},
        {1543, 67, 19},
        {5, 19, 1543},
        {257, 193, 821},
        {9, 4200, 421},    // more columns and terms than one packing (packed_product.cpp)
        {400, 40, 4200},   // more rows and terms
        {1543, 2801, 10},  // more rows than the kept sums
        {2090, 40, 530},   // with tiles (tile_product.cpp): more rows and terms than one packing,
        {9, 4200, 4130}})  // more columns than the kept sums
    check<TestType>(R, N, K, number += 7, {1, 2, 3});
}

// Full cache lines are stored past the caches, other results through them.
TEMPLATE_TEST_CASE(
    "the address of a result does not change its bits", "[kernels][products]", float, bf16, f16) {
  const kernels::cpu::small_products_in_tiles all;
  for (const int number : {1, 2, 3, 5, 6, 7, 8, 10, 12, 13}) {
    INFO("number " << number);
    for (const int K : {80, 640}) {  // rows that end inside a block of columns, and at its end
      const auto m = of_shape<TestType>(70, 96, K, number);
      CHECK(placed(m, 0) == placed(m, 1));
    }
  }
}

// The padding of packed operands must be zero, not leftover data.
TEMPLATE_TEST_CASE(
    "NaN and infinity stay in their row and column", "[kernels][products]", float, bf16, f16) {
  const kernels::cpu::small_products_in_tiles all;
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  constexpr float endless = std::numeric_limits<float>::infinity();
  linear_memory<TestType> m{.R = 37, .N = 45, .K = 67};
  m.x[20 * 67 + 66] = TestType(none);
  m.weight[44 * 67 + 66] = TestType(endless);
  tests::on_cpu(m.forward(), 1);
  for (int r = 0; r < 37; ++r)
    for (int n = 0; n < 45; ++n)
      REQUIRE(std::isfinite(float(m.y[std::size_t(r * 45 + n)])) == (r != 20 && n != 44));
  m = {.R = 37, .N = 45, .K = 67};
  m.dz[36 * 45 + 44] = TestType(none);
  tests::on_cpu(m.backward_input(), 1);
  tests::on_cpu(m.backward_weight(), 1);
  for (int r = 0; r < 37; ++r)
    for (int k = 0; k < 67; ++k)
      REQUIRE(std::isfinite(float(m.dx[std::size_t(r * 67 + k)])) == (r != 36));
  for (int n = 0; n < 45; ++n)
    for (int k = 0; k < 67; ++k)
      REQUIRE(std::isfinite(float(m.dweight[std::size_t(n * 67 + k)])) == (n != 44));
}

TEMPLATE_TEST_CASE("the test detects a product that omits or repeats one term of a tail",
                   "[kernels][products]",
                   float,
                   bf16,
                   f16) {
  auto m = of_shape<TestType>(17, 33, 127, 4);
  const judgement by(in_double(m));
  const auto& exact = by.exact;
  compute(m, 1);
  REQUIRE(right(m, by));
  auto broken = m;
  broken.y[16 * 33 + 32] = TestType(float(exact.x[16 * 127 + 126]) + float(m.y[16 * 33 + 32]));
  CHECK_FALSE(right(broken, by));
  broken = m;
  broken.dx[5] = broken.dx[6];
  CHECK_FALSE(right(broken, by));
  broken = m;
  broken.dweight[33 * 127 - 1] -= float(exact.dz[16 * 33 + 32]) * float(exact.x[16 * 127 + 126]);
  CHECK_FALSE(right(broken, by));
}

// Prints oneDNN's instruction set for products_by_isa.py.
TEST_CASE("print the instruction set of products", "[.instruction_set]") {
  std::puts(kernels::instruction_set().c_str());
}
