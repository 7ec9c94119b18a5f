// Parameters that statistics of a step update, beside a matrix that an optimizer updates.

#include "runtime/core/error.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
using troupe::tests::normal;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t grain = 4;  // less than a parameter of statistics has
constexpr std::int64_t passes = 4;
constexpr int weight = 0, bias = 1, cutoffs = 2;  // entries

parameter_spec of_statistics(const char* name, statistic::kind kind, double rate) {
  return {.name = name,
          .extents = {6},
          .initial = distribution::constant(1),
          .keep_f32 = true,
          .counted = {kind, rate}};
}

std::vector<unit_spec> units() {
  return {{"router",
           {{.name = "weight", .extents = {6, 7}, .initial = distribution::normal(1)},
            of_statistics("bias", statistic::kind::expert_bias, 0.5),
            of_statistics("cutoffs", statistic::kind::quantile, 0.25)}}};
}

/// Sums over the passes of a step.
const std::vector<float> counts{5, 4, 3, 4, 0, 8}, quantiles{4, 0, -4, 8, 12, 1};

struct trained {
  resident_store store;
  optimizer_state optimizer;

  trained(const optimizer_settings& settings, dtype type, int share = 0, int shares = 1)
      : store(units(), 1, {}, type), optimizer(store, settings, owned(share, shares), {}, grain) {
    for (const auto& e : store.entries()) {
      const auto values = initial_values(e, 5);
      store.set(e, 0, values);
      optimizer.set_weights(e.index, 0, values);
    }
    fill(weight, normal<float>(6 * 7, 3));
    fill(bias, counts);
    fill(cutoffs, quantiles);
  }

  float* gradient(int entry) { return static_cast<parameter_store&>(store).gradients(0, entry); }
  void fill(int entry, const std::vector<float>& from) {
    std::copy(from.begin(), from.end(), gradient(entry));
  }
  /// Values as layers read them.
  std::vector<float> values(int entry) const {
    const auto* const at = reinterpret_cast<const float*>(std::as_const(store).values(entry));
    return {at, at + 6};
  }

 private:
  std::vector<entry_range> owned(int share, int shares) const {
    const auto buckets = make_buckets(
        store, 1, [=](axis_set) { return shares; }, grain);
    return owned_ranges(store, buckets, [=](axis_set) { return share; });
  }
};

const std::vector<float> moved{0.5F, 1, 1.5F, 1, 1.5F, 0.5F};
const std::vector<float> averaged{1, 0.75F, 0.5F, 1.25F, 1.5F, 0.8125F};

}  // namespace

TEST_CASE("statistics update their parameters, whatever the optimizer is", "[optim]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto type = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  const bool beside = GENERATE(false, true);
  CAPTURE(int(kind), to_string(type), beside);
  stream stream(GENERATE(kernels::backend::reference, kernels::backend::cpu), 1, {});
  const optimizer_settings settings{.weight_decay = 0.3, .kind = kind};
  trained x(settings, type);
  // Neither the rate nor clipping changes them.
  const update_decision decision{.step = 1, .learning_rate = 0.1, .gradient_scale = 0.7};
  if (beside) {
    memory_pool pool;
    x.optimizer.update_beside(stream, decision, x.optimizer.empty_arrays(pool), passes);
  } else {
    x.optimizer.update(stream, decision, passes);
  }
  CHECK(x.values(bias) == moved);
  CHECK(x.values(cutoffs) == averaged);
  for (const auto& part : x.optimizer.parts())
    CHECK(part.at.empty() == (part.range.entry != weight));
  const auto taken = x.optimizer.digests(stream);
  for (const auto& part : x.optimizer.parts())
    x.optimizer.weights(part);  // mutable access drops the digest
  CHECK(x.optimizer.digests(stream) == taken);
  x.optimizer.weights(x.optimizer.parts().back())[0] += 1;
  CHECK(x.optimizer.digests(stream).own.at("cutoffs") != taken.own.at("cutoffs"));
}

TEST_CASE("norms and zero counts leave statistics out", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  trained x({}, dtype::f32);
  CHECK(x.optimizer.norms(stream).size() == 1);
  CHECK(x.optimizer.norms(stream).contains("weight"));
  x.gradient(weight)[3] = 0;
  by_view<std::int64_t> zeros;
  by_view<exact_sum> before, after;
  reads by(stream);
  x.optimizer.zero_gradients(by, zeros);
  x.optimizer.square_norm_of_weights(by, before);
  by.finish();
  CHECK(zeros.dense == 1);
  x.optimizer.weights(x.optimizer.parts().back())[0] += 1;
  reads again(stream);
  x.optimizer.square_norm_of_weights(again, after);
  again.finish();
  CHECK(after.dense == before.dense);
}

TEST_CASE("statistics have the same bits with a distributed optimizer", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  trained judge({}, dtype::f32);
  judge.optimizer.update(stream, {.step = 1, .learning_rate = 0.1}, passes);
  std::map<std::string, digest> found;
  for (int share = 0; share < 3; ++share) {
    trained x({}, dtype::f32, share, 3);
    x.optimizer.update(stream, {.step = 1, .learning_rate = 0.1}, passes);
    for (const auto& [name, part] : x.optimizer.digests(stream).own)
      found[name] += part;
  }
  CHECK(found == judge.optimizer.digests(stream).own);
}

TEST_CASE("a frozen parameter of statistics keeps its values", "[optim]") {
  auto frozen = of_statistics("bias", statistic::kind::expert_bias, 0.5);
  frozen.frozen = true;
  resident_store store({{"router", {frozen}}}, 1, {});
  initialise(store, 5);
  optimizer_state optimizer(store, {}, whole_ranges(store), {});
  stream stream(kernels::backend::cpu, 1, {});
  const auto before = optimizer.digests(stream);
  optimizer.update(stream, {.step = 1, .learning_rate = 0.1});
  CHECK(optimizer.digests(stream) == before);
}

TEST_CASE("STATISTIC-1: statistics update a vector in f32, and one rank all of it",
          "[optim][invariant]") {
  const auto refused = [](parameter_spec x, std::int64_t of_range) {
    resident_store store({{"router", {std::move(x)}}}, 1, {}, dtype::bf16);
    CHECK_THROWS_MATCHES(optimizer_state(store, {}, {{0, 0, of_range}}, {}, 2),
                         broken_promise,
                         MessageMatches(StartsWith("STATISTIC-1")));
  };
  const auto good = of_statistics("bias", statistic::kind::expert_bias, 0.5);
  refused(good, 4);
  auto narrow = good;
  narrow.keep_f32 = false;
  refused(narrow, 6);
  auto matrix = good;
  matrix.extents = {2, 3};
  refused(matrix, 6);
}
