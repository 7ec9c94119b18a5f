#include "runtime/data/sampler.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>

using namespace troupe::runtime;
using namespace troupe::tests;
using nlohmann::json;

namespace {

/// Reference output of PyTorch (tests/golden/data/sampler.py).
const json& golden_sampler() {
  static const auto all = json::parse(read_text(source_dir() + "/tests/golden/data/sampler.json"));
  return all;
}

}  // namespace

TEST_CASE("permutations equal those of torch.randperm", "[data][golden]") {
  for (const auto& c : golden_sampler()["permutations"]) {
    std::string text;
    for (const auto x : torch_permutation(c["n"], c["seed"]))
      text += (text.empty() ? "" : ",") + std::to_string(x);
    CHECK(sha256_of(text.data(), text.size()) == c["sha256"]);
  }
  CHECK(torch_permutation(0, 1).empty());
  CHECK_THROWS_AS(torch_permutation(std::uint64_t{1} << 28, 1), input_error);
}

TEST_CASE("a cyclic sampler has the micro-batches of Megatron-LM's", "[data][golden]") {
  for (const auto& c : golden_sampler()["cyclic"]) {
    const batch_layout layout{c["micro"], c["replicas"]};
    const sampler under_test(
        c["sharded"] ? sampling::cyclic : sampling::cyclic_unsharded, layout, c["total"]);
    const std::uint64_t consumed = c["consumed"];
    INFO(c["total"] << " samples, after " << consumed << ", sharded " << c["sharded"]);
    // Asks for the samples as micro-batches of one step, and as steps of one micro-batch.
    for (std::uint64_t m = 0; m < c["steps"].size(); ++m)
      for (std::uint64_t r = 0; r < layout.data_parallel; ++r)
        for (std::uint64_t b = 0; b < layout.micro_batch_size; ++b) {
          const auto expected = c["steps"][m][r][b].get<std::uint64_t>();
          CHECK(under_test.sample({consumed, m, r}, b) == expected);
          const auto before = consumed + m * layout.data_parallel * layout.micro_batch_size;
          CHECK(under_test.sample({before, 0, r}, b) == expected);
        }
  }
}

TEST_CASE("an epoch of a cyclic sampler has no sample twice, and the next another order",
          "[data]") {
  const sampler under_test(sampling::cyclic, {2, 2}, 23);
  std::vector<std::uint64_t> first, second;
  for (std::uint64_t m = 0; m < 5; ++m)
    for (std::uint64_t r = 0; r < 2; ++r)
      for (std::uint64_t b = 0; b < 2; ++b) {
        first.push_back(under_test.sample({0, m, r}, b));
        second.push_back(under_test.sample({20, m, r}, b));
      }
  const std::set<std::uint64_t> seen(first.begin(), first.end()),
      again(second.begin(), second.end());
  CHECK(seen.size() == 20);
  CHECK(seen == again);
  CHECK(first != second);
}

TEST_CASE("a cyclic sampler refuses splits that it cannot distribute", "[data]") {
  CHECK_THROWS_AS(sampler(sampling::cyclic, batch_layout{4, 2}, 7), input_error);
  const sampler under_test(sampling::cyclic, {2, 2}, 23);
  CHECK_THROWS_WITH(under_test.sample({2, 0, 0}, 0),
                    Catch::Matchers::ContainsSubstring("cannot resume after 2 samples")
                        && Catch::Matchers::ContainsSubstring("they are taken 4 at a time"));
  CHECK_BREAKS("SAMPLER-1", to_string(sampling(9)));
}
