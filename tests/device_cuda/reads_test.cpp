// Tests of how often the host waits; the emulated device counts.

#include "runtime/tensor/reads.hpp"

#include "runtime/device/backend_kind.hpp"
#include "runtime/device/queue_points.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <numeric>

using namespace troupe;
using namespace troupe::runtime;

namespace {

std::vector<float> counted(std::int64_t n, float first) {
  std::vector<float> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Lets `n` allocations of pinned memory succeed and all later ones fail.
struct pinned_at_most {
  explicit pinned_at_most(int n) {
    emulator::plant_faults("cudaHostAlloc@" + std::to_string(n + 1) + "+=2");
  }
  ~pinned_at_most() { emulator::plant_faults(""); }
};

}  // namespace

TEST_CASE("one wait covers all reads of a stream, which are delivered in order", "[device]") {
  const auto where = GENERATE(backend_kind::cuda, backend_kind::cpu);
  stream stream(where, 1, {});
  // Small reads share a page of pinned memory, large ones have their own.
  const std::vector<std::int64_t> sizes{1, 3, 40000, 0, 2, 16000, 500, 1};
  std::vector<std::vector<float>> expected, found;
  reads by(stream);
  const auto before = emulator::calls_so_far().waits;
  for (const auto n : sizes) {
    expected.push_back(counted(n, float(expected.size())));
    auto x = uploaded(stream, expected.back(), {n});
    by.add<float>(x, [&](std::span<const float> e) { found.emplace_back(e.begin(), e.end()); });
    if (where == backend_kind::cuda)
      stream.clear(x.raw(), x.bytes());  // runs after the read
  }
  std::size_t then = 0;
  by.then([&] { then = found.size(); });
  CHECK(found.empty());
  by.finish();
  CHECK(found == expected);
  CHECK(then == sizes.size());
  CHECK(emulator::calls_so_far().waits - before == (where == backend_kind::cuda ? 1 : 0));
}

TEST_CASE("large arrays go through two pieces of pinned memory", "[device]") {
  stream stream(backend_kind::cuda, 1, {});
  const auto values = counted(std::int64_t{24} << 20, 0);  // six pieces of 16 MiB
  const pinned_at_most two(2);
  const auto x = uploaded(stream, values, {std::int64_t(values.size())});
  stream.finish();  // frees both pieces
  CHECK(elements_of<float>(stream, x) == values);
}

TEST_CASE("a training step waits for its device twice: for its vote and for its state",
          "[device][unsanitized]") {
  recipe recipe;
  recipe.model = tests::tiny_gpts(2).begin()->second;
  recipe.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  recipe.batch = {.micro = 1, .global = 8, .data_parallel = 2};
  stream stream(backend_kind::cuda, 1, {});
  reference_trainer by(recipe, std::make_shared<tests::formula_source>(recipe, true), stream);
  by.step();
  const auto before = emulator::calls_so_far().waits;
  by.step();
  CHECK(emulator::calls_so_far().waits - before == 2);
  by.evaluate(tests::formula_source(recipe, true), 3);  // one wait per batch
  CHECK(emulator::calls_so_far().waits - before == 2 + 3);
}

TEST_CASE("constants of all micro-batches are uploaded once", "[device]") {
  stream stream(backend_kind::cuda, 1, {});
  int made = 0;
  const auto ask = [&](const std::string& name) {
    return stream.constant(name, 4, [&](std::byte* to) {
      ++made;
      std::fill(to, to + 4, std::byte{7});
    });
  };
  const auto first = ask("a");
  CHECK(ask("a") == first);
  CHECK(made == 1);
  for (int i = 0; i < 40; ++i)
    CHECK(ask(std::to_string(i)) != first);
  std::uint32_t there = 0;
  stream.read(&there, ask("a").get(), sizeof there);
  CHECK(there == 0x07070707);
}

TEST_CASE("the failure detector sees each point of a queue that the device has passed",
          "[device]") {
  runtime::stream stream(kernels::backend::cuda, 1, {});
  runtime::queue_points points;
  CHECK_FALSE(points.has_advanced());
  points.add(stream.mark());
  points.add(stream.mark());
  stream.finish();
  CHECK(points.has_advanced());
  CHECK_FALSE(points.has_advanced());
}
