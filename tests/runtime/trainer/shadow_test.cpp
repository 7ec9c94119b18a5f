// Memory forecasts from shadow workers, which allocate no memory.

#include "runtime/trainer/worker.hpp"
#include "tests/support/experts_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fstream>
#include <unistd.h>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// Resident bytes of this process.
std::int64_t resident() {
  std::int64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

/// Four million parameters: 66 MB of values, gradients and moments.
worker_settings settings_of(std::int64_t sequence = 64) {
  auto c = tiny_gpt(4);
  c.hidden = 192;
  c.heads = c.groups = 4;
  c.head_size = 48;
  c.ffn = 768;
  c.sequence = c.positions = sequence;
  c.vocabulary = c.padded_vocabulary = 12288;
  return {.model = gpt_spec(c), .chunks = {{chunk_id(0), {0, c.layers + 2}}}};
}

struct memory_use {
  /// Bytes at the peak, as the pool counts them.
  std::size_t peak = 0;
  /// Bytes that the process holds more after the step, with the worker.
  std::int64_t grown = 0;
};

/// Builds a worker and runs a step.
memory_use use_of(const worker_settings& settings, const memory_pool& pool) {
  const auto before = resident();
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  x.begin_step({.step = step_id(1), .microbatches = 2});
  for (const std::uint32_t m : {0U, 1U}) {
    const pass_key key{0, chunk_id(0), microbatch_id(m)};
    x.forward(key, tiny_batch(stream, settings.model, 2, m));
    x.backward(key, {});
  }
  x.reduce();
  x.norms();
  if (x.estate() != nullptr)
    x.seal(0, {});
  x.update({.step = 1, .learning_rate = 0.01});
  x.drop_gradients();
  return {pool.peak_bytes(), resident() - before};
}

std::size_t peak_of(const worker_settings& settings, const memory_pool& pool) {
  return use_of(settings, pool).peak;
}

}  // namespace

TEST_CASE("a shadow worker forecasts the worker's memory and needs almost none itself",
          "[shadow][unthreaded]") {
  auto settings = settings_of();
  const int kind = GENERATE(0, 1, 2, 3, 4, 5);
  CAPTURE(kind);
  if (kind == 1 || kind == 5)
    settings.precision = dtype::bf16;
  if (kind == 2)
    settings.recompute.granularity = recompute_granularity::full;
  if (kind == 3)
    settings.recompute = {.granularity = recompute_granularity::selective, .feed_forward = true};
  settings.keeps_previous = kind >= 4;
  // The first run also fetches pages of the program and of the sanitizers' records.
  peak_of(settings, memory_pool::shadow());
  const auto forecast = use_of(settings, memory_pool::shadow());
  CHECK(forecast.peak > std::size_t(60) << 20);
  // The tokens of a batch, the starts of its sequences and the worker itself.
  CHECK(forecast.grown < std::int64_t(16) << 20);
  const auto real = use_of(settings, memory_pool());
  // Values and moments; gradients are dropped at the end.
  CHECK(real.grown > std::int64_t(32) << 20);
  CHECK(forecast.peak == real.peak);
}

TEST_CASE("more recomputation lowers the forecast", "[shadow]") {
  auto settings = settings_of(1024);
  const auto none = peak_of(settings, memory_pool::shadow());
  settings.recompute.granularity = recompute_granularity::full;
  CHECK(peak_of(settings, memory_pool::shadow()) < none);
}

TEST_CASE("a shadow worker forecasts the memory of balanced experts", "[shadow]") {
  auto experts
      = with_forced_choice(every_tiny_experts().at("softmax, shared experts with gate, gelu"));
  experts.latent = 7;
  experts.router.losses = {{balanced_rows::microbatch, 0.1}};
  const bool padded = GENERATE(false, true);
  if (padded) {
    experts.router.capacity = 1.5;
    experts.router.pads = true;
  }
  CAPTURE(padded);
  const worker_settings settings{.model = experts_gpt(experts), .chunks = {{chunk_id(0), {0, 4}}}};
  CHECK(peak_of(settings, memory_pool::shadow()) == peak_of(settings, memory_pool()));
}
