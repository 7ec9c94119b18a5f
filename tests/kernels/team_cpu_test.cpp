// Operations with fewer OpenMP threads than requested.

#include "kernels/cpu/amx.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <omp.h>
#include <system_error>
#include <thread>

using namespace troupe;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int threads = 4;

struct product_results {
  linear_memory<float> wide{
      .R = 512, .N = 96, .K = 160, .activation = kernels::epilogue::gelu_tanh};
  linear_memory<kernels::bf16> narrow{.R = 512, .N = 96, .K = 160};

  void compute() {
    const auto all = [](auto& m) {
      on_cpu(m.forward(), threads);
      on_cpu(m.backward_input(), threads);
      on_cpu(m.backward_weight(), threads);
    };
    all(wide);
    all(narrow);
  }
  friend bool operator==(const product_results& a, const product_results& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.y == y.y && x.dx == y.dx && x.dweight == y.dweight && x.dbias == y.dbias;
    };
    return same(a.wide, b.wide) && same(a.narrow, b.narrow);
  }
};

/// Products with more terms than one panel and more columns than one packing, and one with few
/// rows.
struct tiled_results : product_results {
  tiled_results() {
    wide = {.R = 300, .N = 650, .K = 1100, .activation = kernels::epilogue::gelu_tanh};
    narrow = {.R = 300, .N = 650, .K = 1100};
  }

  linear_memory<kernels::bf16> few{.R = 9, .N = 1300, .K = 300};

  void compute() {
    product_results::compute();
    on_cpu(few.forward(), threads);
  }
  friend bool operator==(const tiled_results& a, const tiled_results& b) {
    return static_cast<const product_results&>(a) == b && a.few.y == b.few.y;
  }
};

struct results {
  attention_memory<float> attention{
      .H = 6, .G = 3, .D = 16, .query_lengths = {130, 70}, .key_lengths = {130, 70}};
  norm_memory<float> norm{.R = 512, .C = 160};
  head_norm_memory<float> head_norm{.R = 256, .G = 2, .heads = 4, .D = 64};
  embedding_memory<float> embedding{.R = 1024, .C = 96, .V = 50, .P = 40};
  cross_entropy_memory<float> cross_entropy{.R = 128, .V = 1024, .vocabulary = 1000};
  activation_memory<float> activation{.R = 512, .N = 160, .kind = kernels::activation::gelu_tanh};
  sum_memory<float> sum{.n = 100'003};
  adamw_memory<float> adamw{.n = 100'003};

  void compute() {
    const auto forward_and_back = [](auto&... m) {
      (on_cpu(m.forward(), threads), ...);
      (on_cpu(m.backward(), threads), ...);
    };
    const auto normalize = [](auto&... m) {
      (on_cpu(m.forward(), threads), ...);
      (on_cpu(m.backward_input(), threads), ...);
      (on_cpu(m.backward_weight(), threads), ...);
    };
    forward_and_back(attention, embedding, cross_entropy, activation);
    normalize(norm, head_norm);
    on_cpu(sum.ordered_sum(), threads);
    on_cpu(sum.square_norm(), threads);
    on_cpu(adamw.step(), threads);
  }
  friend bool operator==(const results& a, const results& b) {
    const auto same_norm = [](const auto& x, const auto& y) {
      return x.y == y.y && x.mean == y.mean && x.rstd == y.rstd && x.dx == y.dx
             && x.dgain == y.dgain && x.dbias == y.dbias;
    };
    return a.attention.o == b.attention.o && a.attention.lse == b.attention.lse
           && a.attention.dq == b.attention.dq && a.attention.dk == b.attention.dk
           && a.attention.dv == b.attention.dv && same_norm(a.norm, b.norm)
           && same_norm(a.head_norm, b.head_norm) && a.embedding.y == b.embedding.y
           && a.embedding.dtable == b.embedding.dtable
           && a.embedding.dposition_table == b.embedding.dposition_table
           && a.cross_entropy.loss == b.cross_entropy.loss
           && a.cross_entropy.dlogits == b.cross_entropy.dlogits && a.activation.y == b.activation.y
           && a.activation.dx == b.activation.dx && a.sum.y == b.sum.y
           && a.sum.result == b.sum.result && a.adamw.x == b.adamw.x;
  }
};

/// Runs on a new thread, because OpenMP has per-thread settings.
template <class Results>
Results computed(const std::function<void()>& setting = [] {}) {
  Results out;
  std::thread([&] {
    setting();
    out.compute();
  }).join();
  return out;
}

/// Runs `work` inside a parallel region, where it gets one thread.
template <class Work>
void within_a_region(const Work& work) {
#pragma omp parallel num_threads(2)
#pragma omp master
  work();
}

}  // namespace

TEST_CASE("operations without a product have the same bits with fewer threads", "[kernels][team]") {
  const auto whole = computed<results>();
  CHECK(whole == computed<results>([] { omp_set_max_active_levels(0); }));
  CHECK(whole == computed<results>([] { omp_set_dynamic(1); }));
  results within;
  within_a_region([&] { within.compute(); });
  CHECK(whole == within);
}

TEST_CASE("TEAM-1: products get all threads regardless of OpenMP's settings", "[kernels][team]") {
  const auto whole = computed<product_results>();
  CHECK(whole == computed<product_results>([] { omp_set_max_active_levels(0); }));
  CHECK(whole == computed<product_results>([] { omp_set_dynamic(1); }));
  CHECK(whole == computed<product_results>([] { omp_set_num_threads(1); }));
}

TEST_CASE("tile products have the same bits with fewer threads", "[kernels][team]") {
  if (!kernels::cpu::multiplies_tiles())
    SKIP("this processor has no tiles");
  const auto whole = computed<tiled_results>();
  tiled_results within;
  within_a_region([&] { within.compute(); });
  CHECK(whole == within);
}

// These tests run in separate processes (tests/CMakeLists.txt) where ONEDNN_MAX_CPU_ISA disables
// tiles, and some with OMP_THREAD_LIMIT. oneDNN products must then be refused without writing wrong
// results.
TEST_CASE("a product without its full team is refused and writes nothing",
          "[kernels][team][.by_onednn]") {
  REQUIRE_FALSE(kernels::cpu::multiplies_tiles());
  linear_memory<float> m{.R = 512, .N = 96, .K = 160};
  const auto before = m;
  within_a_region([&] {
    CHECK_THROWS_AS(on_cpu(m.forward(), threads), std::system_error);
    CHECK_THROWS_WITH(on_cpu(m.backward_weight(), threads), ContainsSubstring("4 threads"));
  });
  CHECK(m.y == before.y);
  CHECK(m.dweight == before.dweight);
  on_cpu(m.forward(), 1);
  CHECK(m.y != before.y);
}

TEST_CASE("a refused product names the variable that limits threads", "[kernels][team][.limited]") {
  REQUIRE(omp_get_thread_limit() == 2);
  linear_memory<float> m{.R = 512, .N = 96, .K = 160};
  CHECK_THROWS_WITH(on_cpu(m.forward(), threads),
                    ContainsSubstring("needs 4 threads and OpenMP gives 2")
                        && ContainsSubstring("OMP_THREAD_LIMIT"));
  on_cpu(m.forward(), 2);
}

TEST_CASE("operations without a product are right if the environment limits threads",
          "[kernels][team][.limited]") {
  REQUIRE(omp_get_thread_limit() == 2);
  const auto limited = computed<results>();
  results alone;
  within_a_region([&] { alone.compute(); });
  CHECK(limited == alone);
}
