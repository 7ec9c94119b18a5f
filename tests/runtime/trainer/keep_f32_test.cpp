// Parameters with keep_f32 have f32 values in bf16 and f16 models, in every layout.

#include "runtime/autograd/tape.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/kept_scales.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>
#include <cstring>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t units = 4;
constexpr dtype types[] = {dtype::bf16, dtype::f16, dtype::f32};
constexpr float fine = 1 + 0x1p-20F;  // 1 in bf16 and f16

unit_spec three_parameters() {
  return {"unit",
          {{.name = "weight", .extents = {3}},
           {.name = "kept", .extents = {5}, .keep_f32 = true},
           {.name = "bias", .extents = {2}}}};
}

void fill(parameter_store& store, float value) {
  for (const auto& e : store.entries())
    store.set(e, 0, std::vector<float>(std::size_t(e.valid), value));
}

/// Value 0 of an entry.
float first_value(const parameter_store& store, int entry) {
  return with_element(store.type_of(store.entries()[std::size_t(entry)]), [&]<class T>(T) {
    T out;
    std::memcpy(&out, store.values(entry), sizeof out);
    return float(out);
  });
}

worker_settings settings_of(dtype precision, bool distributed = false) {
  return {.model = kept_scales(),
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

}  // namespace

TEST_CASE("a narrow store has f32 values of parameters with keep_f32", "[parameters]") {
  const auto type = types[GENERATE(0, 1)];
  const bool drops = GENERATE(false, true);
  CAPTURE(int(type), drops);
  resident_store store({three_parameters()},
                       1,
                       {},
                       type,
                       {},
                       {},
                       drops ? gradient_memory::by_unit : gradient_memory::lasting,
                       drops ? value_memory::until_dropped : value_memory::lasting);
  CHECK(store.stretches_of_values().size() == 3);
  CHECK(store.stretches_of_gradients().size() == 1);
  if (!drops)
    CHECK(store.all_values().size() == 16 + 2 * 16 + 16);
  for (int round = 0; round < 2; ++round) {
    fill(store, fine);
    CHECK(first_value(store, 0) == 1);
    CHECK(first_value(store, 1) == fine);
    CHECK(first_value(store, 2) == 1);
    std::vector<float> kept(16);
    std::memcpy(kept.data(), store.values(1), 16 * sizeof(float));
    CHECK(kept
          == std::vector<float>{fine, fine, fine, fine, fine, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    store.drop_values(0);
    CHECK(store.has_values(1) == !drops);
  }
}

TEST_CASE("initial values of parameters with keep_f32 are not rounded", "[parameters]") {
  const chunk all(kept_scales(), {0, units});
  resident_store narrow(all.units(), 1, {}, dtype::bf16), wide(all.units(), 1, {});
  initialise(narrow, 7);
  initialise(wide, 7);
  int kept = 0;
  for (const auto& e : wide.entries())
    if (e.spec.keep_f32) {
      CHECK(std::memcmp(narrow.values(e.index), wide.values(e.index), std::size_t(e.valid) * 4)
            == 0);
      ++kept;
    }
  CHECK(kept == 2);
}

TEST_CASE("STORE-1: tied parameters have one type", "[parameters]") {
  const std::vector<unit_spec> all
      = {{"a", {{.name = "owner", .extents = {4}, .keep_f32 = true}}},
         {"b", {{.name = "copy", .extents = {4}, .tied_to = "owner"}}}};
  CHECK_BREAKS("STORE-1", resident_store(all, 1, {}));
}

TEST_CASE("STORE-10: a parameter is read in the type of its values", "[parameters]") {
  resident_store store({three_parameters()}, 1, {}, dtype::bf16);
  fill(store, fine);
  stream by(kernels::backend::cpu, 1, {});
  tape x(by, store, {});
  x.begin_segment(0);
  CHECK(x.value<float>(1)[0] == fine);
  CHECK(float(x.value<kernels::bf16>(2)[0]) == 1);
  CHECK_BREAKS("STORE-10", x.value<kernels::bf16>(1));
  CHECK_BREAKS("STORE-10", x.value<float>(0));
  x.end_segment();
}

TEST_CASE("after each update values with keep_f32 are the masters", "[trainer]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto type = types[GENERATE(0, 1)];
  CAPTURE(int(kind), int(type));
  resident_store store({three_parameters()}, 1, {}, type);
  fill(store, 1);
  optimizer_state state(store, {.kind = kind}, whole_ranges(store), {});
  for (const auto& e : store.entries())
    state.set_weights(e.index, 0, std::vector<float>(std::size_t(e.valid), 1.0F));
  stream by(kernels::backend::cpu, 1, {});
  for (std::uint64_t step = 1; step <= 2; ++step) {
    for (const auto& e : store.entries())
      std::fill_n(store.gradients(0, e.index), e.valid, 0.3F);
    state.update(by, {.step = step, .learning_rate = 1e-4});
    for (const auto& x : state.parts()) {
      const float master = state.weights(x)[0], value = first_value(store, x.range.entry);
      CHECK(master != 1);
      CHECK((value == master) == (x.range.entry == 1));
    }
  }
}

TEST_CASE("a forecast counts two elements for each f32 value of a bf16 store",
          "[trainer][memory]") {
  auto settings = settings_of(dtype::bf16);
  settings.chunks = {{chunk_id(0), {0, units}}};
  stream by(kernels::backend::cpu, 1, memory_pool::shadow());
  const worker some(settings, by);
  std::int64_t told = 0, expected = 0, kept = 0;
  for (const auto& x : some.value_arrays())
    told += x.elements;
  for (const auto& e : entries_of(chunk(settings.model, {0, units}).units(), {}))
    if (e.owner < 0) {
      expected += e.room * (e.spec.keep_f32 ? 2 : 1);
      kept += e.spec.keep_f32 ? e.room : 0;
    }
  CHECK(kept > 0);
  CHECK(told == expected);
}

TEST_CASE("keep_f32 gives the bits of one rank on several stages and data ranks", "[trainer]") {
  const auto precision = types[GENERATE(0, 1, 2)];
  CAPTURE(int(precision));
  for (const int data : {1, 2}) {
    const auto judge = steps({.data = data}, settings_of(precision));
    for (const bool distributed : {false, true}) {
      const auto settings = settings_of(precision, distributed);
      CAPTURE(data, distributed);
      CHECK(steps({.data = data}, settings) == judge);
      CHECK(steps({.pipeline = 2, .data = data}, settings, {{0, 2}, {2, units}}) == judge);
    }
  }
}

TEST_CASE("keep_f32 gives the same bits with a distributed optimizer on tensor ranks",
          "[trainer]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const bool sequence_parallel = GENERATE(false, true);
  CAPTURE(int(kind), sequence_parallel);
  auto settings = settings_of(dtype::bf16);
  settings.optimizer.kind = kind;
  settings.sequence_parallel = sequence_parallel;
  const auto judge = steps({.tensor = 2, .data = 2}, settings);
  settings.verifies = true;
  CHECK(steps({.tensor = 2, .data = 2}, settings) == judge);
  settings.distributed_optimizer = true;
  CHECK(steps({.tensor = 2, .pipeline = 2, .data = 2}, settings, {{0, 2}, {2, units}}) == judge);
}

TEST_CASE("data ranks with a distributed optimizer have equal f32 values", "[trainer]") {
  ranks all({.data = 2}, settings_of(dtype::bf16, true), kernels::backend::cpu, {{0, units}});
  const auto before = all.gathered();
  all.step(1, 2);
  CHECK(all.at({0, 0, 0}).vote_digests() == all.at({0, 0, 1}).vote_digests());
  for (const auto& [name, values] : all.gathered())
    if (name.ends_with("scale"))
      CHECK(values != before.at(name));
}

TEST_CASE("a saved state with keep_f32 continues on another grid", "[trainer]") {
  const bool distributed = GENERATE(false, true);
  auto settings = settings_of(dtype::bf16, distributed);
  ranks judge({.data = 2}, settings, kernels::backend::cpu, {{0, units}});
  judge.step(1, 2);
  auto saved = judge.gathered();
  saved.merge(judge.gathered(true));
  settings.seed = 5;  // other initial values
  ranks loaded({.pipeline = 2, .data = 2}, settings, kernels::backend::cpu, {{0, 2}, {2, units}});
  loaded.each([&](const rank_coordinates& s) {
    loaded.at(s).restore([&](const state_shard& x) { fill(x, saved.at(x.name)); }, true);
  });
  const auto next = loaded.step(2, 2), expected = judge.step(2, 2);
  CHECK(next.losses.front().total == expected.losses.front().total);
  CHECK(next.digests == expected.digests);
}
