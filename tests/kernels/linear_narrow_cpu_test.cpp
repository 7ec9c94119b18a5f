// Cases beyond op_tester.hpp and products_test.cpp: products of bf16 and f16 are rounded once,
// cached by shape, and have the same bits on any thread.

#include "kernels/cpu/product.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <thread>
#include <vector>

using namespace troupe;
using kernels::backend;
using kernels::bf16;
using kernels::epilogue;
using kernels::f16;
template <class T>
using memory = tests::linear_memory<T>;

namespace {

// The product of two narrow numbers is exact in float. Sums of at most 1,543 products have the
// rounding errors of float sums.
constexpr double noise = 3e-6;

/// Term counts that take more than one pass in our own products, packed or with tiles
/// (product.hpp). Their bits depend only on the row and column. Empty if oneDNN multiplies.
template <class T>
std::vector<std::int64_t> terms_of_own_products() {
  if (kernels::cpu::has_tiles_of<T>())
    return {901, std::is_same_v<T, float> ? 1601 : 4161};
  if (std::is_same_v<T, f16>)
    return {901};
  return {};
}

template <class T>
memory<T> judged(memory<T> m) {
  kernels::run(backend::reference, m.forward(), {});
  kernels::run(backend::reference, m.backward_input(), {});
  kernels::run(backend::reference, m.backward_weight(), {});
  return m;
}

template <class T>
memory<T> computed(memory<T> m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward_input(), threads);
  tests::on_cpu(m.backward_weight(), threads);
  return m;
}

template <class T>
void check(const memory<T>& m) {
  const auto judge = judged(m);
  for (const int threads : {1, 2}) {
    const auto mine = computed(m, threads);
    INFO("R " << m.R << " N " << m.N << " K " << m.K << " threads " << threads);
    CHECK(tests::neighbours(mine.y, judge.y, noise));
    CHECK(tests::neighbours(mine.dx, judge.dx, noise));
    CHECK(tests::relative_error(mine.dweight, judge.dweight) < noise);
    CHECK(tests::relative_error(mine.dbias, judge.dbias) < noise);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a narrow product is rounded once, including its bias",
                   "[kernels][linear][narrow]",
                   bf16,
                   f16) {
  memory<TestType> m{.R = 257, .N = 129, .K = 65};
  const auto judge = judged(m), mine = computed(m, 2);
  // A product differs from the reference's by 1e-7 of a sum near 8. There a unit is 2^-5 for bf16
  // and 2^-8 for f16, and it is smaller near zero. A second rounding, of the product or the bias
  // alone, would change a fifth of the results.
  CHECK(tests::unequal(mine.y, judge.y) < 1e-3);
  CHECK(tests::unequal(mine.dx, judge.dx) < 1e-3);
}

TEMPLATE_TEST_CASE("a narrow epilogue is the activation of the stored z",
                   "[kernels][linear][narrow]",
                   bf16,
                   f16) {
  const auto e = GENERATE(from_range(kernels::every_epilogue));
  if (e == epilogue::none)
    return;
  const int threads = GENERATE(1, 2);
  memory<TestType> m{.R = 371, .N = 71, .K = 29, .activation = e};
  tests::on_cpu(m.forward(), threads);
  memory<TestType> plain{.R = 371, .N = 71, .K = 29};
  tests::on_cpu(plain.forward(), threads);
  CHECK(m.z == plain.y);

  tests::activation_memory<TestType> after{
      .R = m.R, .N = m.N, .kind = kernels::activation_of(e), .x = m.z};
  tests::on_cpu(after.forward());
  CHECK(m.y == after.y);

  memory<TestType> without{.R = 371, .N = 71, .K = 29, .activation = e, .with_z = false};
  tests::on_cpu(without.forward(), threads);
  CHECK(without.y == m.y);
}

TEMPLATE_TEST_CASE("narrow products on the cpu have the same bits in every run and on any thread",
                   "[kernels][linear][narrow]",
                   bf16,
                   f16) {
  const memory<TestType> m{.R = 771, .N = 129, .K = 385, .activation = epilogue::gelu_tanh};
  for (const int threads : {1, 2}) {
    const memory<TestType> one = computed(m, threads), again = computed(m, threads);
    memory<TestType> elsewhere = m;
    std::thread([&] { elsewhere = computed(m, threads); }).join();
    for (const memory<TestType>* other :
         {&again, static_cast<const memory<TestType>*>(&elsewhere)}) {
      CHECK(one.y == other->y);
      CHECK(one.dx == other->dx);
      CHECK(one.dweight == other->dweight);
      CHECK(one.dbias == other->dbias);
    }
  }
}

TEMPLATE_TEST_CASE("bits of our own products are independent of other rows and of the thread count",
                   "[kernels][linear][narrow]",
                   float,
                   bf16,
                   f16) {
  for (const std::int64_t K : terms_of_own_products<TestType>()) {
    const memory<TestType> all{.R = 500, .N = 400, .K = K};
    auto few = memory<TestType>{.R = 291, .N = 400, .K = K};
    std::copy_n(all.x.begin(), few.x.size(), few.x.begin());
    std::copy_n(all.dz.begin(), few.dz.size(), few.dz.begin());
    few.weight = all.weight;
    few.bias = all.bias;
    few = computed(few, 1);
    const auto by_one = computed(all, 1);
    for (const int threads : {1, 2, 5}) {
      const auto out = computed(all, threads);
      CHECK(std::equal(few.y.begin(), few.y.end(), out.y.begin()));
      CHECK(std::equal(few.dx.begin(), few.dx.end(), out.dx.begin()));
      CHECK(by_one.dweight == out.dweight);
      CHECK(by_one.dbias == out.dbias);
    }
  }
}

// A decoding step has few rows, a prompt many.
TEST_CASE("with tiles a row has the same bits among few rows as among many",
          "[kernels][linear][narrow]") {
  if (!kernels::cpu::has_tiles_of<bf16>())
    SKIP("this processor has no tiles");
  for (const std::int64_t K : terms_of_own_products<bf16>())
    for (const epilogue e : {epilogue::none, epilogue::gelu_tanh}) {
      const auto all = computed(memory<bf16>{.R = 77, .N = 403, .K = K, .activation = e}, 2);
      for (const std::int64_t R : {1, 3, 8, 16, 17, 32, 33})
        for (const int threads : {1, 2, 5}) {
          CAPTURE(K, R, threads);
          auto few = memory<bf16>{.R = R, .N = all.N, .K = K, .activation = e};
          std::copy_n(all.x.begin(), few.x.size(), few.x.begin());
          few.weight = all.weight;
          few.bias = all.bias;
          tests::on_cpu(few.forward(), threads);
          CHECK(std::equal(few.z.begin(), few.z.end(), all.z.begin()));
          CHECK(std::equal(few.y.begin(), few.y.end(), all.y.begin()));
        }
    }
}

TEMPLATE_TEST_CASE("bits of our own products are independent of other columns",
                   "[kernels][linear][narrow]",
                   float,
                   bf16,
                   f16) {
  for (const std::int64_t K : terms_of_own_products<TestType>()) {
    const auto all = computed(memory<TestType>{.R = 450, .N = 400, .K = K}, 2);
    auto few = memory<TestType>{.R = 450, .N = 275, .K = K};
    few.x = all.x;
    std::copy_n(all.weight.begin(), few.weight.size(), few.weight.begin());
    std::copy_n(all.bias.begin(), few.bias.size(), few.bias.begin());
    tests::on_cpu(few.forward(), 2);
    for (std::int64_t row = 0; row < few.R; ++row)
      CHECK(std::equal(few.y.begin() + row * few.N,
                       few.y.begin() + (row + 1) * few.N,
                       all.y.begin() + row * all.N));
  }
}

TEMPLATE_TEST_CASE("products stay right after more shapes than a thread caches",
                   "[kernels][linear][narrow]",
                   bf16,
                   f16) {
  for (std::int64_t R = 1; R < 300; ++R) {  // exceeds the cache of 256
    memory<TestType> m{.R = R, .N = 3, .K = 5};
    tests::on_cpu(m.forward());
    if (R % 50 == 0)
      CHECK(tests::neighbours(m.y, judged(m).y, noise));
  }
  for (std::int64_t R = 9; R < 12;
       ++R) {  // forgotten, and made again; without tiles fewer rows are few_rows.cpp's
    memory<TestType> m{.R = R, .N = 3, .K = 5};
    tests::on_cpu(m.forward());
    CHECK(tests::neighbours(m.y, judged(m).y, noise));
  }
  check<TestType>({.R = 1, .N = 3, .K = 5});
}

TEMPLATE_TEST_CASE("a narrow product refuses a workspace that is too small",
                   "[kernels][linear][narrow]",
                   bf16,
                   f16) {
  memory<TestType> m{.R = 64, .N = 64, .K = 64};
  REQUIRE(kernels::scratch(backend::cpu, m.forward(), 1) > 0);
  CHECK_THROWS_AS(kernels::run(backend::cpu, m.forward(), {}), std::logic_error);
}
