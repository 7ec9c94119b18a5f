#include "runtime/parameters/initial_values.hpp"

#include "runtime/core/hash.hpp"
#include "runtime/core/random.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <stdexcept>
#include <thread>

using namespace troupe::runtime;

namespace {

parameter_spec parameter(const char* name, shape extents, parameter_placement lies) {
  parameter_spec x;
  x.name = name;
  x.extents = std::move(extents);
  x.valid_rows = x.extents[0];
  x.initial = distribution::normal(0.02);
  x.placements[axis::tensor] = lies;
  return x;
}

/// Several pieces each, with ends inside rows; every distribution; kinds of rows; a tied parameter.
std::vector<unit_spec> units() {
  auto constant = parameter("gain", {300000}, {});
  constant.initial = distribution::constant(1);
  auto tied = parameter("head", {1100, 700}, row_sharded());
  tied.tied_to = "words";
  auto uniform = parameter("uniform", {6, 50000}, row_sharded());
  uniform.initial = distribution::uniform(-0.5, 2);
  auto log_uniform = parameter("log uniform", {6, 50000}, column_sharded());
  log_uniform.initial = distribution::log_uniform(1e-3, 0.1);
  auto kinds = parameter("kinds", {12, 30000}, row_sharded());
  kinds.row_kinds = {2, 1, 1};
  kinds.kind_factors = {0.3, 1, 2};
  const auto stack = [](const char* name, parameter_placement lies) {
    auto x = parameter(name, {3, 400, 600}, lies);
    x.valid_rows = -1;
    x.stacked = true;
    return x;
  };
  return {{"first", {parameter("words", {1100, 700}, row_sharded()), constant}},
          {"second",
           {uniform,
            log_uniform,
            kinds,
            parameter("columns", {1003, 820}, column_sharded()),
            parameter("bias", {290001}, {}),
            parameter("sections", {12, 70000}, row_sharded(3)),
            stack("rows of a stack", {.dimension = 1, .sections = 2}),
            stack("columns of a stack", {.dimension = 2}),
            tied}}};
}

/// The expected value of an element, from the definition.
float judged(const parameter_spec& x, std::uint64_t seed, std::uint64_t element) {
  using kind = distribution::kind;
  if (x.initial.of == kind::constant)
    return float(x.initial.first);
  const auto key = random_key(seed, x.name, 0);
  if (x.initial.of == kind::normal) {
    const auto drawn = float(x.initial.first * standard_normal(key, element));
    return x.kind_factors.empty()
               ? drawn
               : float(double(drawn) * std::array{0.3, 0.3, 1.0, 2.0}[element / 30000 % 4]);
  }
  const auto value = x.initial.of == kind::uniform ? uniform_between : log_uniform_between;
  return float(value(key, element, x.initial.first, x.initial.last));
}

/// Row-major index in a tensor of element `i` of its part.
std::uint64_t element_of(const shape& all, const box& part, std::int64_t i) {
  std::int64_t out = 0, stride = 1;
  for (int d = all.rank() - 1; d >= 0; --d) {
    out += (part.first[d] + i % part.extents[d]) * stride;
    i /= part.extents[d];
    stride *= all[d];
  }
  return std::uint64_t(out);
}

std::int64_t wrong_values(resident_store& store, std::uint64_t seed) {
  std::int64_t out = 0;
  for (const auto& e : store.entries()) {
    if (e.owner >= 0)
      continue;
    const auto* at = store.values().data() + store.value_offset(e);
    for (const auto& part : e.boxes)
      for (std::int64_t i = 0; i < part.size(); ++i, ++at)
        out += *at != judged(e.spec, seed, element_of(e.spec.extents, part, i));
  }
  return out;
}

}  // namespace

TEST_CASE("initial values in pieces equal their definition, on any thread", "[parameters]") {
  const int rank = GENERATE(-1, 0, 1);
  const auto ranks = rank < 0 ? axis_ranks() : axis_ranks{{axis::tensor, {rank, 2}}};
  resident_store store(units(), 1, {}, dtype::f32, ranks);
  initialise(store, 5);
  CHECK(wrong_values(store, 5) == 0);
}

TEST_CASE("concurrent workers get the values that each would get alone", "[parameters]") {
  resident_store alone(units(), 1, {}, dtype::bf16);
  initialise(alone, 5);
  std::vector<std::uint64_t> seen(6);
  {
    std::vector<std::jthread> workers;
    for (auto& one : seen)
      workers.emplace_back([&out = one] {
        resident_store store(units(), 1, {}, dtype::bf16);
        initialise(store, 5);
        out = hash64(store.all_values().raw(), store.all_values().bytes());
      });
  }
  const auto expected = hash64(alone.all_values().raw(), alone.all_values().bytes());
  CHECK(seen == std::vector<std::uint64_t>(seen.size(), expected));
}

TEST_CASE("pieces arrive in order, each element once; the consumer can throw", "[parameters]") {
  resident_store store(units(), 1, {});
  int entry = 0, calls = 0;
  std::int64_t next = 0, taken = 0;
  draw_initial_values(store, 5, [&](const initial_piece& x) {
    if (x.entry != entry) {
      CHECK(next == store.entries()[std::size_t(entry)].valid);
      entry = x.entry;
      next = 0;
    }
    CHECK(x.begin == next);
    CHECK(x.rounded == x.values.data());
    next += std::int64_t(x.values.size());
    taken += std::int64_t(x.values.size());
  });
  CHECK(taken
        == 1100 * 700 + 300000 + 2 * 6 * 50000 + 12 * 30000 + 1003 * 820 + 290001 + 12 * 70000
               + 2 * 3 * 400 * 600);
  const auto fail = [&](const initial_piece&) {
    if (++calls == 3)
      throw std::runtime_error("the device is lost");
  };
  CHECK_THROWS_AS(draw_initial_values(store, 5, fail), std::runtime_error);
  CHECK(calls == 3);
}
