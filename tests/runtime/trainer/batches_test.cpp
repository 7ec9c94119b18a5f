// Tensors of a micro-batch with several lengths, over stages.

#include "tests/support/broken.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t units = 7, micro_batches = 2;

/// Digests of the state after each of two steps.
std::vector<std::map<std::string, digest>> digests(const grid& g,
                                                   const worker_settings& settings,
                                                   std::vector<chunk_range> stages) {
  ranks all(g, settings, kernels::backend::cpu, std::move(stages));
  return {all.step(1, micro_batches).digests, all.step(2, micro_batches).digests};
}

}  // namespace

TEST_CASE("a tensor of another length reaches each stage that reads it, with the same bits",
          "[trainer]") {
  const worker_settings settings{.model = two_streams_with_patches(), .grain = 16};
  const int data = GENERATE(1, 2);
  const auto judge = digests({.data = data}, settings, {{0, units}});
  // The second stage reads them, or passes them on to the third.
  CHECK(digests({.pipeline = 2, .data = data}, settings, {{0, 3}, {3, units}}) == judge);
  CHECK(digests({.pipeline = 3, .data = data}, settings, {{0, 3}, {3, 5}, {5, units}}) == judge);
  auto without = settings;
  without.model = two_streams();
  CHECK(digests({.data = data}, without, {{0, units}}) != judge);
}

TEST_CASE("BUNDLE-1: a pass without a tensor that its model reads is refused", "[trainer]") {
  stream by(kernels::backend::cpu, 1, {});
  const auto model = two_streams_with_patches();
  worker one({.model = model, .chunks = {{chunk_id(0), all_of(model)}}}, by);
  one.begin_step({.step = step_id(1)});
  CHECK_BREAKS("BUNDLE-1", one.forward({}, tiny_batch(by, two_streams(), 2, 1, true)));
}
