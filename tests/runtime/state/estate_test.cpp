// Workers that resume from the estates of their ranks: same bits, and detection of damage.

#include "runtime/state/rank_estate.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/support/failing_store.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/frozen_streams.hpp"
#include "tests/support/kept_scales.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/two_copies.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

const char* const untied = "rope, rms norm, swiglu, no biases, untied, 2 groups";
const char* const tied = "learned, layer norm, gelu tanh, biases, tied, dropout";

/// Padding rows in the vocabulary; small buckets and grains.
worker_settings settings_of(const char* name, int tensor = 1) {
  auto model = tiny_gpts(2).at(name);
  model.padded_vocabulary = 32;
  model.groups = std::max<std::int64_t>(model.groups, tensor);
  return {.model = gpt_spec(model), .bucket_size = 700, .grain = 32};
}

constexpr dtype types[] = {dtype::f32, dtype::bf16, dtype::f16};
const std::vector<chunk_range> no_stages = {};

estates_of_ranks estates_for(const grid& g) {
  estates_of_ranks out;
  for (int p = 0; p < g.pipeline; ++p)
    for (int d = 0; d < g.data; ++d)
      for (int t = 0; t < g.tensor; ++t)
        out[{t, p, d}] = std::make_shared<rank_estate>("rank " + std::to_string(p));
  return out;
}

void go_back(const estates_of_ranks& all, std::uint64_t iteration) {
  for (const auto& [at, estate] : all)
    estate->go_back_to(iteration);
}

void check_same(const group_step_result& a, const group_step_result& b) {
  for (std::size_t r = 0; r < a.losses.size(); ++r)
    CHECK(a.losses.at(r).total == b.losses.at(r).total);
  CHECK(a.norms == b.norms);
  CHECK(a.digests == b.digests);
}

/// Trains without and with estates. With estates, workers are replaced after step 2 to continue,
/// and after step 3 to repeat it.
void check_replays(const grid& g, worker_settings settings) {
  ranks judge(g, settings, kernels::backend::cpu);
  const auto estates = estates_for(g);
  std::optional<ranks> seen(std::in_place, g, settings, kernels::backend::cpu, no_stages, estates);
  judge.shake();
  seen->shake();
  seen->begin(0);
  std::vector<group_step_result> expected;
  for (std::uint64_t step = 1; step <= 4; ++step)
    expected.push_back(judge.step(step, 2));
  const auto rebuild = [&](std::uint64_t from) {
    seen.reset();
    go_back(estates, from);
    seen.emplace(g, settings, kernels::backend::cpu, no_stages, estates);
    seen->each([&](const rank_coordinates& s) { seen->at(s).bring_values(); });
  };
  for (std::uint64_t step = 1; step <= 2; ++step)
    check_same(seen->step(step, 2), expected[step - 1]);
  rebuild(2);
  check_same(seen->step(3, 2), expected[2]);
  rebuild(2);
  check_same(seen->step(3, 2), expected[2]);
  check_same(seen->step(4, 2), expected[3]);
  CHECK(seen->gathered() == judge.gathered());
  CHECK(seen->gathered(true) == judge.gathered(true));
  // Sharded: digests of all values, with padding.
  judge.for_each_rank([&](const rank_coordinates& s) {
    CHECK(seen->at(s).vote_digests() == judge.at(s).vote_digests());
  });
}

}  // namespace

TEST_CASE("rebuilt workers have their frozen parameters from their estates", "[estate]") {
  const auto type = types[std::size_t(GENERATE(0, 1, 2))];
  const bool distributed = GENERATE(false, true);
  CAPTURE(int(type), distributed);
  worker_settings settings{.model = frozen_streams(frozen_tower),
                           .precision = type,
                           .distributed_optimizer = distributed,
                           .bucket_size = 700,
                           .grain = 32};
  check_replays({.data = 2}, settings);
}

TEST_CASE("rebuilt workers have their f32 parameters from their estates", "[estate]") {
  const auto type = types[std::size_t(GENERATE(0, 1, 2))];
  const bool distributed = GENERATE(false, true);
  const int tensor = GENERATE(1, 2);
  CAPTURE(int(type), distributed, tensor);
  auto model = kept_scales();
  model.units[1].frozen = true;
  worker_settings settings{.model = std::move(model),
                           .precision = type,
                           .distributed_optimizer = distributed,
                           .bucket_size = 700,
                           .grain = 32};
  check_replays({.tensor = tensor, .data = 2}, settings);
}

TEST_CASE("workers that are rebuilt from their estates have the bits of those that lived on",
          "[estate][unsanitized]") {
  const auto* const name = GENERATE(untied, tied);
  const auto type = types[std::size_t(GENERATE(0, 1, 2))];
  const bool distributed = GENERATE(false, true);
  const int tensor = GENERATE(1, 2), pipeline = GENERATE(1, 2), data = GENERATE(1, 2);
  CAPTURE(name, int(type), distributed, tensor, pipeline, data);
  auto settings = settings_of(name, tensor);
  settings.precision = type;
  settings.distributed_optimizer = distributed;
  check_replays({tensor, pipeline, data}, settings);
}

TEST_CASE("estates keep the state of every optimizer", "[estate]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto type = types[std::size_t(GENERATE(0, 1))];
  const bool distributed = GENERATE(false, true);
  CAPTURE(int(kind), int(type), distributed);
  auto settings = settings_of(untied, 2);
  settings.optimizer.kind = kind;
  settings.optimizer.muon.tensor_mode = muon_tensor_mode::distributed;
  settings.precision = type;
  settings.distributed_optimizer = distributed;
  check_replays({2, 1, 2}, settings);
}

TEST_CASE("estates work for workers with several replicas", "[estate]") {
  auto settings = settings_of(tied);
  settings.replicas = 2;
  settings.distributed_optimizer = GENERATE(false, true);
  check_replays({1, 2, 2}, settings);
}

TEST_CASE("estates work for two copies of a model in opposite directions", "[estate]") {
  auto settings = settings_of(untied);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.distributed_optimizer = GENERATE(false, true);
  two_copies judge(settings);
  settings.estate = std::make_shared<rank_estate>();
  std::optional<two_copies> seen(std::in_place, settings);
  std::vector<std::map<std::string, digest>> expected;
  for (std::uint64_t step = 1; step <= 3; ++step)
    expected.push_back(judge.step(step));
  CHECK(seen->step(1) == expected[0]);
  CHECK(seen->step(2) == expected[1]);
  const auto estates = seen->estates;
  seen.reset();
  for (const auto& estate : estates)
    estate->go_back_to(1);
  seen.emplace(settings, estates);
  CHECK(seen->step(2) == expected[1]);
  CHECK(seen->step(3) == expected[2]);
}

TEST_CASE("estates work for a rank with both ends of a tied parameter", "[estate]") {
  auto settings = settings_of(tied);
  settings.chunks = {{chunk_id(0), {0, 2}}, {chunk_id(1), {2, 4}}};
  stream stream(kernels::backend::cpu, 1, {});
  const auto step = [&](worker& by, std::uint32_t number) {
    by.begin_step({.step = step_id(number)});
    const auto in = tiny_batch(stream, settings.model, 2, number, true);
    auto x = by.forward({0, chunk_id(0), {}}, in);
    for (const auto* const name : {"labels", "mask"})
      x.add(name, in.at(name));
    by.forward({0, chunk_id(1), {}}, x);
    by.backward({0, chunk_id(0), {}}, by.backward({0, chunk_id(1), {}}, {}));
    by.reduce();
    by.update({.step = number, .learning_rate = 0.01});
    if (by.estate() != nullptr)
      by.seal(number, by.digests());
    return by.digests();
  };
  worker judge(settings, stream);
  settings.estate = std::make_shared<rank_estate>();
  const auto first = step(judge, 1), second = step(judge, 2);
  {
    worker x(settings, stream);
    x.seal(0, x.digests());
    CHECK(step(x, 1) == first);
    CHECK(step(x, 2) == second);
  }
  settings.estate->go_back_to(1);
  worker x(settings, stream);
  CHECK(step(x, 2) == second);
}

TEST_CASE("a skipped step shares the state of the step before it, and is replayed", "[estate]") {
  recipe what;
  what.model = tiny_gpts(2).at(tied);
  what.precision = dtype::f16;
  what.scaling.initial = 1 << 24;  // overflows: the first steps are skipped
  what.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  what.batch = {.micro = 2, .global = 4};
  stream stream(kernels::backend::cpu, 1, {});
  const auto data = std::make_shared<formula_source>(what, true);
  reference_trainer judge(what, data, stream);
  const auto estate = std::make_shared<rank_estate>();
  std::optional<reference_trainer> seen(std::in_place, what, data, stream, estate);
  std::vector<training_position> before;
  std::vector<step_report> expected;
  auto state = combine(judge.state().digests().own);
  for (int i = 0; i < 30; ++i) {
    before.push_back(judge.position());
    expected.push_back(judge.step());
  }
  int left_out = 0, replayed = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(seen->step().state == expected[i].state);
    const bool skipped = std::exchange(state, expected[i].state) == expected[i].state;
    left_out += skipped ? 1 : 0;
    CHECK((estate->newest()->first < estate->newest()->last) == skipped);
    if (!skipped && replayed > 4)
      continue;
    ++replayed;
    seen.reset();
    estate->go_back_to(i);
    seen.emplace(what, data, stream, estate);
    const auto& at = before[i];
    seen->resume_at(at.iteration, at.consumed, at.skipped, at.scale);
    CHECK(seen->step().state == expected[i].state);
  }
  CHECK(left_out > 2);
  CHECK(left_out < 28);
}

TEST_CASE("a worker on a copied estate is not disturbed by an old worker that still runs",
          "[estate]") {
  auto settings = settings_of(untied);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.distributed_optimizer = true;
  const grid g{1, 1, 2};
  ranks judge(g, settings, kernels::backend::cpu);
  auto estates = estates_for(g);
  ranks old(g, settings, kernels::backend::cpu, no_stages, estates);
  old.begin(0);
  check_same(old.step(1, 2), judge.step(1, 2));
  const auto expected = judge.step(2, 2);
  stream stream(kernels::backend::cpu, 1, {});
  for (auto& [at, estate] : estates)
    estate = estate->copied(1, stream);
  ranks seen(g, settings, kernels::backend::cpu, no_stages, estates);
  old.step(2, 1);  // another step
  old.step(3, 1);
  seen.each([&](const rank_coordinates& s) { seen.at(s).bring_values(); });
  check_same(seen.step(2, 2), expected);
}

TEST_CASE(
    "ESTATE-5: an update that throws in the middle keeps the previous state, and can be repeated",
    "[estate]") {
  const auto type = types[std::size_t(GENERATE(0, 1))];
  const auto kind = optimizer_kind(GENERATE(0, 1, 3));  // adam, sgd, muon
  CAPTURE(int(type), int(kind));
  auto settings = settings_of(untied);
  settings.precision = type;
  settings.optimizer.kind = kind;
  settings.optimizer.muon.others = optimizer_kind::lion;  // one operation for each parameter
  const grid g;
  ranks judge(g, settings, kernels::backend::cpu);
  auto estates = estates_for(g);
  const auto fails = std::make_shared<int>(-1);
  auto failing = settings;
  failing.store = [fails](std::vector<unit_spec> units,
                          int replicas,
                          memory_pool pool,
                          dtype of,
                          const axis_ranks& axes) -> std::unique_ptr<parameter_store> {
    return std::make_unique<failing_store>(
        std::move(units), replicas, std::move(pool), of, axes, fails);
  };
  std::optional<ranks> seen(std::in_place, g, failing, kernels::backend::cpu, no_stages, estates);
  seen->begin(0);
  check_same(seen->step(1, 2), judge.step(1, 2));
  const auto before = seen->at({}).digests();
  const auto expected = judge.step(2, 2);
  // The update runs by learning rate or by parameter; it fails after the first parameters.
  const update_decision decision{.step = 2, .learning_rate = 0.01, .decoupled_learning_rate = 0.02};
  *fails = 5;
  CHECK_THROWS_MATCHES(
      seen->at({}).update(decision), io_error, MessageMatches(ContainsSubstring("planted")));
  *fails = -1;
  CHECK(seen->at({}).digests() != before);  // the update had begun
  CHECK(estates.at({})->newest() == iteration_range{1, 1});
  if (GENERATE(false, true)) {
    stream stream(kernels::backend::cpu, 1, {});
    const auto copy = estates.at({})->copied(1, stream);
    seen.reset();
    estates.at({}) = copy;
  } else {
    seen.reset();
    go_back(estates, 1);
  }
  seen.emplace(g, settings, kernels::backend::cpu, no_stages, estates);
  CHECK(seen->at({}).digests() == before);
  seen->at({}).bring_values();
  check_same(seen->step(2, 2), expected);
}

TEST_CASE("ESTATE-6: damage of a sealed state is found when a worker takes it over", "[estate]") {
  auto settings = settings_of(untied);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.chunks = {{chunk_id(0), {0, 4}}};
  settings.estate = std::make_shared<rank_estate>("stage 3 of replica 1");
  stream stream(kernels::backend::cpu, 1, {});
  std::string wanted;
  const bool moment = GENERATE(false, true);
  {
    worker x(settings, stream);
    x.seal(8, x.digests());
    const auto shards = moment ? x.moments() : x.parameters();
    const auto& shard = shards.at(shards.size() / 2);
    wanted = moment ? shard.name.substr(shard.name.find('.') + 1) : shard.name;
    CHECK_NOTHROW(x.skip(9));
    auto& word = reinterpret_cast<std::uint32_t&>(shard.elements.back());
    word ^= 1;  // the smallest change
  }
  try {
    worker(settings, stream);
    FAIL("the damage was not found");
  } catch (const damaged_state& found) {
    CHECK(found.rank() == "stage 3 of replica 1");
    CHECK(found.parameter() == wanted);
    CHECK(found.iteration() == 9);
    CHECK_THAT(found.what(), StartsWith("the state of step 9 is damaged: on stage 3 of replica 1"));
  }
  // The damaged state was removed from the estate.
  CHECK_THROWS_AS(worker(settings, stream), damaged_state);
}

TEST_CASE("ESTATE-6: damage is reported where another copy on the rank shows it", "[estate]") {
  auto settings = settings_of(tied);
  settings.precision = dtype::bf16;
  settings.estate = std::make_shared<rank_estate>();
  std::optional<two_copies> seen(std::in_place, settings);
  const auto estates = seen->estates;
  seen.reset();
  // The second rank has copies of the embedding and of the output layer that is tied to it.
  auto weights = estates[1]->arrays(0).at(chunk_id(0)).arrays.weights;
  reinterpret_cast<std::uint32_t&>(weights.data<float>()[0]) ^= 1U << 20;
  CHECK_THROWS_AS(two_copies(settings, estates), damaged_state);
}

TEST_CASE("a worker without a sealed state begins as a new one", "[estate]") {
  auto settings = settings_of(tied);
  settings.precision = types[std::size_t(GENERATE(0, 2))];
  settings.chunks = {{chunk_id(0), {0, 4}}};
  stream stream(kernels::backend::cpu, 1, {});
  const auto expected = worker(settings, stream).digests();
  settings.estate = std::make_shared<rank_estate>();
  {
    worker x(settings, stream);
    CHECK(x.digests() == expected);
    x.restore([](const state_shard& to) { std::fill(to.elements.begin(), to.elements.end(), 2); },
              true);
    CHECK(x.digests() != expected);
  }
  CHECK_FALSE(settings.estate->newest());
  CHECK(worker(settings, stream).digests() == expected);
}

TEST_CASE("a restored checkpoint is sealed again, at any iteration", "[estate]") {
  auto settings = settings_of(tied);
  settings.chunks = {{chunk_id(0), {0, 4}}};
  settings.estate = std::make_shared<rank_estate>();
  stream stream(kernels::backend::cpu, 1, {});
  state_digests restored;
  {
    worker x(settings, stream);
    x.seal(0, x.digests());
    x.update({.step = 1, .learning_rate = 0.1});
    x.seal(1, x.digests());
    x.restore([](const state_shard& to) { std::fill(to.elements.begin(), to.elements.end(), 2); },
              true);
    CHECK_FALSE(settings.estate->holds(1));
    restored = x.digests();
    x.seal(70, restored);
  }
  CHECK(settings.estate->newest() == iteration_range{70, 70});
  CHECK(worker(settings, stream).digests() == restored);
}

TEST_CASE("WORKER-10, WORKER-11: an estate is present, and has the worker's chunks", "[estate]") {
  auto settings = settings_of(untied);
  settings.chunks = {{chunk_id(0), {0, 2}}};
  stream stream(kernels::backend::cpu, 1, {});
  worker without(settings, stream);
  const auto none = MessageMatches(StartsWith("WORKER-10"));
  CHECK_THROWS_MATCHES(without.seal(0, {}), broken_promise, none);
  CHECK_THROWS_MATCHES(without.skip(1), broken_promise, none);
  settings.estate = std::make_shared<rank_estate>();
  {
    worker x(settings, stream);
    x.seal(0, x.digests());
    CHECK_THROWS_MATCHES(
        worker(settings, stream), broken_promise, MessageMatches(StartsWith("ESTATE-1")));
  }
  settings.chunks.front().id = chunk_id(1);
  CHECK_THROWS_MATCHES(
      worker(settings, stream), broken_promise, MessageMatches(StartsWith("WORKER-11")));
}

TEST_CASE("OPTIMIZER-2, STORE-5: arrays that are taken over have the expected sizes", "[estate]") {
  auto settings = settings_of(untied);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.chunks = {{chunk_id(0), {0, 2}}};
  settings.estate = std::make_shared<rank_estate>();
  stream stream(kernels::backend::cpu, 1, {});
  {
    worker x(settings, stream);
    x.seal(0, x.digests());
  }
  settings.chunks.front().range.end = 3;
  CHECK_THROWS_MATCHES(
      worker(settings, stream),
      broken_promise,
      MessageMatches(StartsWith(settings.precision == dtype::f32 ? "STORE-5" : "OPTIMIZER-2")));
}
