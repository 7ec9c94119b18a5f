// Frozen parameters keep their values and need memory for nothing else, wherever their units are.

#include "runtime/autograd/tape.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/frozen_streams.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t units = 7;
constexpr dtype types[] = {dtype::f32, dtype::bf16};

worker_settings settings_of(const frozen_units& which, dtype precision, bool distributed = false) {
  return {.model = frozen_streams(which),
          .precision = precision,
          .distributed_optimizer = distributed,
          .bucket_size = 100,
          .grain = 16};
}

using digests_of_steps = std::vector<std::map<std::string, digest>>;

digests_of_steps steps(const grid& g,
                       const worker_settings& settings,
                       std::vector<chunk_range> stages = {{0, units}}) {
  ranks all(g, settings, kernels::backend::cpu, std::move(stages));
  digests_of_steps out;
  for (std::uint64_t s = 1; s <= 3; ++s)
    out.push_back(all.step(s, 2).digests);
  return out;
}

const std::vector<chunk_range> one_stage = {{0, units}};

template <class Arrays>
std::int64_t elements_of(const Arrays& all) {
  std::int64_t out = 0;
  for (const auto& x : all)
    out += x.elements;
  return out;
}

}  // namespace

TEST_CASE("frozen parameters keep their values, and all others train as before", "[trainer]") {
  const auto which = GENERATE(frozen_tower, frozen_ties);
  const auto precision = types[GENERATE(0, 1)];
  CAPTURE(which, int(precision));
  const auto settings = settings_of(which, precision);
  const auto frozen = frozen_names(settings.model);
  ranks some({}, settings, kernels::backend::cpu, one_stage);
  ranks none({}, settings_of({}, precision), kernels::backend::cpu, one_stage);
  const auto before = some.gathered();
  // The first step begins with the same values.
  const auto found = some.step(1, 2), expected = none.step(1, 2);
  CHECK(found.losses.front().total == expected.losses.front().total);
  auto norms = expected.norms;
  for (const auto& name : frozen)
    CHECK(norms.erase(name) <= 1);  // 0 for a tied copy
  CHECK(found.norms == norms);
  CHECK(found.digests.size() == expected.digests.size());
  some.step(2, 2);
  for (const auto& [name, values] : some.gathered()) {
    CAPTURE(name);
    CHECK((values == before.at(name)) == frozen.contains(name));
  }
  for (const auto& [name, values] : some.gathered(true))
    CHECK(!frozen.contains(name.substr(name.find('.') + 1)));
}

TEST_CASE("frozen parameters have neither gradients nor optimizer state", "[trainer][memory]") {
  const auto which = GENERATE(frozen_tower, frozen_ties);
  const auto precision = types[GENERATE(0, 1)];
  CAPTURE(which, int(precision));
  // Elements of frozen parameters: of their values, their state, and the gradients that they lack.
  std::int64_t own = 0, state = 0, gradients = 0;
  const chunk part(frozen_streams(which), {0, units}), before(frozen_streams({}), {0, units});
  for (const auto& e : entries_of(part.units(), {}))
    if (e.spec.frozen) {
      own += e.owner < 0 ? e.room : 0;
      state += e.owner < 0 ? (e.valid + 15) / 16 * 16 : 0;
      gradients += e.room;
    }
  REQUIRE(own > 0);

  const auto arrays = [&](const chunk& of) {
    resident_store store(of.units(), 1, {}, precision);
    return optimizer_state(store, {}, whole_ranges(store), {}).arrays();
  };
  const auto with = arrays(before), without = arrays(part);
  CHECK(with.kept.size() - without.kept.size() == 2 * state);
  CHECK(with.weights.size() - without.weights.size() == (precision == dtype::f32 ? 0 : state));

  // What the forecast counts. Values of trained parameters pass if they are rounded.
  const auto made = [&](const frozen_units& x) {
    auto settings = settings_of(x, precision);
    settings.chunks = {{chunk_id(0), {0, units}}};
    return settings;
  };
  stream by(kernels::backend::cpu, 1, memory_pool::shadow());
  const worker some(made(which), by), none(made({}), by);
  CHECK(elements_of(some.value_arrays()) == elements_of(none.value_arrays()));
  CHECK(elements_of(none.gradient_arrays()) - elements_of(some.gradient_arrays()) == gradients);
  std::int64_t lasting = 0;
  for (const auto& x : some.value_arrays())
    lasting += x.stays ? x.elements : 0;
  CHECK(lasting == (precision == dtype::f32 ? elements_of(some.value_arrays()) : own));
}

TEST_CASE("frozen parameters have the bits of one rank on several stages and data ranks",
          "[trainer]") {
  const auto which = GENERATE(frozen_tower, frozen_ties);
  const auto precision = types[GENERATE(0, 1)];
  CAPTURE(which, int(precision));
  for (const int data : {1, 2}) {
    const auto judge = steps({.data = data}, settings_of(which, precision));
    for (const bool distributed : {false, true}) {
      const auto settings = settings_of(which, precision, distributed);
      CAPTURE(data, distributed);
      CHECK(steps({.data = data}, settings) == judge);
      CHECK(steps({.pipeline = 2, .data = data}, settings, {{0, 3}, {3, units}}) == judge);
      // The second stage has only the summary, which is frozen in the tower.
      CHECK(steps({.pipeline = 3, .data = data}, settings, {{0, 1}, {1, 2}, {2, units}}) == judge);
    }
  }
}

TEST_CASE("each rule of the optimizer leaves frozen parameters out, also on tensor ranks",
          "[trainer]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto precision = types[GENERATE(0, 1)];
  const auto mode = muon_tensor_mode(GENERATE(0, 1, 2));
  CAPTURE(int(kind), int(precision), int(mode));
  if (mode != muon_tensor_mode::blockwise && kind != optimizer_kind::muon)
    return;
  auto settings = settings_of(frozen_tower, precision);
  settings.optimizer.kind = kind;
  settings.optimizer.muon.tensor_mode = mode;
  const auto judge = steps({.tensor = 2, .data = 2}, settings);
  settings.verifies = true;  // passes add to recorded gradients
  CHECK(steps({.tensor = 2, .data = 2}, settings) == judge);
  settings.distributed_optimizer = true;
  const std::vector<chunk_range> stages = {{0, 1}, {1, 2}, {2, units}};
  CHECK(steps({.tensor = 2, .pipeline = 3, .data = 2}, settings, stages) == judge);
}

TEST_CASE("a saved state with frozen parameters continues on another grid", "[trainer]") {
  const auto precision = types[GENERATE(0, 1)];
  const bool distributed = GENERATE(false, true);
  CAPTURE(int(precision), distributed);
  auto settings = settings_of(frozen_tower, precision, distributed);
  ranks judge({.data = 2}, settings, kernels::backend::cpu, one_stage);
  judge.step(1, 2);
  auto saved = judge.gathered();
  saved.merge(judge.gathered(true));
  settings.seed = 5;  // other initial values
  ranks loaded({.pipeline = 2, .data = 2}, settings, kernels::backend::cpu, {{0, 3}, {3, units}});
  loaded.each([&](const rank_coordinates& s) {
    loaded.at(s).restore([&](const state_shard& x) { fill(x, saved.at(x.name)); }, true);
  });
  CHECK(loaded.gathered() == judge.gathered());
  CHECK(loaded.gathered(true) == judge.gathered(true));
  const auto next = loaded.step(2, 2), expected = judge.step(2, 2);
  CHECK(next.losses.front().total == expected.losses.front().total);
  CHECK(next.digests == expected.digests);
}

TEST_CASE("MODEL-5: units with tied parameters are frozen together", "[trainer]") {
  CHECK_BREAKS("MODEL-5", chunk(frozen_streams({0}), {0, 1}));
}

TEST_CASE("STORE-9: a frozen parameter has no gradient", "[trainer]") {
  resident_store store({{"unit", {{.name = "gain", .extents = {4}, .frozen = true}}}}, 1, {});
  CHECK_BREAKS("STORE-9", store.gradients(0, 0));
  CHECK(store.gradient_size() == 0);
}

TEST_CASE("TAPE-5: the parameters of an operation are frozen together", "[trainer]") {
  resident_store store(
      {{"unit",
        {{.name = "weight", .extents = {4, 4}, .frozen = true}, {.name = "bias", .extents = {4}}}}},
      1,
      {});
  stream by(kernels::backend::cpu, 1, {});
  tape x(by, store, {});
  x.begin_segment(0);
  CHECK(!x.trains({0, no_parameter}));
  CHECK(x.trains({1}));
  CHECK_BREAKS("TAPE-5", x.trains({0, 1}));
  x.end_segment();
}
