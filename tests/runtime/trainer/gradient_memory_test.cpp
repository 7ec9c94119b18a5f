// When gradients have memory, and that later steps need no more of it than the first ones.

#include "runtime/trainer/worker.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// Units of some megabytes, as are its activations.
worker_settings megabytes(dtype precision) {
  auto c = tiny_gpt(4);
  c.hidden = 192;
  c.heads = c.groups = 4;
  c.head_size = 48;
  c.ffn = 768;
  c.sequence = c.positions = 128;
  c.vocabulary = c.padded_vocabulary = 3072;
  return {.model = gpt_spec(c),
          .chunks = {{chunk_id(0), {0, c.layers, true, true}}},
          .precision = precision};
}

std::int64_t bytes_of_gradients(const worker& x) {
  std::int64_t sum = 0;
  for (const auto& array : x.gradient_arrays())
    sum += array.elements * 4;
  return sum;
}

}  // namespace

TEST_CASE(
    "gradients of a worker that sums with nobody stand from the backward pass until they are "
    "dropped",
    "[trainer][memory]") {
  const bool rounded = GENERATE(false, true);
  const auto settings = megabytes(rounded ? dtype::bf16 : dtype::f32);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  const auto gradients = bytes_of_gradients(x);
  CHECK(gradients > 8 << 20);
  CHECK(x.gradient_arrays().size() == 6);  // embedding and four layers and head
  const pass_key key{0, chunk_id(0), microbatch_id(0)};
  std::vector<std::size_t> held, at_rest;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    CAPTURE(step);
    const auto in = tiny_batch(stream, settings.model, 2, step);
    x.begin_step({.step = step_id(step)});
    const auto before = std::int64_t(pool.bytes_in_use());
    pool.reset_peak();
    x.forward(key, in);
    const auto activations = std::int64_t(pool.bytes_in_use()) - before;
    x.backward(key, {});
    // The activations are gone, and the gradients are there.
    const auto grown = std::int64_t(pool.bytes_in_use()) - before;
    CHECK(grown >= gradients);
    CHECK(grown < gradients + gradients / 8);
    CHECK(activations > gradients / 2);
    // Neither stood beside all of the other.
    CHECK(std::int64_t(pool.peak_bytes()) - before < activations + gradients);
    x.reduce();
    x.norms();
    if (step != 3)  // which is left out
      x.update({.step = step, .learning_rate = 0.01});
    x.drop_gradients();
    held.push_back(pool.held_bytes());
    at_rest.push_back(pool.bytes_in_use());
  }
  CHECK(at_rest[1] == at_rest[0]);
  for (const int later : {2, 3}) {
    CHECK(held[std::size_t(later)] == held[1]);
    CHECK(at_rest[std::size_t(later)] == at_rest[1]);
  }
}

TEST_CASE("gradients of a step that was abandoned are gone when the next begins",
          "[trainer][memory]") {
  const auto settings = megabytes(dtype::f32);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  const pass_key key{0, chunk_id(0), microbatch_id(0)};
  const auto in = tiny_batch(stream, settings.model, 2, 1);
  x.begin_step({.step = step_id(1)});
  x.forward(key, in);
  const auto recorded = pool.bytes_in_use();
  x.backward(key, {});
  const bool trains = GENERATE(true, false);
  x.begin_step({.step = step_id(2), .training = trains});
  CHECK(pool.bytes_in_use() < recorded);
  CHECK(pool.bytes_in_use() < std::size_t(bytes_of_gradients(x)) * 4);
}

TEST_CASE("who sums gradients with others keeps their memory and has the same bits",
          "[trainer][memory]") {
  auto settings = megabytes(dtype::f32);
  settings.model = gpt_spec(tiny_gpts(2).begin()->second);
  settings.chunks = {};
  ranks alone({}, settings, kernels::backend::cpu);
  for (const auto& x : alone.at({}).gradient_arrays())
    CHECK_FALSE(x.stays);
  settings.replicas = 2;
  ranks both({}, settings, kernels::backend::cpu);
  CHECK(both.at({}).gradient_arrays().size() == 1);
  settings.replicas = 1;
  ranks two({.data = 2}, settings, kernels::backend::cpu);
  for (const int r : {0, 1}) {
    const auto arrays = two.at({.data = r}).gradient_arrays();
    REQUIRE(arrays.size() == 1);
    CHECK(arrays.front().stays);
  }
  for (std::uint64_t step = 1; step <= 2; ++step)
    CHECK(both.step(step, 1).digests == two.step(step, 1).digests);
}
