#include "runtime/parameters/buckets.hpp"

#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <string>

using namespace troupe::runtime;

namespace {

std::int64_t below(std::mt19937& rng, std::int64_t n) {
  return std::int64_t(rng() % std::uint64_t(n));
}

/// Units with parameters of all sizes and with stacks; the last can be tied to the first, or to one
/// of another stage.
std::vector<unit_spec> random_units(std::mt19937& rng) {
  std::vector<unit_spec> out;
  const auto units = 1 + below(rng, 5);
  const auto ties = below(rng, 3);  // none, in this store, in another stage
  for (std::int64_t u = 0; u < units; ++u) {
    auto& unit = out.emplace_back(unit_spec{"unit" + std::to_string(u), {}});
    const auto parameters = 1 + below(rng, 4);
    for (std::int64_t p = 0; p < parameters; ++p) {
      const auto rows = 1 + below(rng, 40);
      parameter_spec x{.name = unit.name + "." + std::to_string(p),
                       .extents = {rows, 1 + below(rng, 30)},
                       .initial = distribution::normal(1)};
      const auto kind = below(rng, 8);
      if (kind < 2) {
        x.valid_rows = below(rng, rows + 1);
      } else if (kind == 2 && u + p > 0) {
        x.stacked = true;
        x.extents = {rows, 1 + below(rng, 12), 1 + below(rng, 12)};
      }
      unit.parameters.push_back(x);
    }
  }
  auto& first = out.front().parameters.front();
  auto copy = first;
  copy.name = "copy";
  copy.tied_to = first.name;
  if (ties == 1) {
    first.has_copies = true;
    out.push_back({"head", {{.name = "gain", .extents = {7}}, copy}});
  } else if (ties == 2) {
    copy.tied_to = "elsewhere";
    out.push_back({"head", {copy}});
  }
  return out;
}

/// Along which dense layers sum gradients.
constexpr axis_set replicas = {axis::context, axis::data};

of_group both(int dense, int experts) {
  return [=](axis_set along) { return along == replicas ? dense : experts; };
}
of_group all_data(int x) {
  return both(x, x);
}

struct cut_store {
  resident_store store;
  std::int64_t size, grain;
  int ranks;
  std::vector<bucket> buckets;

  explicit cut_store(std::mt19937& rng)
      : store(random_units(rng), 1, {}),
        size(1 + below(rng, 3000)),
        grain(std::int64_t(16) << below(rng, 6)),
        ranks(int(1 + below(rng, 5))),
        buckets(make_buckets(store, size, all_data(ranks), grain)) {}

  const resident_store::entry& entry(int e) const { return store.entries()[std::size_t(e)]; }
  std::int64_t value_offset(int e) const { return store.value_offset(entry(e)); }
  std::int64_t gradient_offset(int e) const { return store.gradient_offset(entry(e)); }
  std::int64_t begin(const bucket& b) const { return gradient_offset(b.first); }
  /// Elements from the beginning of the matrix that has this element of an entry.
  std::int64_t in_matrix(int e, std::int64_t element) const {
    return element - matrix(e, element) * matrices_of(entry(e).spec, {}).each;
  }
  std::int64_t matrix(int e, std::int64_t element) const {
    return matrices_of(entry(e).spec, {}).at(element);
  }
};

constexpr int rounds = 300;

}  // namespace

TEST_CASE("buckets cover the gradients once, from the last to the first", "[buckets]") {
  std::mt19937 rng{1};
  for (int round = 0; round < rounds; ++round) {
    const cut_store x(rng);
    CAPTURE(round, x.size, x.grain, x.ranks);
    auto end = x.store.gradient_size();
    int last = int(x.store.entries().size());
    for (const auto& b : x.buckets) {
      REQUIRE(b.end == last);
      REQUIRE(b.first < b.end);
      REQUIRE(x.begin(b) + b.size() == end);
      REQUIRE(b.along == replicas);
      REQUIRE(b.lowest_unit == x.entry(b.first).unit);
      // Minimal: without its first parameter the bucket was not full.
      if (b.end - b.first > 1)
        REQUIRE(x.begin(b) + b.size() - x.gradient_offset(b.first + 1) < x.size);
      end = x.begin(b);
      last = b.first;
    }
    REQUIRE(end == 0);
    REQUIRE(last == 0);
  }
}

TEST_CASE("the values of a bucket have the same layout as its gradients", "[buckets]") {
  std::mt19937 rng{2};
  int without = 0;
  for (int round = 0; round < rounds; ++round) {
    const cut_store x(rng);
    for (const auto& b : x.buckets) {
      without += !b.has_values;
      for (int e = b.first; e < b.end; ++e)
        if (b.has_values)
          REQUIRE(x.value_offset(e) - x.value_offset(b.first) == x.gradient_offset(e) - x.begin(b));
        else
          REQUIRE(x.entry(e).owner >= 0);
    }
  }
  CHECK(without > 10);
}

TEST_CASE("shares cover a bucket and split no grain", "[buckets]") {
  std::mt19937 rng{3};
  int parted = 0;
  for (int round = 0; round < rounds; ++round) {
    const cut_store x(rng);
    CAPTURE(round, x.size, x.grain, x.ranks);
    for (const auto& b : x.buckets) {
      REQUIRE(int(b.ends.size()) == x.ranks);
      std::int64_t before = 0;
      for (const auto end : b.ends) {
        REQUIRE(end >= before);
        before = end;
        for (int e = b.first; e < b.end; ++e) {
          const auto at = x.begin(b) + end - x.gradient_offset(e);  // relative to the parameter
          if (at <= 0 || at >= x.entry(e).valid)
            continue;
          REQUIRE(x.in_matrix(e, at) % x.grain == 0);
          ++parted;
        }
      }
    }
  }
  CHECK(parted > 50);
}

TEST_CASE("shares are as even as grains and parameters allow", "[buckets]") {
  // One long parameter: each share differs from an equal one by at most a grain.
  resident_store store({{"u", {{.name = "x", .extents = {1000, 10}}}}}, 1, {});
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const auto b = make_buckets(store, 1 << 20, all_data(ranks), 64).front();
    std::int64_t before = 0;
    for (const auto end : b.ends) {
      CHECK(std::abs(end - before - b.size() / ranks) <= 64);
      before = end;
    }
  }
}

TEST_CASE("a tied parameter is alone in its bucket, and cut like its owner", "[buckets]") {
  std::mt19937 rng{4};
  int pairs = 0;
  for (int round = 0; round < rounds; ++round) {
    const cut_store x(rng);
    std::vector<std::vector<std::int64_t>> ends;
    for (const auto& b : x.buckets) {
      bool alone = false;
      for (int e = b.first; e < b.end; ++e)
        alone = alone || x.entry(e).spec.has_copies || !x.entry(e).spec.tied_to.empty();
      if (alone) {
        REQUIRE(b.end - b.first == 1);
        ends.push_back(b.ends);
      }
    }
    if (ends.size() == 2) {
      REQUIRE(ends[0] == ends[1]);
      ++pairs;
    }
    // Another stage has other parameters; a bucket of its own is cut the same way.
    for (const auto& b : x.buckets)
      if (b.end - b.first == 1 && x.entry(b.first).spec.has_copies) {
        auto copy = x.entry(b.first).spec;
        copy.tied_to = copy.name;
        copy.has_copies = false;
        resident_store elsewhere({{"head", {{.name = "gain", .extents = {99}}, copy}}}, 1, {});
        REQUIRE(make_buckets(elsewhere, x.size, all_data(x.ranks), x.grain).front().ends == b.ends);
      }
  }
  CHECK(pairs > 20);
}

TEST_CASE("every valid element has one owner; padding has none", "[buckets]") {
  std::mt19937 rng{5};
  for (int round = 0; round < rounds; ++round) {
    const cut_store x(rng);
    CAPTURE(round, x.size, x.grain, x.ranks);
    std::vector<std::vector<int>> seen;
    for (const auto& e : x.store.entries())
      seen.emplace_back(std::size_t(e.size()), 0);
    for (int rank = 0; rank < x.ranks; ++rank) {
      std::pair<int, std::int64_t> last{-1, 0};
      for (const auto& range : owned_ranges(x.store, x.buckets, all_data(rank))) {
        const auto matrix = std::pair(range.entry, x.matrix(range.entry, range.begin));
        REQUIRE(matrix > last);  // in order, one of each matrix
        last = matrix;
        REQUIRE(x.in_matrix(range.entry, range.begin) % x.grain == 0);
        REQUIRE(range.size() > 0);
        REQUIRE(x.matrix(range.entry, range.end - 1) == matrix.second);
        for (auto i = range.begin; i < range.end; ++i)
          ++seen[std::size_t(range.entry)][std::size_t(i)];
      }
    }
    for (std::size_t e = 0; e < seen.size(); ++e)
      for (std::size_t i = 0; i < seen[e].size(); ++i)
        REQUIRE(seen[e][i] == (std::int64_t(i) < x.entry(int(e)).valid ? 1 : 0));
    if (x.ranks == 1)
      REQUIRE(owned_ranges(x.store, x.buckets, all_data(0)) == whole_ranges(x.store));
  }
}

TEST_CASE("parameters that are summed along another axis have their own buckets", "[buckets]") {
  const parameter_spec dense{.name = "dense", .extents = {40}};
  auto expert = dense;
  expert.placements = of_experts({{axis::expert, row_sharded()}});
  const resident_store store({{"u", {dense, dense, expert, expert, dense}}}, 1, {});
  const auto found = make_buckets(store, 1 << 20, both(3, 2), 4);
  REQUIRE(found.size() == 3);
  CHECK((found[0].along == replicas && found[0].first == 4 && found[0].ends.size() == 3));
  CHECK((found[1].along == axis::expert_data && found[1].first == 2 && found[1].ends.size() == 2));
  CHECK((found[2].along == replicas && found[2].first == 0));
  // One share each, by the rank along its axis.
  std::vector<std::int64_t> owned(5, 0);
  for (int d = 0; d < 3; ++d)
    for (const auto& x : owned_ranges(store, found, both(d, d % 2)))
      owned[std::size_t(x.entry)] += d < 2 || x.entry < 2 || x.entry > 3 ? x.size() : 0;
  CHECK(owned == std::vector<std::int64_t>(5, 40));
}

TEST_CASE("a bucket is summed along the axes of its view, whatever the placements are",
          "[buckets]") {
  const auto bucket_of = [](parameter_placements placements, parameter_placement everywhere) {
    for (const auto& row : axis_table())
      placements[row.id] = everywhere;
    const resident_store store(
        {{"u", {{.name = "x", .extents = {40}, .placements = placements}}}}, 1, {});
    return make_buckets(store, 1 << 20, both(3, 2), 4).front();
  };
  const auto dense = bucket_of({}, partial_gradient());
  CHECK((dense.along == replicas && dense.ends.size() == 3));
  const auto expert = bucket_of(of_experts({}), partial_gradient());
  CHECK((expert.along == axis::expert_data && expert.ends.size() == 2));
  const auto complete = bucket_of({}, {});
  CHECK((complete.along.is_empty() && complete.ends.size() == 1));
}

TEST_CASE("a bucket ends where the number of gradients changes", "[buckets]") {
  const parameter_spec shared{.name = "shared", .extents = {40}, .placements = of_experts({})};
  auto expert = shared;
  expert.placements[axis::expert] = row_sharded();
  const auto firsts = [&](source_sums sums) {
    const resident_store store({{"u", {shared, expert, expert, shared}}},
                               1,
                               {},
                               dtype::f32,
                               {{axis::expert, {0, 2}}},
                               {},
                               gradient_memory::lasting,
                               value_memory::lasting,
                               sums);
    std::vector<int> out;
    for (const auto& x : make_buckets(store, 1 << 20, both(3, 2), 4))
      out.push_back(x.first);
    return out;
  };
  CHECK(firsts(source_sums::by_source) == std::vector{3, 1, 0});
  CHECK(firsts(source_sums::together) == std::vector{0});
}
