#include "runtime/parameters/spec.hpp"

#include "runtime/core/error.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
namespace kernels = troupe::kernels;

namespace {

constexpr parameter_placement replicated, rows = row_sharded(), columns = column_sharded();

parameter_spec matrix(parameter_placement lies, std::int64_t valid_rows = -1) {
  return {.name = "x",
          .extents = {16, 8},
          .initial = distribution::normal(0.5),
          .valid_rows = valid_rows,
          .placements = {{axis::tensor, lies}}};
}

axis_ranks tensor_rank(int rank, int size) {
  return {{axis::tensor, {rank, size}}};
}

/// Every kind of sharding, and a replicated parameter.
std::vector<parameter_spec> every_kind() {
  parameter_spec bias{.name = "x",
                      .extents = {16},
                      .initial = distribution::normal(0.25),
                      .placements = {{axis::tensor, row_sharded(2)}}};
  return {matrix(replicated),
          matrix(rows),
          matrix(columns),
          matrix(row_sharded(2)),
          matrix(row_sharded(4)),
          matrix(rows, 9),
          matrix(replicated, 9),
          bias};
}

/// Four experts; `lies` is the placement of their matrices in the stack.
parameter_spec stack(parameter_placement lies) {
  return {.name = "x",
          .extents = {4, 8, 6},
          .initial = distribution::normal(0.5),
          .stacked = true,
          .placements = of_experts({{axis::expert, rows}, {axis::expert_tensor, lies}})};
}

std::vector<parameter_spec> every_stack() {
  return {stack({}),
          stack({.dimension = 1}),
          stack({.dimension = 1, .sections = 2}),
          stack({.dimension = 2})};
}

axis_ranks expert_rank(int expert, int experts, int tensor, int tensors) {
  return {{axis::expert, {expert, experts}}, {axis::expert_tensor, {tensor, tensors}}};
}

resident_store store_of(const parameter_spec& x, dtype type, const axis_ranks& ranks = {}) {
  return {{{"unit", {x}}}, 1, {}, type, ranks};
}

/// Adds 1 to `seen` for each element of a part.
void count(const shape& all, const box& part, std::vector<int>& seen) {
  std::vector<int> once(seen.size(), 0);
  const std::vector<int> ones(std::size_t(part.size()), 1);
  copy_common(part, ones.data(), whole(all), once.data(), sizeof(int));
  for (std::size_t i = 0; i < seen.size(); ++i)
    seen[i] += once[i];
}

/// Compares a rank's initial values with those of the whole parameter.
void check_initial_values(const parameter_spec& x, const axis_ranks& ranks) {
  auto judge = store_of(x, dtype::f32), part = store_of(x, dtype::f32, ranks);
  initialise(judge, 7);
  initialise(part, 7);
  const auto& all = judge.entries().front();
  CHECK(std::count(judge.values().begin(), judge.values().begin() + all.valid, 0.0F) == 0);
  const auto& e = part.entries().front();
  std::vector<float> expected;
  for (const auto& of : e.boxes) {
    std::vector<float> values(std::size_t(of.size()));
    copy_common(whole(whole_extents(x)), judge.values().data(), of, values.data(), sizeof(float));
    expected.insert(expected.end(), values.begin(), values.end());
  }
  expected.resize(std::size_t(e.size()), 0.0F);  // padding
  const auto seen = part.values().first(std::size_t(e.size()));
  CHECK(std::equal(seen.begin(), seen.end(), expected.begin(), expected.end()));
}

}  // namespace

TEST_CASE("rows, columns and sections are cut evenly", "[parameters]") {
  CHECK(local_extents(matrix(replicated), tensor_rank(1, 4)) == shape{16, 8});
  CHECK(local_extents(matrix(rows), tensor_rank(1, 4)) == shape{4, 8});
  CHECK(local_extents(matrix(columns), tensor_rank(1, 4)) == shape{16, 2});
  CHECK(local_extents(matrix(row_sharded(2)), tensor_rank(1, 4)) == shape{4, 8});
  CHECK(local_boxes(matrix(rows), tensor_rank(1, 4)) == std::vector<box>{{{4, 0}, {4, 8}}});
  CHECK(local_boxes(matrix(columns), tensor_rank(3, 4)) == std::vector<box>{{{0, 6}, {16, 2}}});
  CHECK(local_boxes(matrix(row_sharded(2)), tensor_rank(1, 4))
        == std::vector<box>{{{2, 0}, {2, 8}}, {{10, 0}, {2, 8}}});
}

TEST_CASE("padding rows belong to no rank's part, and a rank can have only padding",
          "[parameters]") {
  const auto x = matrix(rows, 9);
  CHECK(whole_extents(x) == shape{9, 8});
  CHECK(local_boxes(x, tensor_rank(1, 4)) == std::vector<box>{{{4, 0}, {4, 8}}});
  CHECK(local_boxes(x, tensor_rank(2, 4)) == std::vector<box>{{{8, 0}, {1, 8}}});
  CHECK(local_boxes(x, tensor_rank(3, 4)).empty());
  auto store = store_of(x, dtype::f32, tensor_rank(3, 4));
  initialise(store, 1);
  const auto& e = store.entries().front();
  CHECK(e.size() == 32);
  CHECK(e.valid == 0);
  CHECK(std::all_of(store.values().begin(), store.values().end(), [](float v) { return v == 0; }));
}

TEST_CASE("PARAMETER-1: each axis divides the extent that it shards", "[parameters][invariant]") {
  const auto refused = [](const parameter_spec& x, int size) {
    CHECK_THROWS_MATCHES(local_extents(x, tensor_rank(0, size)),
                         broken_promise,
                         MessageMatches(StartsWith("PARAMETER-1")));
  };
  refused(matrix(rows), 3);
  refused(matrix(columns), 16);
  refused(matrix(row_sharded(4)), 8);  // divides the rows, but not the rows of a section
  CHECK_NOTHROW(local_extents(matrix(replicated), tensor_rank(0, 3)));
}

TEST_CASE("the parts of all tensor ranks cover the whole, each element once", "[parameters]") {
  const int size = GENERATE(1, 2, 4);
  for (const auto& x : every_kind()) {
    CAPTURE(size,
            x.placements[axis::tensor].dimension,
            x.placements[axis::tensor].sections,
            x.valid_rows);
    const auto all = whole_extents(x);
    std::vector<int> seen(std::size_t(all.size()), 0);
    for (int rank = 0; rank < size; ++rank) {
      std::int64_t here = 0;
      for (const auto& part : local_boxes(x, tensor_rank(rank, size))) {
        CHECK(contains(all, part));
        here += part.size();
        count(all, part, seen);
      }
      CHECK(here <= local_extents(x, tensor_rank(rank, size)).size());
    }
    const int times = x.placements[axis::tensor].sharded() ? 1 : size;
    CHECK(seen == std::vector<int>(seen.size(), times));
  }
}

TEST_CASE("a tensor part has the initial values of the whole, bit for bit", "[parameters]") {
  const int size = GENERATE(2, 4);
  for (const auto& x : every_kind()) {
    CAPTURE(size,
            x.placements[axis::tensor].dimension,
            x.placements[axis::tensor].sections,
            x.valid_rows);
    for (int rank = 0; rank < size; ++rank)
      check_initial_values(x, tensor_rank(rank, size));
  }
}

TEMPLATE_TEST_CASE("narrow values are rounded from those in f32",
                   "[parameters]",
                   kernels::bf16,
                   kernels::f16) {
  const auto type = dtype_of<TestType>();
  for (const auto& x : every_kind()) {
    auto exact = store_of(x, dtype::f32, tensor_rank(1, 2)),
         rounded = store_of(x, type, tensor_rank(1, 2));
    initialise(exact, 7);
    initialise(rounded, 7);
    CHECK(rounded.type() == type);
    CHECK(rounded.gradients(0).size() == exact.gradients(0).size());  // always f32
    const auto values = rounded.all_values().template elements<TestType>();
    REQUIRE(values.size() == exact.values().size());
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] == TestType(exact.values()[i]));
  }
}

TEST_CASE("set fills a range of a parameter and nothing else", "[parameters]") {
  auto store = store_of(matrix(replicated), dtype::f32);
  const std::vector<float> from{1, 2, 3};
  store.set(store.entries().front(), 5, from);
  for (std::size_t i = 0; i < store.values().size(); ++i)
    CHECK(store.values()[i] == (i >= 5 && i < 8 ? float(i - 4) : 0.0F));
}

TEST_CASE("a parameter can be sharded along several axes, each element once", "[parameters]") {
  // Experts with columns sharded over tensor ranks: (E, F, C).
  const parameter_spec x{
      .name = "experts",
      .extents = {6, 4, 8},
      .placements = of_experts({{axis::expert, rows}, {axis::expert_tensor, columns}})};
  std::vector<int> seen(std::size_t(x.extents.size()), 0);
  std::vector<std::int64_t> numbers;
  for (int e = 0; e < 3; ++e)
    for (int t = 0; t < 2; ++t) {
      const axis_ranks ranks{{axis::expert, {e, 3}}, {axis::expert_tensor, {t, 2}}};
      CHECK(local_extents(x, ranks) == shape{2, 2, 8});
      CHECK(local_boxes(x, ranks) == std::vector<box>{{{2 * e, 2 * t, 0}, {2, 2, 8}}});
      numbers.push_back(shard_index(x, ranks));
    }
  CHECK(numbers == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("the parts of a stack cover it once, matrix by matrix", "[parameters]") {
  const int E = GENERATE(1, 2, 4), T = GENERATE(1, 2);
  for (const auto& x : every_stack()) {
    const auto& lies = x.placements[axis::expert_tensor];
    CAPTURE(E, T, lies.dimension, lies.sections);
    const int shards = lies.sharded() ? T : 1;
    std::vector<int> seen(std::size_t(x.extents.size()), 0);
    for (int e = 0; e < E; ++e)
      for (int t = 0; t < T; ++t) {
        const auto ranks = expert_rank(e, E, t, T);
        const auto here = matrices_of(x, ranks);
        CHECK((here.first == e * 4 / E && here.count == 4 / E && here.each == 8 * 6 / shards));
        std::int64_t at = 0;
        for (const auto& part : local_boxes(x, ranks)) {
          CHECK(part.first[0] == here.first + here.at(at));
          at += part.size();
          CHECK(part.first[0] + part.extents[0] - 1 == here.first + here.at(at - 1));
          count(x.extents, part, seen);
        }
        CHECK(at == here.count * here.each);
        for (std::int64_t m = 0; m < here.count; ++m)
          CHECK(shard_index(x, ranks, m) == (here.first + m) * shards + (lies.sharded() ? t : 0));
        check_initial_values(x, ranks);
      }
    CHECK(seen == std::vector<int>(seen.size(), T / shards));
  }
}

TEST_CASE("the spec of one matrix of a stack has its placements, without the experts",
          "[parameters]") {
  const auto cut = one_of(stack({.dimension = 1, .sections = 2}));
  CHECK((!cut.stacked && cut.extents == shape{8, 6}));
  CHECK(cut.placements == of_experts({{axis::expert_tensor, row_sharded(2)}}));
  CHECK(one_of(stack({.dimension = 2})).placements == of_experts({{axis::expert_tensor, columns}}));
  CHECK(axis_of_matrices(cut) == axis::expert_tensor);
  CHECK(axis_of_matrices(matrix(rows)) == axis::tensor);
  CHECK(one_of(matrix(rows, 9)).valid_rows == 9);
  CHECK(matrices_of(matrix(rows, 9), tensor_rank(1, 2)).each == 8 * 8);
}

TEST_CASE("STACK-2: a stack has matrices without padding rows, and no ties",
          "[parameters][invariant]") {
  const auto refused = [](const auto& change) {
    auto x = stack({});
    change(x);
    CHECK_THROWS_MATCHES(
        local_extents(x, {}), broken_promise, MessageMatches(StartsWith("STACK-2")));
  };
  refused([](parameter_spec& x) { x.valid_rows = 3; });
  refused([](parameter_spec& x) { x.tied_to = "y"; });
  refused([](parameter_spec& x) { x.has_copies = true; });
  refused([](parameter_spec& x) { x.extents = {4}; });
}

TEST_CASE("the placement of a parameter decides which ranks sum and report it", "[parameters]") {
  const auto plain = matrix(replicated), norm = matrix(partial_gradient()), cut = matrix(rows);
  auto expert = matrix(replicated);
  expert.placements = of_experts({{axis::expert, rows}});
  CHECK(plain.placements.sums() == axis_set{axis::context, axis::data});
  CHECK(norm.placements.sums() == plain.placements.sums());  // the tensor axis splits the replica
  CHECK(expert.placements.sums() == axis_set{axis::expert_data});
  // The second rank of two: the first reports replicated parameters, along the axes of its view.
  const axis_ranks second{{axis::tensor, {1, 2}}, {axis::data, {1, 2}}};
  CHECK(!answers(plain, second));
  CHECK(answers(cut, second));
  CHECK(answers(expert, second));
  CHECK(!answers(expert, {{axis::expert_tensor, {1, 2}}}));
}
