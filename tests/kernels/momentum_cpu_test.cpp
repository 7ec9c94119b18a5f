// Cases beyond the operation tester (op_tester.hpp): fingerprints match the results, and computing
// them does not change the results.

#include "tests/kernels/vector_targets.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/written_fingerprints.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::normal;
using tests::on_cpu;

TEST_CASE("a one-moment update on the cpu computes the fingerprints of its results",
          "[kernels][cpu]") {
  const auto rule = GENERATE(kernels::momentum_rule::sgd, kernels::momentum_rule::lion);
  const std::int64_t n = GENERATE(0, 1, 7, 1025, 70001);
  const std::int64_t grain = GENERATE(8, 61, 1500, 65536);
  const int threads = GENERATE(1, 3);
  CAPTURE(int(rule), n, grain, threads);
  const auto dx = normal<float>(std::size_t(n), 3);
  const auto keys = tests::keys_for(2, n, grain);
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target only(target);
    std::vector<std::vector<float>> left[2];
    std::vector<std::uint64_t> results(4, 1);
    for (const bool prints : {false, true}) {
      auto x = normal<float>(std::size_t(n), 1), m = normal<float>(std::size_t(n), 2);
      auto op = tests::momentum_like(rule);
      op.x = x.data();
      op.m = m.data();
      op.dx = dx.data();
      op.n = n;
      if (prints)
        op.fingerprints = {results.data(), keys.data(), grain};
      on_cpu(op, threads);
      left[prints ? 1 : 0] = {x, m};
    }
    CHECK(left[0] == left[1]);
    CHECK(results == tests::fingerprints_of(left[1], keys, grain));
  }
}

TEST_CASE("a scaled sum on the cpu computes the fingerprint of its result", "[kernels][cpu]") {
  const std::int64_t n = GENERATE(0, 1, 7, 1025, 70001);
  const std::int64_t grain = GENERATE(8, 61, 1500, 65536);
  const bool two = GENERATE(false, true);
  CAPTURE(n, grain, two);
  const auto x = normal<float>(std::size_t(n), 1), z = normal<float>(std::size_t(n), 2);
  const auto keys = tests::keys_for(1, n, grain);
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target only(target);
    std::vector<std::vector<float>> left[2];
    std::vector<std::uint64_t> results(2, 1);
    for (const bool prints : {false, true}) {
      std::vector<float> y(std::size_t(n), 9.0F);
      kernels::scaled_sum<float> op{.y = y.data(),
                                    .x = x.data(),
                                    .z = two ? z.data() : nullptr,
                                    .n = n,
                                    .a = 0.75F,
                                    .b = -0.5F};
      if (prints)
        op.fingerprints = {results.data(), keys.data(), grain};
      on_cpu(op, 2);
      left[prints ? 1 : 0] = {y};
    }
    CHECK(left[0] == left[1]);
    CHECK(results == tests::fingerprints_of(left[1], keys, grain));
  }
}
