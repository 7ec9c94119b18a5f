// An optimizer that is sharded over ranks: each rank owns ranges of every parameter.

#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::normal;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t grain = 16;

std::vector<unit_spec> units(bool tied) {
  parameter_spec words{.name = "words",
                       .extents = {29, 7},
                       .initial = distribution::normal(1),
                       .decays = true,
                       .valid_rows = 27,
                       .has_copies = tied};
  auto output = words;
  output.name = "output";
  output.has_copies = false;
  output.tied_to = tied ? "words" : "";
  return {{"embedding",
           {words, {.name = "positions", .extents = {13, 7}, .initial = distribution::normal(1)}}},
          {"layer",
           {{.name = "gain", .extents = {37}, .initial = distribution::constant(1)},
            {.name = "weight",
             .extents = {23, 31},
             .initial = distribution::normal(1),
             .decays = true}}},
          {"head", {output}}};
}

/// One rank: all values and gradients, and the optimizer state of its share.
struct rank_of_job {
  resident_store store;
  std::vector<entry_range> owned;
  optimizer_state optimizer;

  rank_of_job(bool tied, dtype type, int rank, int ranks, std::int64_t grain_of_sums = grain)
      : store(units(tied), 1, {}, type),
        owned(owned_ranges(store,
                           make_buckets(
                               store, 300, [=](axis_set) { return ranks; }, grain),
                           [=](axis_set) { return rank; })),
        optimizer(store, {.epsilon = 1e-6, .weight_decay = 0.3}, owned, {}, grain_of_sums) {
    for (int e = 0; e < int(store.entries().size()); ++e)
      if (store.entries()[std::size_t(e)].owner < 0) {
        const auto values = initial_values(store.entries()[std::size_t(e)], 5);
        store.set(store.entries()[std::size_t(e)], 0, values);
        optimizer.set_weights(e, 0, values);
      }
  }

  void step(std::uint64_t number) {
    std::uint32_t seed = std::uint32_t(100 * number);
    for (const auto& e : store.entries()) {
      const auto from = normal<float>(std::size_t(e.valid), ++seed);
      // A tied gradient is added to its owner's.
      const auto& to = e.owner < 0 ? e : store.entries()[std::size_t(e.owner)];
      float* const at = store.gradients(0).data() + store.gradient_offset(to);
      for (std::size_t i = 0; i < from.size(); ++i)
        at[i] = from[i] + (e.owner < 0 ? 0 : at[i]);
    }
  }
};

struct job {
  std::vector<std::unique_ptr<rank_of_job>> ranks;
  square_norms norms;

  job(bool tied, dtype type, int count, std::int64_t grain_of_sums = grain) {
    for (int r = 0; r < count; ++r)
      ranks.push_back(std::make_unique<rank_of_job>(tied, type, r, count, grain_of_sums));
  }

  void steps(stream& stream, std::uint64_t n) {
    for (std::uint64_t s = 1; s <= n; ++s) {
      norms.clear();
      for (auto& x : ranks) {
        x->step(s);
        add_to(norms, x->optimizer.norms(stream));
        x->optimizer.update(stream, {.step = s, .learning_rate = 0.1, .gradient_scale = 0.7});
      }
    }
  }

  std::map<std::string, digest> digests() const {
    stream stream(kernels::backend::cpu, 1, {});
    std::map<std::string, digest> out;
    for (const auto& x : ranks)
      for (const auto& [name, part] : x->optimizer.digests(stream).own)
        out[name] += part;
    return out;
  }

  /// Valid weights of every entry (or the elements of `array`), collected from all ranks.
  template <class Array>
  std::vector<std::vector<float>> gathered(const Array& array) {
    std::vector<std::vector<float>> out;
    for (const auto& e : ranks.front()->store.entries())
      out.emplace_back(std::size_t(e.valid), -1.0F);
    for (auto& x : ranks)
      for (const auto& part : x->optimizer.parts()) {
        const auto from = array(x->optimizer, part);
        std::copy(from.begin(),
                  from.end(),
                  out[std::size_t(part.range.entry)].begin() + part.range.begin);
      }
    return out;
  }
};

const auto weights
    = [](optimizer_state& x, const optimizer_state::part& of) { return x.weights(of); };
const auto first
    = [](optimizer_state& x, const optimizer_state::part& of) { return x.first_moment(of); };
const auto second
    = [](optimizer_state& x, const optimizer_state::part& of) { return x.second_moment(of); };

}  // namespace

TEST_CASE("an update in ranges has the bits of a whole one", "[optim]") {
  const int count = GENERATE(1, 2, 3);
  const bool tied = GENERATE(false, true);
  const auto type
      = std::array{dtype::f32, dtype::bf16, dtype::f16}.at(std::size_t(GENERATE(0, 1, 2)));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  CAPTURE(count, tied, to_string(type), int(where));
  stream stream(where, 1, {});
  job judge(tied, type, 1), seen(tied, type, count);
  judge.ranks[0]->owned = whole_ranges(judge.ranks[0]->store);
  CHECK(seen.digests() == judge.digests());
  judge.steps(stream, 3);
  seen.steps(stream, 3);
  CHECK(seen.norms == judge.norms);
  CHECK(seen.digests() == judge.digests());
  CHECK(seen.gathered(weights) == judge.gathered(weights));
  CHECK(seen.gathered(first) == judge.gathered(first));
  CHECK(seen.gathered(second) == judge.gathered(second));
  std::size_t parts = 0;
  for (const auto& x : seen.ranks)
    parts += x->optimizer.parts().size();
  if (count > 1)
    CHECK(parts > judge.ranks[0]->optimizer.parts().size());  // some parameters are split
}

TEST_CASE("the digest depends on the grain", "[optim]") {
  job judge(false, dtype::f32, 1), other(false, dtype::f32, 1, 2 * grain);
  CHECK(other.digests() != judge.digests());
}

TEMPLATE_TEST_CASE("narrow values are the rounded masters, and small updates accumulate",
                   "[optim]",
                   kernels::bf16,
                   kernels::f16) {
  stream stream(kernels::backend::cpu, 1, {});
  job x(false, dtype_of<TestType>(), 1);
  auto& optimizer = x.ranks[0]->optimizer;
  auto& store = x.ranks[0]->store;
  const auto check_rounded = [&] {
    for (const auto& part : optimizer.parts()) {
      const auto& e = store.entries()[std::size_t(part.range.entry)];
      const auto masters = optimizer.weights(part);
      const auto* const values
          = store.all_values().data<TestType>() + store.value_offset(e) + part.range.begin;
      for (std::size_t i = 0; i < masters.size(); ++i)
        REQUIRE(values[i] == TestType(masters[i]));
    }
  };
  check_rounded();
  const auto before = x.gathered(weights);
  job exact(false, dtype::f32, 1);
  CHECK(exact.gathered(weights) == before);  // a master is not rounded
  for (std::uint64_t s = 1; s <= 50; ++s) {
    for (auto* const of : {&x, &exact}) {
      std::fill(
          of->ranks[0]->store.gradients(0).begin(), of->ranks[0]->store.gradients(0).end(), 1.0F);
      // Near 1 a step is a thousandth of a unit in the last place of bf16, and a hundredth of
      // f16's.
      of->ranks[0]->optimizer.update(stream, {.step = s, .learning_rate = 1e-5});
    }
    check_rounded();
  }
  CHECK(x.gathered(weights) == exact.gathered(weights));
  CHECK(x.gathered(weights) != before);
}

TEST_CASE("set_weights fills the owned part of a range", "[optim]") {
  job x(false, dtype::bf16, 3);
  std::vector<float> from(50);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = float(100 + i);
  const auto before = x.gathered(weights);
  for (auto& rank : x.ranks)
    rank->optimizer.set_weights(3, 20, from);  // "weight"
  auto expected = before;
  std::copy(from.begin(), from.end(), expected[3].begin() + 20);
  CHECK(x.gathered(weights) == expected);
}

TEST_CASE("a parameter that another rank reports is a copy, and in no norm", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  const std::vector<unit_spec> one
      = {{"layer",
          {{.name = "gain", .extents = {8}, .initial = distribution::constant(1)},
           {.name = "cut",
            .extents = {8, 4},
            .initial = distribution::normal(1),
            .placements = {{axis::tensor, row_sharded()}}}}}};
  std::vector<chunk_digests> digests;
  for (int r = 0; r < 2; ++r) {
    resident_store store(one, 1, {}, dtype::f32, {{axis::tensor, {r, 2}}});
    initialise(store, 1);
    const optimizer_state optimizer(store, {}, whole_ranges(store), {});
    std::fill(store.gradients(0).begin(), store.gradients(0).end(), 1.0F);
    const auto norms = optimizer.norms(stream);
    CHECK(norms.contains("gain") == (r == 0));
    CHECK(norms.at("cut").value() == 16);
    digests.push_back(optimizer.digests(stream));
  }
  CHECK(digests[0].copies.empty());
  CHECK(digests[1].copies.size() == 1);
  CHECK(digests[1].copies.at("gain") == digests[0].own.at("gain"));
  CHECK(digests[1].own.size() == 1);
  // Two parts of one parameter: equal elements at other places are another state.
  CHECK(digests[0].own.at("cut") != digests[1].own.at("cut"));
}
