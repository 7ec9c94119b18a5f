// Tests of estates on a device: the state outlives the worker and its queue.

#include "runtime/device/backend_kind.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memory>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// A trainer with its own queue and pool.
struct generation {
  troupe::runtime::stream queue{backend_kind::cuda, 1, {}};
  reference_trainer by;

  generation(const recipe& what, std::shared_ptr<rank_estate> estate = {})
      : by(what, std::make_shared<formula_source>(what, true), queue, std::move(estate)) {}
};

}  // namespace

TEST_CASE("a device restores the previous state or a copy, with the same bits", "[device]") {
  recipe what;
  what.model = tiny_gpts(2).begin()->second;
  what.precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  what.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  what.batch = {.micro = 2, .global = 4};
  std::vector<digest> expected;
  {
    generation judge(what);
    for (int i = 0; i < 3; ++i)
      expected.push_back(judge.by.step().state);
  }
  auto estate = std::make_shared<rank_estate>();
  auto now = std::make_unique<generation>(what, estate);
  for (int i = 0; i < 2; ++i)
    CHECK(now->by.step().state == expected[std::size_t(i)]);
  const auto samples = now->by.consumed_samples();
  now = nullptr;
  estate->go_back_to(1);
  now = std::make_unique<generation>(what, estate);
  now->by.resume_at(1, samples / 2);
  CHECK(now->by.step().state == expected[1]);
  // The old queue may still run; the test does not wait for it.
  auto next = std::make_unique<stream>(backend_kind::cuda, 1, memory_pool());
  const auto copy = estate->copied(2, *next);
  reference_trainer by(what, std::make_shared<formula_source>(what, true), *next, copy);
  now->by.step();
  now = nullptr;
  estate = nullptr;
  by.resume_at(2, samples);
  CHECK(by.step().state == expected[2]);
}

TEST_CASE("after a worker has ended, its device holds only the estate", "[device]") {
  recipe what;
  what.model = tiny_gpts(2).begin()->second;
  what.precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  what.batch = {.micro = 2, .global = 4};
  generation(what).by.step();  // lets libraries allocate what they keep
  const auto free = [] { return open_devices().free_memory(0); };
  const auto before = free();
  auto estate = std::make_shared<rank_estate>();
  generation(what, estate).by.step();
  // Blocks are at most a quarter larger than their contents.
  const auto most = estate->bytes().all() + estate->bytes().all() / 4;
  CHECK(before - free() >= estate->bytes().all());
  CHECK(before - free() <= most);
  std::shared_ptr<rank_estate> copy;
  {
    generation next(what);
    copy = estate->copied(1, next.queue);
    next.by.step();
  }
  CHECK(before - free() <= 2 * most);
  estate = nullptr;
  CHECK(before - free() <= most);
  copy = nullptr;
  CHECK(free() == before);
}
