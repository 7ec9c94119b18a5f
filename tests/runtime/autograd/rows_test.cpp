// Rows by number: values, gradients, their order and rounding, shards of rows, ROWS-1, bad numbers.

#include "kernels/op/bf16.hpp"
#include "runtime/autograd/ops.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <span>
#include <thread>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

using numbers = std::vector<float>;

/// 4 rows of 2 channels; row 2 is taken twice, row 0 never.
constexpr std::int64_t R = 4, C = 2;
const std::vector<std::int64_t> chosen{2, -1, 3, 2, 1};
const numbers four_rows{1, 2, 3, 4, 5, 6, 7, 8};
const numbers five_rows{10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
const numbers gathered_rows{5, 6, 0, 0, 7, 8, 5, 6, 3, 4};
const numbers scattered_rows{0, 0, 90, 100, 80, 100, 50, 60};

/// Some of the numbers, as rank `r` of `ranks` has them.
numbers shard(const numbers& all, int r, int ranks) {
  const auto each = std::ptrdiff_t(all.size()) / ranks;
  return {all.begin() + r * each, all.begin() + (r + 1) * each};
}

struct results {
  numbers y, dx;
  placement lies;
  bool operator==(const results&) const = default;
};

/// The rows on one rank of a group, or alone.
struct rank_under_test {
  stream on{kernels::backend::cpu, 2, {}};
  resident_store store{{{"unit", {{.name = "gain", .extents = {4}}}}}, 1, {}};
  tape graph;

  explicit rank_under_test(communicator* group = nullptr)
      : graph(
          on, store, {.groups = {{axis::tensor, group}}, .sequence_parallel = group != nullptr}) {}

  results run(const std::function<variable(const variable&, const row_numbers&)>& op,
              const numbers& x,
              placement lies,
              const numbers& dy,
              std::span<const std::int64_t> by) {
    graph.begin_segment(0);
    const auto in = graph.make(uploaded(on, x, {std::int64_t(x.size()) / C, C}), lies);
    const auto y = op(in, numbered_rows(on, by, R, "rows of a test"));
    graph.end_segment();
    graph.add(*y.gradient, uploaded(on, dy, y.data.extents()));
    graph.input_gradients(0);
    return {elements_of<float>(on, y.data),
            elements_of<float>(on, in.gradient->sum),
            y.placements[axis::tensor]};
  }
  results gather(const numbers& x,
                 placement lies,
                 const numbers& dy = five_rows,
                 std::span<const std::int64_t> by = chosen) {
    return run([&](auto& in, auto& rows) { return gather_rows(graph, in, rows); }, x, lies, dy, by);
  }
  results scatter(const numbers& dy,
                  const numbers& x = five_rows,
                  std::span<const std::int64_t> by = chosen) {
    return run([&](auto& in, auto& rows) { return scatter_rows(graph, in, rows); },
               x,
               placement::replicated,
               dy,
               by);
  }
};

}  // namespace

TEST_CASE("rows are gathered, and their gradients added to where they came from", "[autograd]") {
  rank_under_test x;
  const auto found = x.gather(four_rows, placement::replicated);
  CHECK(found == results{gathered_rows, scattered_rows, placement::replicated});
}

TEST_CASE("rows are added to where they go, and their gradients gathered", "[autograd]") {
  rank_under_test x;
  CHECK(x.scatter(four_rows) == results{scattered_rows, gathered_rows, placement::replicated});
}

TEST_CASE("ranks with shards of the rows gather and scatter the same values", "[autograd]") {
  constexpr int ranks = 2;
  const auto group = std::make_shared<local_group>(axis::tensor, ranks, cancel_token());
  std::vector<std::thread> threads;
  std::vector<results> taken(ranks), added(ranks);
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      rank_under_test x(&mine);
      taken[std::size_t(r)] = x.gather(shard(four_rows, r, ranks), placement::sequence_sharded);
      rank_under_test z(&mine);
      added[std::size_t(r)] = z.scatter(shard(four_rows, r, ranks));
    });
  for (auto& t : threads)
    t.join();
  for (int r = 0; r < ranks; ++r) {
    CAPTURE(r);
    const auto part = shard(scattered_rows, r, ranks);
    CHECK(taken[std::size_t(r)] == results{gathered_rows, part, placement::replicated});
    CHECK(added[std::size_t(r)] == results{part, gathered_rows, placement::sequence_sharded});
  }
}

TEST_CASE("no row may be chosen, alone or from shards", "[autograd]") {
  const int ranks = GENERATE(1, 2);
  const auto group = std::make_shared<local_group>(axis::tensor, ranks, cancel_token());
  const auto lies = ranks == 1 ? placement::replicated : placement::sequence_sharded;
  std::vector<std::thread> threads;
  std::vector<results> taken(2), added(2);
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      rank_under_test x(ranks == 1 ? nullptr : &mine), z(ranks == 1 ? nullptr : &mine);
      taken[std::size_t(r)] = x.gather(shard(four_rows, r, ranks), lies, {}, {});
      added[std::size_t(r)] = z.scatter(shard(four_rows, r, ranks), {}, {});
    });
  for (auto& t : threads)
    t.join();
  const numbers zeros(four_rows.size() / std::size_t(ranks));
  for (int r = 0; r < ranks; ++r) {
    CAPTURE(ranks, r);
    CHECK(taken[std::size_t(r)] == results{{}, zeros, placement::replicated});
    CHECK(added[std::size_t(r)] == results{zeros, {}, lies});
  }
}

TEST_CASE("many uses of a narrow row are added in float and rounded once", "[autograd]") {
  stream on(kernels::backend::cpu, 1, {});
  resident_store store({{"unit", {{.name = "gain", .extents = {4}}}}}, 1, {}, dtype::bf16);
  tape graph(on, store, {});
  graph.begin_segment(0);
  using kernels::bf16;
  const std::vector<std::int64_t> same(300, 1);
  const auto x
      = graph.make(uploaded(on, std::vector<bf16>(4, bf16(1.0F)), {2, 2}), placement::replicated);
  const auto y = gather_rows(graph, x, numbered_rows(on, same, 2, "the same row"));
  graph.end_segment();
  graph.add(*y.gradient, uploaded(on, std::vector<bf16>(600, bf16(1.0F)), {300, 2}));
  graph.input_gradients(0);
  const auto found = elements_of<bf16>(on, x.gradient->sum);
  CHECK(float(found[0]) == 0);
  CHECK(float(found[2]) == 300);  // sums of bf16 would stay at 256
}

TEST_CASE("the first row of each sequence comes from the layout", "[autograd]") {
  stream on(kernels::backend::cpu, 1, {});
  row_layout rows;
  rows.positions = tensor::empty<std::int32_t>(on, {3, 7});
  rows.starts = uploaded(on, std::vector<std::int32_t>{0, 7, 14, 21}, {4});
  const auto first = first_rows(rows);
  CHECK(elements_of<std::int32_t>(on, first.index) == std::vector<std::int32_t>{0, 7, 14});
  CHECK(first.rows == 21);
}

TEST_CASE("a row number outside the rows is refused with its place and what to give",
          "[autograd]") {
  stream on(kernels::backend::cpu, 1, {});
  const auto refusal = [&](std::vector<std::int64_t> all, std::int64_t rows = 4) {
    try {
      numbered_rows(on, all, rows, "labelled rows");
    } catch (const input_error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal({0, -1, 3}) == "accepted");
  CHECK(refusal({-1}, 0) == "accepted");
  CHECK(refusal({0, 4})
        == "cannot use entry 1 of labelled rows: row 4 is not among the 4 rows; give -1 for none, "
           "or a row from 0 to 3");
  CHECK(refusal({0}, 0)
        == "cannot use entry 0 of labelled rows: row 0 is not among the 0 rows; give -1 for none");
  CHECK_THAT(refusal({-2}), ContainsSubstring("row -2"));
  // Its low 32 bits are a row.
  CHECK_THAT(refusal({std::int64_t{1} << 32}), ContainsSubstring("row 4294967296"));
  CHECK_THAT(refusal({}, std::int64_t{1} << 31), ContainsSubstring("smaller micro-batches"));
}

TEST_CASE("ROWS-1: numbers of other rows are refused", "[autograd]") {
  rank_under_test x;
  const auto refuses = [](const auto& call) {
    CHECK_THROWS_MATCHES(call(), broken_promise, MessageMatches(StartsWith("ROWS-1")));
  };
  refuses([&] { x.gather({1, 2, 3, 4, 5, 6}, placement::replicated); });
  rank_under_test z;
  refuses([&] { z.scatter(four_rows, four_rows); });
}
