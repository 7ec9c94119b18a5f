// Records what each pass adds to gradients.

#include "runtime/parameters/watched_gradients.hpp"

#include "runtime/parameters/resident_store.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;

namespace {

struct watched_store {
  stream by{kernels::backend::cpu, 1, {}};
  resident_store store{{{"head",
                         {{.name = "gain", .extents = {3}, .initial = distribution::constant(1)},
                          {.name = "bias", .extents = {3}, .initial = distribution::constant(0)}}}},
                       2,
                       {}};
  witnessed_gradients witness{store, by};

  void pass(std::uint32_t microbatch, added_gradients* to, int replica = 0) {
    store.select_replica(replica);
    witness.begin(replica, microbatch, to);
    store.acquire(0);
    witness.gradient(0, 0)[0] += 1;
    witness.emit(0);
    store.release(0);
    witness.end();
  }
};

}  // namespace

TEST_CASE("a watched store has the values and the write mode of its store", "[parameters]") {
  watched_store x;
  CHECK(x.witness.value_array() == x.store.value_array());
  CHECK(x.witness.writes_first_gradient() == x.store.writes_first_gradient());
}

TEST_CASE("earlier contents of a gradient are recorded for the recomputation of a pass",
          "[parameters]") {
  watched_store x;
  x.store.gradients(0, 0)[0] = 5;
  x.witness.note_written(0, 0);
  added_gradients first, other_replica;
  x.pass(0, &first);
  CHECK(first.before == std::vector{gradient_before::given});
  REQUIRE(first.given.size() == 1);
  CHECK(first.given[0].data<float>()[0] == 5);
  x.pass(0, &other_replica, 1);
  CHECK(other_replica.before == std::vector{gradient_before::zero});
}

TEST_CASE("a new step drops the records of a pass that threw in the previous one", "[parameters]") {
  watched_store x;
  added_gradients left;
  x.store.select_replica(0);
  x.witness.begin(0, 0, &left);
  x.store.acquire(0);
  x.witness.gradient(0, 0)[0] += 1;
  x.store.release(0);
  x.store.zero_gradients();
  x.witness.begin_step();
  CHECK(left.after == digest());
  added_gradients next;
  x.pass(0, &next);
  CHECK(next.before == std::vector{gradient_before::zero});
  CHECK(next.after != digest());
}

TEST_CASE("gradients of sources are recorded, and computed again, one by one", "[parameters]") {
  stream by(kernels::backend::cpu, 1, {});
  const std::vector<unit_spec> units
      = {{"layer",
          {{.name = "gain", .extents = {3}},
           {.name = "experts",
            .extents = {4, 2, 2},
            .stacked = true,
            .placements = of_experts({{axis::expert, row_sharded()}})}}}};
  const auto made = [&] {
    return resident_store(units,
                          2,
                          {},
                          dtype::f32,
                          {{axis::expert, {0, 2}}},
                          {},
                          gradient_memory::lasting,
                          value_memory::lasting,
                          source_sums::by_source);
  };
  auto store = made(), other = made();
  witnessed_gradients witness(store, by);
  replayed_gradients again(other, by);
  store.zero_gradients();
  const auto pass = [](parameter_store& to, int first, float by_first) {
    to.acquire(0);
    to.gradient(0, 0)[1] += 1;
    to.gradient(0, 1, first)[2] += by_first;
    to.gradient(0, 1, 1 - first)[2] += 2;
    to.emit(0);
    to.release(0);
  };
  const auto recorded = [&](std::uint32_t microbatch, int first) {
    added_gradients out;
    store.select_replica(1);
    witness.begin(1, microbatch, &out);
    pass(witness, first, 3);
    witness.end();
    return out;
  };
  store.select_replica(1);
  witness.begin(1, 0, nullptr);
  pass(witness, 0, 3);
  witness.end();
  const auto given = recorded(1, 1), known = recorded(2, 0);
  CHECK(given.before
        == std::vector{gradient_before::given, gradient_before::given, gradient_before::given});
  REQUIRE(given.given.size() == 1);
  CHECK(given.given[0].size() == 3 + 2 * 8);
  CHECK(given.given[0].data<float>()[3 + 2] == 2);  // in the order of access
  CHECK(given.given[0].data<float>()[3 + 8 + 2] == 3);
  CHECK(known.before
        == std::vector{gradient_before::known, gradient_before::known, gradient_before::known});
  for (const float number : {3.0F, 4.0F}) {
    other.select_replica(0);
    again.begin(given);
    pass(again, 1, number);
    again.end_work();
    CHECK((again.end() == given.after) == (number == 3));
    again.begin(known);
    pass(again, 0, 3);
    again.end_work();
    CHECK((again.end() == known.after) == (number == 3));
  }
  for (auto* const of :
       {static_cast<parameter_store*>(&witness), static_cast<parameter_store*>(&again)}) {
    CHECK_BREAKS("STORE-11", of->gradient(0, 0, 1));
    CHECK_BREAKS("STORE-11", of->take_first_gradient(0, 1, 2));
  }
}
