// Digests of a state's arrays outside its estate.

#include "runtime/state/state_check.hpp"

#include "runtime/trainer/worker.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <set>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

const char* const untied = "rope, rms norm, swiglu, no biases, untied, 2 groups";
const char* const tied = "learned, layer norm, gelu tanh, biases, tied, dropout";
constexpr dtype types[] = {dtype::f32, dtype::bf16};

/// Padding rows in the vocabulary; small buckets and grains.
worker_settings settings_of(const char* name, int tensor = 1) {
  auto model = tiny_gpts(2).at(name);
  model.padded_vocabulary = 32;
  model.groups = std::max<std::int64_t>(model.groups, tensor);
  return {.model = gpt_spec(model), .bucket_size = 700, .grain = 32};
}

/// "exp_avg.w" belongs to "w".
std::string parameter_of(const std::string& shard, bool moment) {
  return moment ? shard.substr(shard.find('.') + 1) : shard;
}

}  // namespace

TEST_CASE("STATE-1: digests of a state's arrays equal those that its rank took", "[trainer]") {
  const auto* const name = GENERATE(untied, tied);
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  auto settings = settings_of(name);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.optimizer.kind = kind;
  settings.chunks = {{chunk_id(0), {0, 2}}, {chunk_id(1), {2, 4}}};
  settings.estate = std::make_shared<rank_estate>();
  stream stream(kernels::backend::cpu, 1, {});
  worker x(settings, stream);
  x.seal(8, x.digests());
  const auto state = settings.estate->state(8);
  CHECK(digests_of(state) == x.digests());
  CHECK(damaged_parameter(state).empty());
  const auto again = rank_estate::made_of(state, 8, "", stream);
  CHECK(digests_of(again->state(8)) == x.digests());
  const bool moments = GENERATE(false, true);
  for (const auto& shard : moments ? x.moments() : x.parameters()) {
    auto& word = reinterpret_cast<std::uint32_t&>(shard.elements.front());
    word ^= 1;
    CHECK(damaged_parameter(state) == parameter_of(shard.name, moments));
    word ^= 1;
  }
  CHECK(damaged_parameter(state).empty());
}

TEST_CASE("STATE-1: shards of states say which part they are", "[trainer]") {
  auto settings = settings_of(tied, 2);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.distributed_optimizer = GENERATE(false, true);
  const grid g{2, 2, 2};
  estates_of_ranks estates;
  for (int p = 0; p < g.pipeline; ++p)
    for (int d = 0; d < g.data; ++d)
      for (int t = 0; t < g.tensor; ++t)
        estates[{t, p, d}] = std::make_shared<rank_estate>();
  ranks seen(g, settings, kernels::backend::cpu, {}, estates);
  seen.shake();
  seen.begin(0);
  seen.step(1, 2);
  for (const auto& [at, estate] : estates) {
    const auto state = estate->state(1);
    CHECK(digests_of(state) == estate->digests(1));
    CHECK(damaged_parameter(state).empty());
  }
}

namespace {

/// The parameters with different digests.
std::set<std::string> differing(const state_digests& a, const state_digests& b) {
  std::set<std::string> out;
  for (const auto& [name, x] : a.own)
    if (b.own.at(name) != x)
      out.insert(name);
  return out;
}

}  // namespace

TEST_CASE("a planted bit changes one parameter; another key changes another", "[trainer]") {
  auto settings = settings_of(tied);
  settings.precision = types[std::size_t(GENERATE(0, 1))];
  settings.chunks = {{chunk_id(0), {0, 4}}};
  stream stream(kernels::backend::cpu, 1, {});
  worker x(settings, stream);
  const auto which = state_array(GENERATE(0, 1, 2));
  const auto before = x.digests();
  std::set<std::string> hit;
  for (std::uint64_t key = 0; key < 20; ++key) {
    x.flip_state_bit(which, key);
    const auto found = differing(before, x.digests());
    CHECK(found.size() == 1);
    hit.insert(found.begin(), found.end());
    x.flip_state_bit(which, key);
    CHECK(x.digests() == before);
  }
  CHECK(hit.size() > 3);
}

TEST_CASE("a fault in an array that the optimizer does not have changes nothing", "[trainer]") {
  auto settings = settings_of(untied);
  settings.optimizer.kind = optimizer_kind::sgd;
  settings.chunks = {{chunk_id(0), {0, 4}}};
  stream stream(kernels::backend::cpu, 1, {});
  worker x(settings, stream);
  CHECK_NOTHROW(x.flip_state_bit(state_array::first_moment, 1));
  CHECK_THROWS_AS(x.flip_state_bit(state_array::second_moment, 1), input_error);
}

TEST_CASE("a planted bit in a state outside its estate is found in exactly that place",
          "[trainer]") {
  auto settings = settings_of(tied);
  settings.chunks = {{chunk_id(0), {0, 4}}};
  settings.estate = std::make_shared<rank_estate>();
  stream stream(kernels::backend::cpu, 1, {});
  worker x(settings, stream);
  x.seal(8, x.digests());
  std::set<std::string> hit;
  for (std::uint64_t key = 0; key < 20; ++key) {
    auto state = settings.estate->state(8);
    flip_bit(state, key);
    hit.insert(damaged_parameter(state));
  }
  CHECK_FALSE(hit.contains(""));
  CHECK(hit.size() > 3);
  CHECK(damaged_parameter(settings.estate->state(8)).empty());
  CHECK(x.digests() == settings.estate->digests(8));
}
