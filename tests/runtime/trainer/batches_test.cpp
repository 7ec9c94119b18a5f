// Tensors of a micro-batch with several lengths, over stages.

#include "tests/support/broken.hpp"
#include "tests/support/crossing_gpt.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/two_lengths.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

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

TEST_CASE("streams of two lengths have the bits of the whole model in each layout", "[trainer]") {
  const bool crosses = GENERATE(false, true);
  const worker_settings settings{.model = crosses ? crossing_gpt() : two_lengths(), .grain = 16};
  const int data = GENERATE(1, 2);
  const auto judge = digests({.data = data}, settings, {{0, 6}});
  // The encoder learns by the gradients of the decoder.
  for (const auto* name : {"patches.gain", "encoder.layers.0.mlp.linear_fc1.weight"})
    CHECK(judge[0].at(name) != judge[1].at(name));
  CHECK(digests({.pipeline = 2, .data = data}, settings, {{0, 2}, {2, 6}}) == judge);
  CHECK(digests({.pipeline = 3, .data = data}, settings, {{0, 1}, {1, 4}, {4, 6}}) == judge);
}

TEST_CASE(
    "streams of two lengths have the losses of one rank on tensor ranks, with their rows "
    "sharded or not",
    "[trainer]") {
  // A large epsilon: otherwise the first update is the sign of the gradient.
  const int attends = GENERATE(0, 1, 2);  // no cross-attention; with T5's biases; with ALiBi
  worker_settings settings{.model = attends == 0 ? two_lengths() : crossing_gpt(attends == 2),
                           .optimizer = {.epsilon = 1e-2},
                           .grain = 16};
  const auto losses = [&](const grid& g) {
    ranks all(g, settings, kernels::backend::cpu, {{0, 6}});
    auto first = all.step(1, micro_batches).losses;
    return std::pair(std::move(first), all.step(2, micro_batches).losses);
  };
  const auto [first, second] = losses({});
  settings.sequence_parallel = GENERATE(true, false);
  CAPTURE(attends, settings.sequence_parallel);
  const auto [seen, later] = losses({.tensor = 2});
  REQUIRE(seen.size() == first.size());
  // The tolerance of tensor_parallel_test.cpp: two orders of f32 sums.
  CHECK_THAT(seen.front().total, Catch::Matchers::WithinRel(first.front().total, 1e-5));
  CHECK_THAT(later.front().total, Catch::Matchers::WithinRel(second.front().total, 1e-4));
}

TEST_CASE("a unit reads the positions of the streams that it uses", "[trainer]") {
  using names = std::vector<std::string>;
  const auto model = two_lengths();
  CHECK(flow_of(model, {0, 2}).batch == names{"patches", "patch_positions", "samples"});
  CHECK(flow_of(model, {2, 3}).batch
        == names{"tokens", "positions", "documents", "document_samples"});
  CHECK(flow_of(model, {3, 6}).before.inputs
        == names{"patch_positions", "samples", "positions", "documents", "document_samples"});
}

TEST_CASE("BUNDLE-1: a pass without a tensor that its model reads is refused", "[trainer]") {
  stream by(kernels::backend::cpu, 1, {});
  const auto model = two_streams_with_patches();
  worker one({.model = model, .chunks = {{chunk_id(0), all_of(model)}}}, by);
  one.begin_step({.step = step_id(1)});
  CHECK_BREAKS("BUNDLE-1", one.forward({}, tiny_batch(by, two_streams(), 2, 1, true)));
}
