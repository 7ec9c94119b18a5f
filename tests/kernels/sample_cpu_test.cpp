#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using tests::normal;
using tests::on_cpu;
using tests::sample_memory;

TEST_CASE("the cpu draws the token that the reference draws", "[kernels][cpu]") {
  const auto vocabulary = GENERATE(1, 7, 65, 50257);
  const auto top_k = GENERATE(0, 1, 3, 50, 100000);
  const auto top_p = GENERATE(0.0f, 0.01f, 0.9f, 1.0f);
  const auto min_p = GENERATE(0.0f, 0.1f);
  const auto temperature = GENERATE(0.1f, 1.0f, 3.0f);
  sample_memory<float> a{.logits = normal<float>(std::size_t(vocabulary), 7),
                         .temperature = temperature,
                         .top_k = top_k,
                         .top_p = top_p,
                         .min_p = min_p};
  for (const double uniform : {0.0, 0.123, 0.5, 0.9, 0.999999}) {
    a.uniform = uniform;
    auto b = a;
    kernels::reference::run(a.draw());
    on_cpu(b.draw());
    REQUIRE(b.token == a.token);
  }
}

TEST_CASE("equal logits rank by token on the cpu", "[kernels][cpu]") {
  sample_memory<float> a{.logits = std::vector<float>(1000, 0.5f)};
  for (int i = 0; i < 1000; i += 37) {
    a.uniform = (i + 0.5) / 1000;
    on_cpu(a.draw());
    CHECK(a.token == i);
  }
  a.uniform = 0.999;
  a.top_k = 10;
  on_cpu(a.draw());
  CHECK(a.token == 9);
}

TEST_CASE("words with a logit of -infinity are never drawn on the cpu", "[kernels][cpu]") {
  sample_memory<float> a{.logits
                         = std::vector<float>(300, -std::numeric_limits<float>::infinity())};
  a.logits[123] = -5;
  for (const double uniform : {0.0, 0.5, 0.999999}) {
    a.uniform = uniform;
    on_cpu(a.draw());
    CHECK(a.token == 123);
  }
}
