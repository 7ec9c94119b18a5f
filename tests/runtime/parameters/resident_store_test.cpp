#include "runtime/parameters/resident_store.hpp"

#include "runtime/core/error.hpp"
#include "runtime/parameters/initial_values.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

parameter_spec table(const std::string& name, const std::string& tied_to = {}) {
  return {.name = name,
          .extents = {7, 3},
          .initial = distribution::normal(0.5),
          .decays = true,
          .valid_rows = 5,
          .tied_to = tied_to};
}

unit_spec embedding() {
  return {"embedding", {table("words")}};
}
unit_spec head(const std::string& tied_to) {
  return {"head",
          {{.name = "gain", .extents = {3}, .initial = distribution::constant(1)},
           table("out", tied_to)}};
}

}  // namespace

TEST_CASE("arrays start at multiples of 16 elements, with zeros", "[parameters]") {
  resident_store x({embedding(), head("")}, 2, {});
  CHECK(x.entries().size() == 3);
  for (const auto& e : x.entries()) {
    CHECK(x.value_offset(e) % 16 == 0);
    CHECK(x.gradient_offset(e) % 16 == 0);
  }
  CHECK(x.values().size() == 32 + 16 + 32);
  CHECK(std::all_of(x.values().begin(), x.values().end(), [](float v) { return v == 0; }));
  for (const int r : {0, 1})
    CHECK(
        std::all_of(x.gradients(r).begin(), x.gradients(r).end(), [](float g) { return g == 0; }));
}

TEST_CASE("a parameter tied within the store has its owner's value and its own gradient",
          "[parameters]") {
  resident_store x({embedding(), head("words")}, 1, {});
  CHECK(x.values().size() == 32 + 16);
  CHECK(x.gradients(0).size() == 32 + 16 + 32);
  x.acquire(0);
  x.acquire(1);
  CHECK(x.value(0, 0) == x.value(1, 1));
  CHECK(x.gradient(0, 0) != x.gradient(1, 1));
}

TEST_CASE("STORE-1: tied parameters have one shape", "[parameters]") {
  auto other = head("words");
  other.parameters[1].extents = {7, 4};
  CHECK_THROWS_MATCHES(resident_store({embedding(), other}, 1, {}),
                       broken_promise,
                       MessageMatches(StartsWith("STORE-1")));
}

TEST_CASE("STORE-2: a released unit was acquired", "[parameters]") {
  resident_store x({embedding()}, 1, {});
  CHECK_THROWS_MATCHES(x.release(0), broken_promise, MessageMatches(StartsWith("STORE-2")));
}

TEST_CASE("STORE-3, STORE-4: values and gradients are used only while their unit is acquired",
          "[parameters]") {
  resident_store x({embedding(), head("")}, 1, {});
  const auto reached = [&](int unit) {
    CHECK(x.value(unit, 0) != nullptr);
    CHECK(x.gradient(unit, 0) != nullptr);
  };
  const auto refused = [&](int unit) {
    CHECK_THROWS_MATCHES(x.value(unit, 0), broken_promise, MessageMatches(StartsWith("STORE-3")));
    CHECK_THROWS_MATCHES(
        x.gradient(unit, 0), broken_promise, MessageMatches(StartsWith("STORE-4")));
  };
  refused(0);
  x.acquire(0);
  x.acquire(0);  // acquiring nests
  reached(0);
  refused(1);
  x.release(0);
  reached(0);
  x.release(0);
  refused(0);
}

TEST_CASE("an extra release fails and does not change the count", "[parameters]") {
  resident_store x({embedding()}, 1, {});
  CHECK_THROWS_AS(x.release(0), broken_promise);
  x.acquire(0);
  CHECK_NOTHROW(x.value(0, 0));
}

TEST_CASE("the first gradient of a step can be written directly; unwritten ones are zero",
          "[parameters]") {
  resident_store x({embedding(), head("")}, 2, {});
  for (const int unit : {0, 1})
    x.acquire(unit);
  const auto fill_all = [&] {
    for (const int r : {0, 1})
      std::fill(x.gradients(r).begin(), x.gradients(r).end(), 7.0F);
  };
  CHECK_FALSE(x.take_first_gradient(0, 0));  // zero already
  fill_all();
  x.zero_gradients();
  x.select_replica(1);
  CHECK(x.take_first_gradient(0, 0));
  CHECK_FALSE(x.take_first_gradient(0, 0));
  float* const written = x.gradient(0, 0);
  CHECK(written[3] == 7);  // unchanged: the caller overwrites all of it
  std::fill_n(written, x.entries()[0].size(), 5.0F);
  CHECK(x.gradient(1, 0)[2] == 0);  // zeroed for accumulation
  CHECK_FALSE(x.take_first_gradient(1, 0));
  x.gradient(1, 0)[2] += 3;
  x.emit(1);
  CHECK_FALSE(x.take_first_gradient(1, 1));  // was not written: zero from here on
  CHECK(std::as_const(x).gradients(1, 2)[0] == 0);
  CHECK(x.gradients(1, 1)[2] == 3);
  CHECK(x.gradients(1, 0)[3] == 5);
  x.select_replica(0);
  CHECK(x.take_first_gradient(1, 1));  // each replica has its own
  for (int e = 0; e < 2; ++e)
    CHECK(x.gradients(0, e)[1] == 0);
}

TEST_CASE("gradients by unit have memory from the first use until they are dropped",
          "[parameters]") {
  memory_pool pool;
  resident_store x({embedding(), head("")}, 1, pool, dtype::f32, {}, {}, gradient_memory::by_unit);
  CHECK_FALSE(x.keeps_gradients());
  const auto at_rest = pool.bytes_in_use();
  {
    const auto one = pool.allocate(256), two = pool.allocate(256);
    std::memset(one.get(), 0x5A, 256);
    std::memset(two.get(), 0x5A, 256);
  }
  CHECK(x.stretches_of_gradients().size() == 2);
  for (const int step : {1, 2}) {
    CAPTURE(step);
    x.zero_gradients();
    CHECK(pool.bytes_in_use() == at_rest);
    x.acquire(1);
    CHECK(x.take_first_gradient(1, 1));
    float* const written = x.gradient(1, 1);  // the caller also writes the padding rows
    std::fill_n(written, x.entries()[2].size(), 5.0F);
    const auto of_head = pool.bytes_in_use() - at_rest;
    CHECK(of_head == 256);  // 16 + 32 floats
    CHECK(written == x.gradients(0, 1) + x.entries()[1].room);
    CHECK(x.gradients(0, 1)[2] == 0);                           // not written
    CHECK(std::count(written + 21, written + 32, 0.0F) == 11);  // between arrays
    x.emit(1);
    CHECK(x.gradients(0, 2)[20] == 5);
    x.release(1);
    x.acquire(0);
    x.gradient(0, 0)[1] += 2;
    CHECK(x.gradients(0, 0)[0] == 0);
    CHECK(x.gradients(0, 0)[1] == 2);
    x.release(0);
    CHECK(pool.bytes_in_use() == at_rest + 256 + 256);
    x.drop_gradients();
    CHECK(pool.bytes_in_use() == at_rest);
  }
  CHECK(x.gradients(0, 0)[1] == 0);  // dropped gradients are zero
  CHECK(x.emitted(1) == 1);
}

TEST_CASE("lasting gradients keep their memory", "[parameters]") {
  memory_pool pool;
  resident_store x({embedding(), head("")}, 2, pool);
  CHECK(x.keeps_gradients());
  const auto at_rest = pool.bytes_in_use();
  const float* const at = x.gradients(1, 2);
  x.drop_gradients();
  x.zero_gradients();
  CHECK(x.gradients(1, 2) == at);
  CHECK(pool.bytes_in_use() == at_rest);
  CHECK(x.stretches_of_gradients().size() == 1);
}

TEST_CASE("STORE-6: only lasting gradients are in one array", "[parameters]") {
  resident_store x({embedding()}, 1, {}, dtype::f32, {}, {}, gradient_memory::by_unit);
  CHECK_THROWS_MATCHES(x.gradients(0), broken_promise, MessageMatches(StartsWith("STORE-6")));
}

namespace {

resident_store droppable(memory_pool pool) {
  return {{embedding(), head("words")},
          1,
          std::move(pool),
          dtype::bf16,
          {},
          {},
          gradient_memory::by_unit,
          value_memory::until_dropped};
}

}  // namespace

TEST_CASE("dropped values get memory again when they are written", "[parameters]") {
  memory_pool pool;
  auto x = droppable(pool);
  CHECK(x.value_array() == nullptr);
  CHECK(x.stretches_of_values().size() == 2);
  const auto at_rest = pool.bytes_in_use();
  const std::vector<float> words(15, 2.0F), gains(3, 3.0F);
  x.set(x.entries()[0], 0, words);
  x.set(x.entries()[1], 0, gains);
  x.drop_values(0);  // no unit is acquired
  CHECK_FALSE(x.has_values(0));
  CHECK(x.has_values(1));
  CHECK_FALSE(x.has_values(2));  // it is tied to the first
  const auto without = pool.bytes_in_use();
  CHECK(without < at_rest);
  {
    const auto others = pool.allocate(64);
    std::memset(others.get(), 0x5A, 64);
  }
  x.set(x.entries()[0], 0, words);
  CHECK(pool.bytes_in_use() == at_rest);
  x.acquire(0);
  x.acquire(1);
  CHECK(x.value(1, 1) == x.value(0, 0));
  const auto* const all = static_cast<const kernels::bf16*>(x.value(0, 0));
  CHECK(std::count(all, all + 15, kernels::bf16(2.0F)) == 15);
  // Padding, and the rest of the array.
  CHECK(std::count(all + 15, all + 32, kernels::bf16(0.0F)) == 17);
  CHECK(float(*static_cast<const kernels::bf16*>(x.value(1, 0))) == 3);
}

TEST_CASE("values are dropped when their unit is released", "[parameters]") {
  memory_pool pool;
  auto x = droppable(pool);
  const auto at_rest = pool.bytes_in_use();
  x.acquire(1);
  x.acquire(1);
  x.drop_values(1);
  x.release(1);
  CHECK(x.value(1, 0) != nullptr);
  CHECK(pool.bytes_in_use() == at_rest);
  x.release(1);
  CHECK_FALSE(x.has_values(1));
  CHECK(x.has_values(2));  // the owner has them
  CHECK(pool.bytes_in_use() < at_rest);
  x.values(1);
  x.acquire(1);
  x.release(1);  // dropped once
  CHECK(x.has_values(1));
}

TEST_CASE("STORE-7: dropped values are written before they are read", "[parameters]") {
  auto x = droppable({});
  x.drop_values(0);
  x.acquire(1);
  x.value(1, 0);
  CHECK_THROWS_MATCHES(x.value(1, 1), broken_promise, MessageMatches(StartsWith("STORE-7")));
}

TEST_CASE("STORE-8: values can be dropped where gradients can", "[parameters]") {
  CHECK_THROWS_MATCHES(resident_store({embedding()},
                                      1,
                                      {},
                                      dtype::bf16,
                                      {},
                                      {},
                                      gradient_memory::lasting,
                                      value_memory::until_dropped),
                       broken_promise,
                       MessageMatches(StartsWith("STORE-8")));
}

TEST_CASE("the gradients of one unit can be dropped", "[parameters]") {
  memory_pool pool;
  resident_store x({embedding(), head("")}, 1, pool, dtype::f32, {}, {}, gradient_memory::by_unit);
  const auto at_rest = pool.bytes_in_use();
  x.gradients(0, 0)[1] = 2;
  const auto of_embedding = pool.bytes_in_use();
  x.gradients(0, 2)[1] = 3;
  x.drop_gradients_of(1);
  CHECK(pool.bytes_in_use() == of_embedding);
  CHECK(x.gradients(0, 0)[1] == 2);
  CHECK(x.gradients(0, 2)[1] == 0);
  x.drop_gradients_of(0);
  x.drop_gradients_of(1);
  CHECK(pool.bytes_in_use() == at_rest);
}

TEST_CASE("logical replicas have separate gradients; zeroing clears all", "[parameters]") {
  resident_store x({embedding()}, 3, {});
  CHECK(x.replicas() == 3);
  x.acquire(0);
  for (int r = 0; r < 3; ++r) {
    x.select_replica(r);
    x.gradient(0, 0)[4] += float(r + 1);
    x.emit(0);
  }
  for (int r = 0; r < 3; ++r)
    CHECK(x.gradients(r)[4] == float(r + 1));
  CHECK(x.emitted(0) == 3);
  x.select_replica(1);
  x.gradient(0, 0)[4] += 10;
  CHECK(x.gradients(1)[4] == 12);
  x.zero_gradients();
  CHECK(x.emitted(0) == 0);
  for (int r = 0; r < 3; ++r)
    CHECK(x.gradients(r)[4] == 0);
}

TEST_CASE("initial values leave padding rows zero and use the owner's name", "[parameters]") {
  resident_store both({embedding(), head("words")}, 1, {});
  resident_store owner({embedding()}, 1, {}), copy({head("words")}, 1, {}), own({head("")}, 1, {});
  for (auto* const x : {&both, &owner, &copy, &own})
    initialise(*x, 42);
  const auto values = [](resident_store& x, std::size_t entry) {
    const auto& e = x.entries()[entry];
    const auto at = x.values().subspan(std::size_t(x.value_offset(e)), std::size_t(e.size()));
    return std::vector<float>(at.begin(), at.end());
  };
  const auto words = values(owner, 0);
  CHECK(std::count(words.begin(), words.begin() + 15, 0.0F) == 0);
  CHECK(std::count(words.begin() + 15, words.end(), 0.0F) == 6);
  CHECK(values(both, 0) == words);
  CHECK(values(both, 2) == words);
  CHECK(values(copy, 1) == words);  // on another stage
  CHECK(values(own, 1) != words);
  CHECK(values(copy, 0) == std::vector<float>(3, 1));
  initialise(own, 43);
  const auto other = values(own, 1);
  initialise(own, 42);
  CHECK(values(own, 1) != other);
}

namespace {

/// 2 of 4 experts of a rank, between parameters of dense layers.
std::vector<unit_spec> with_experts() {
  parameter_spec expert{.name = "experts",
                        .extents = {4, 3, 3},
                        .stacked = true,
                        .placements = of_experts({{axis::expert, row_sharded()}})};
  auto second = expert, frozen = expert;
  second.name = "more experts";
  frozen.name = "frozen experts";
  frozen.frozen = true;
  return {embedding(), {"layer", {{.name = "gain", .extents = {3}}, expert, frozen, second}}};
}

resident_store by_source(const memory_pool& pool, gradient_memory memory) {
  return {with_experts(),
          2,
          pool,
          dtype::f32,
          {{axis::expert, {1, 2}}},
          {},
          memory,
          value_memory::lasting,
          source_sums::by_source};
}

}  // namespace

TEST_CASE("a parameter that expert ranks share out has a gradient for each source",
          "[parameters]") {
  const auto memory = GENERATE(gradient_memory::lasting, gradient_memory::by_unit);
  memory_pool pool;
  auto x = by_source(pool, memory);
  constexpr int gain = 1, first = 2, frozen = 3, second = 4;
  const auto parts = [&](int e) { return x.parts(x.entries()[std::size_t(e)]); };
  CHECK((parts(gain) == 2 && parts(first) == 4 && parts(frozen) == 2 && parts(second) == 4));
  CHECK(x.parts() == 4);
  const auto size = [&](int part) {
    std::int64_t sum = 0;
    for (const auto& s : x.stretches_of_gradients(part))
      sum += s.size;
    return sum;
  };
  CHECK((size(0) == 32 + 16 + 2 * 32 && size(1) == size(0)));  // (2, 3, 3) in lines of 16
  CHECK((size(2) == 2 * 32 && size(3) == size(2)));

  const std::size_t at_rest = pool.bytes_in_use();
  x.zero_gradients();
  x.acquire(1);
  for (const int replica : {1, 0}) {
    x.select_replica(replica);
    CHECK(x.take_first_gradient(1, 1, 1));
    float* const to = x.gradient(1, 1, 1);
    std::fill_n(to, 18, float(10 + replica));
    CHECK_FALSE(x.take_first_gradient(1, 1, 1));
    CHECK(x.take_first_gradient(1, 1));  // each source has its own
    std::fill_n(x.gradient(1, 1), 18, float(replica));
    x.gradient(1, 3, 1)[17] += 5;
    x.emit(1);
  }
  for (int p = 0; p < 4; ++p) {
    CAPTURE(p);
    const float written = float(p / 2 * 10 + p % 2);
    CHECK(std::count(x.gradients(p, first), x.gradients(p, first) + 18, written) == 18);
    CHECK(x.gradients(p, second) == x.gradients(p, first) + 32);
    CHECK(x.gradients(p, second)[17] == (p < 2 ? 0 : 5));
    // Not written, and the padding.
    CHECK(std::count(x.gradients(p, first) + 18, x.gradients(p, second) + 17, 0.0F) == 14 + 17);
  }
  x.release(1);
  x.drop_gradients();
  CHECK((memory == gradient_memory::lasting || pool.bytes_in_use() == at_rest));
  x.zero_gradients();
  CHECK(x.gradients(3, first)[0] == 0);
}

TEST_CASE("STORE-11: other parameters have one gradient for all sources", "[parameters]") {
  auto x = by_source({}, gradient_memory::lasting);
  x.acquire(1);
  const auto refused = [](const auto& call) {
    CHECK_THROWS_MATCHES(call(), broken_promise, MessageMatches(StartsWith("STORE-11")));
  };
  refused([&] { x.gradient(1, 0, 1); });
  refused([&] { x.gradients(2, 1); });
  refused([&] { x.gradients(4, 2); });
  CHECK_NOTHROW(x.gradients(3, 2));
  resident_store together(with_experts(), 1, {}, dtype::f32, {{axis::expert, {1, 2}}});
  refused([&] { together.gradients(1, 2); });
  CHECK(together.gradient_size() == 32 + 16 + 2 * 32);
}
