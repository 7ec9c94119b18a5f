// Cases beyond the operation tester (op_tester.hpp): fingerprints computed together with norms.

#include "tests/kernels/vector_targets.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/written_fingerprints.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;

TEST_CASE("square norms on the cpu compute the fingerprints of their inputs", "[kernels][cpu]") {
  const std::int64_t grain = GENERATE(1, 61, 4099, 8192, 65536);
  const int threads = GENERATE(1, 3);
  CAPTURE(grain, threads);
  tests::normed_arrays all({0, 1, 7, 4097, 70001}, grain);
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target only(target);
    std::vector<double> norms(std::size_t(all.grains()), -1);
    std::vector<std::uint64_t> prints(2 * all.x.size(), 1);
    auto op = all.operation([&](std::size_t i) { return all.x[i].data(); }, all.keys.data());
    op.results = norms.data();
    op.fingerprints = prints.data();
    tests::on_cpu(op, threads);
    CHECK(norms == all.norms());
    CHECK(prints == all.fingerprints());
  }
}

// Expected values come from the fingerprint operation.
TEST_CASE("the reference computes the fingerprint of each array with its norms",
          "[kernels][reference][sum]") {
  tests::normed_arrays all({5, 0, 9}, 4);
  std::vector<std::uint64_t> expected(6);
  std::vector<kernels::fingerprint<float>::piece> pieces;
  const auto* key = all.keys.data();
  for (const auto& x : all.x) {
    pieces.push_back({x.data(), std::int64_t(x.size()), key});
    key += kernels::grains_in(std::int64_t(x.size()), 4);
  }
  kernels::reference::run(kernels::fingerprint<float>{expected.data(), pieces.data(), 3, 4});
  CHECK(all.fingerprints() == expected);
}
