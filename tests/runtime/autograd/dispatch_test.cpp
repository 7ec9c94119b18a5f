// The exchange of rows between expert ranks, on threads and on fibers: every number of ranks has
// the bits of one rank, with both ways of rows. EXPERTS-1.

#include "runtime/autograd/dispatch.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/fibers.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/layer_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using kernels::bf16;

namespace {

constexpr std::int64_t E = 4, C = 6, N = 8;

using numbers = std::vector<float>;
using integers = std::vector<std::int32_t>;
using counts = std::vector<std::int64_t>;

/// The number of ranks along expert and expert_tensor. Rank number e * tensor + t.
struct expert_grid {
  int expert = 1, tensor = 1;
  int size() const { return expert * tensor; }
};

template <class T>
std::vector<T> rounded(const numbers& x) {
  return std::vector<T>(x.begin(), x.end());
}

/// up (experts, N, C) and down (experts, C, N) of one rank, with a gradient for each source.
template <class T>
class expert_store final : public layer_store {
 public:
  expert_store(expert_grid of, int rank) : entries_(2) {
    ranks_[axis::expert] = {rank / of.tensor, of.expert};
    ranks_[axis::expert_tensor] = {rank % of.tensor, of.tensor};
    const auto up = rounded<T>(normal<float>(E * N * C, 1));
    const auto down = rounded<T>(normal<float>(E * C * N, 2));
    const std::int64_t own = E / of.expert, n = N / of.tensor;
    const auto first = ranks_[axis::expert].rank * own, first_n = rank % of.tensor * n;
    for (std::int64_t e = first; e < first + own; ++e) {
      for (std::int64_t i = first_n; i < first_n + n; ++i)
        for (std::int64_t c = 0; c < C; ++c)
          values_[0].push_back(up[std::size_t((e * N + i) * C + c)]);
      for (std::int64_t c = 0; c < C; ++c)
        for (std::int64_t i = first_n; i < first_n + n; ++i)
          values_[1].push_back(down[std::size_t((e * C + c) * N + i)]);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      entries_[i].spec.placements = of_experts({{axis::expert, row_sharded()}});
      gradients_[i].assign(std::size_t(of.expert), numbers(values_[i].size()));
    }
  }

  const std::vector<parameter_entry>& entries() const override { return entries_; }
  const axis_ranks& axes() const override { return ranks_; }
  source_sums sums() const override { return source_sums::by_source; }
  void acquire(int) override {}
  void release(int) override {}
  dtype type() const override { return dtype_of<T>(); }
  const void* value(int, int index) const override { return values_[index].data(); }
  float* gradient(int, int index, int source) override {
    return gradients_[index].at(std::size_t(source)).data();
  }
  void emit(int) override {}

  /// Gradient of an expert of this rank for the rows of a source.
  numbers gradient_of(int index, std::int64_t expert, int source) const {
    const auto& all = gradients_[index].at(std::size_t(source));
    const auto each = std::int64_t(all.size()) / (E / ranks_[axis::expert].size);
    return {all.begin() + expert * each, all.begin() + (expert + 1) * each};
  }

 private:
  std::vector<parameter_entry> entries_;
  axis_ranks ranks_;
  std::vector<T> values_[2];
  std::vector<numbers> gradients_[2];
};

/// The rows of one rank and their experts.
struct source {
  std::int64_t each = 1;
  integers chosen;  ///< (R, each)
  std::int64_t padded = 0;
  std::int64_t rows() const { return std::int64_t(chosen.size()) / each; }
};
using sources = std::vector<source>;

/// `each` distinct experts for each of R rows; some are dropped.
source drawn(std::int64_t R, std::int64_t each, std::uint32_t seed) {
  std::mt19937 rng{seed};
  source out{.each = each};
  for (std::int64_t r = 0; r < R; ++r) {
    integers all(E);
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t j = 0; j < std::size_t(each); ++j) {
      std::swap(all[j], all[j + rng() % (E - j)]);
      out.chosen.push_back(rng() % 5 == 0 ? -1 : all[j]);
    }
  }
  return out;
}

enum class scene { mixed, empty_rank, one_expert, all_experts, all_dropped, padded, empty };

sources rows_in(scene which) {
  sources out;
  for (std::uint32_t s = 0; s < 4; ++s)
    switch (which) {
      case scene::mixed:
        out.push_back(drawn(5 + 2 * s, 2, s));
        break;
      case scene::empty_rank:
        out.push_back(drawn(s == 1 ? 0 : 4, 2, s));
        break;
      case scene::one_expert:
        out.push_back({.each = 1, .chosen = integers(3 + s, 2)});
        break;
      case scene::all_experts:
        out.push_back({.each = E, .chosen = {0, 1, 2, 3, 3, 2, 1, 0}});
        break;
      case scene::all_dropped:
        out.push_back({.each = 2, .chosen = integers(6, -1)});
        break;
      case scene::padded:
        out.push_back(drawn(6, 2, s));
        out.back().padded = 4;
        break;
      case scene::empty:
        out.push_back({.each = 2});
        break;
    }
  return out;
}

struct result {
  numbers y, dx, dweights;
  friend bool operator==(const result&, const result&) = default;
};

/// The rows of a source and their weights in the router.
template <class T>
std::vector<T> input_of(const source& x, int number) {
  return rounded<T>(normal<float>(std::size_t(x.rows() * C), std::uint32_t(100 + number)));
}
numbers weights_of(const source& x, int number) {
  return normal<float>(x.chosen.size(), std::uint32_t(200 + number));
}

/// The experts of a layer, forward and backward, for the loss sum y[i] cos(i).
template <class T>
result computed(const source& of,
                const std::vector<T>& in,
                const numbers& factors,
                const axis_map<communicator*>& groups,
                expert_store<T>& store,
                bool gathers) {
  stream on(kernels::backend::cpu, 1, {});
  tape graph(on, store, {.groups = groups});
  const auto R = of.rows();
  graph.begin_segment(0);
  const auto x = graph.make(uploaded(on, in, {R, C}), placement::replicated);
  const auto weights = graph.make(uploaded(on, factors, {R, of.each}), placement::replicated);
  const auto plan
      = rows_of_experts(graph,
                        {.chosen = of.chosen, .experts = E, .each = of.each, .padded = of.padded},
                        {.gathers = gathers});
  const auto there = dispatch(graph, x, weights, plan);
  const auto rows = gather_rows(graph, there.rows, plan);
  const auto of_rows = gather_rows(graph, there.weights, plan);
  const auto own = E / graph.group_size(axis::expert);
  const auto n = N / graph.group_size(axis::expert_tensor);
  auto hidden = grouped_linear(graph, rows, product::column, plan->groups, own, n, 0);
  hidden = weighted_activation(graph, hidden, of_rows, kernels::activation::gelu_tanh);
  hidden = grouped_linear(graph, hidden, product::row, plan->groups, own, C, 1);
  const auto y = combine(graph, scatter_rows(graph, hidden, plan), plan);
  graph.end_segment();
  numbers slope(std::size_t(y.data.size()));
  for (std::size_t i = 0; i < slope.size(); ++i)
    slope[i] = float(std::cos(double(i)));
  graph.add(*y.gradient, uploaded(on, rounded<T>(slope), y.data.extents()));
  graph.input_gradients(0);
  graph.weight_gradients(0);
  const auto wide = [&](const tensor& t) {
    const auto all = elements_of<T>(on, t);
    return numbers(all.begin(), all.end());
  };
  return {wide(y.data), wide(x.gradient->sum), elements_of<float>(on, weights.gradient->sum)};
}

template <class T>
result computed_alone(const source& of, int number, expert_store<T>& store) {
  return computed<T>(of, input_of<T>(of, number), weights_of(of, number), {}, store, false);
}

/// Calls `act` as every rank, with its groups. An exception in a rank ends all of them; returns it.
std::string as_ranks(expert_grid of,
                     bool on_fibers,
                     const cancel_token& token,
                     const std::function<void(int rank, const axis_map<communicator*>&)>& act) {
  std::vector<std::shared_ptr<local_group>> expert, tensor;
  for (int t = 0; t < of.tensor; ++t)
    expert.push_back(std::make_shared<local_group>(axis::expert, of.expert, token));
  for (int e = 0; e < of.expert; ++e)
    tensor.push_back(std::make_shared<local_group>(axis::expert_tensor, of.tensor, token));
  std::vector<std::string> failures(std::size_t(of.size()));
  const auto be = [&](int rank) {
    const int e = rank / of.tensor, t = rank % of.tensor;
    local_communicator along_expert(expert[std::size_t(t)], e);
    local_communicator along_tensor(tensor[std::size_t(e)], t);
    axis_map<communicator*> groups;
    if (of.expert > 1)
      groups[axis::expert] = &along_expert;
    if (of.tensor > 1)
      groups[axis::expert_tensor] = &along_tensor;
    try {
      act(rank, groups);
    } catch (const std::exception& failure) {
      failures[std::size_t(rank)] = failure.what();
      token.cancel();
    }
  };
  if (on_fibers) {
    fiber_pool pool;
    for (int r = 0; r < of.size(); ++r)
      pool.start("rank", [&, r] { be(r); });
    for (auto able = pool.runnable(); !able.empty(); able = pool.runnable())
      pool.run(able.back());
    if (!pool.alive().empty())
      return "a rank waits for ever";
  } else {
    std::vector<std::thread> threads;
    for (int r = 0; r < of.size(); ++r)
      threads.emplace_back([&, r] { be(r); });
    for (auto& thread : threads)
      thread.join();
  }
  return std::accumulate(failures.begin(), failures.end(), std::string());
}

/// Results of all ranks, and their stores.
template <class T>
struct run {
  std::vector<result> results;
  std::vector<expert_store<T>> stores;
};

template <class T>
run<T> of_ranks(expert_grid of, const sources& all, bool gathers, bool on_fibers = false) {
  run<T> out;
  out.results.resize(std::size_t(of.size()));
  for (int r = 0; r < of.size(); ++r)
    out.stores.emplace_back(of, r);
  const auto failure = as_ranks(of, on_fibers, {}, [&](int r, const auto& groups) {
    const auto& mine = all[std::size_t(r)];
    out.results[std::size_t(r)] = computed<T>(mine,
                                              input_of<T>(mine, r),
                                              weights_of(mine, r),
                                              groups,
                                              out.stores[std::size_t(r)],
                                              gathers);
  });
  REQUIRE(failure == "");
  return out;
}

template <class T>
void check_bits(scene which, int ranks, bool gathers, bool on_fibers) {
  const auto all = rows_in(which);
  const auto got = of_ranks<T>({.expert = ranks}, all, gathers, on_fibers);
  for (int s = 0; s < ranks; ++s) {
    CAPTURE(s);
    expert_store<T> store({}, 0);
    CHECK(got.results[std::size_t(s)] == computed_alone(all[std::size_t(s)], s, store));
    for (std::int64_t e = 0; e < E; ++e)
      for (const int index : {0, 1}) {
        const auto own = E / ranks;
        CHECK(got.stores[std::size_t(e / own)].gradient_of(index, e % own, s)
              == store.gradient_of(index, e, 0));
      }
  }
}

}  // namespace

TEST_CASE("experts on several ranks have the bits of one rank with all experts", "[dispatch]") {
  const int ranks = GENERATE(1, 2, 4);
  const bool gathers = GENERATE(false, true), on_fibers = GENERATE(false, true);
  const auto which = GENERATE(scene::mixed,
                              scene::empty_rank,
                              scene::one_expert,
                              scene::all_experts,
                              scene::all_dropped,
                              scene::padded,
                              scene::empty);
  CAPTURE(ranks, gathers, on_fibers, int(which));
  check_bits<float>(which, ranks, gathers, on_fibers);
  check_bits<bf16>(which, ranks, gathers, on_fibers);
}

TEST_CASE("expert tensor ranks share the rows of all of them", "[dispatch]") {
  const int expert = GENERATE(1, 2);
  const auto which = GENERATE(scene::mixed, scene::empty_rank, scene::one_expert, scene::padded);
  CAPTURE(expert, int(which));
  const auto all = rows_in(which);
  const expert_grid of{.expert = expert, .tensor = 2};
  const auto got = of_ranks<float>(of, all, false), gathered = of_ranks<float>(of, all, true);
  CHECK(got.results == gathered.results);
  // Each rank adds half of the features, so sums have another order: an error of some 1e-7. A wrong
  // row is off by all of it.
  const auto near = [](const numbers& a, const numbers& b) {
    CHECK(a.size() == b.size());
    CHECK(relative_error(a, b) < 1e-5);
  };
  for (int r = 0; r < of.size(); ++r) {
    CAPTURE(r);
    expert_store<float> store({}, 0);
    const auto expected = computed_alone(all[std::size_t(r)], r, store);
    near(got.results[std::size_t(r)].y, expected.y);
    near(got.results[std::size_t(r)].dx, expected.dx);
    near(got.results[std::size_t(r)].dweights, expected.dweights);
  }
}

TEST_CASE("expert tensor ranks add the gradients of their rows to those of the source",
          "[dispatch]") {
  const auto all = rows_in(scene::mixed);
  const expert_grid of{.expert = 2, .tensor = 2};
  const auto got = of_ranks<float>(of, all, false);
  for (int s = 0; s < 2; ++s)
    for (std::int64_t e = 0; e < E; ++e) {
      CAPTURE(s, e);
      // Features [0, N / 2) of expert e, for the rows of ranks (s, 0) and (s, 1).
      auto expected = numbers(std::size_t(N / 2 * C));
      for (const int r : {2 * s, 2 * s + 1}) {
        expert_store<float> store({}, 0);
        computed_alone(all[std::size_t(r)], r, store);
        const auto part = store.gradient_of(0, e, 0);
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += part[i];
      }
      const auto& first_tensor_rank = got.stores[std::size_t(e / 2 * 2)];
      // Products of half of the features may add in another order: rounding only.
      CHECK(relative_error(first_tensor_rank.gradient_of(0, e % 2, s), expected) < 1e-5);
    }
}

TEST_CASE("gradients of rows and weights equal finite differences", "[dispatch]") {
  const auto all = rows_in(scene::mixed);
  const auto& of = all[0];
  auto x = input_of<float>(of, 0);
  auto weights = weights_of(of, 0);
  expert_store<float> store({}, 0);
  const auto found = computed<float>(of, x, weights, {}, store, false);
  const auto loss = [&] {
    const auto y = computed<float>(of, x, weights, {}, store, false).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += double(y[i]) * double(float(std::cos(double(i))));
    return sum;
  };
  // The loss is a sum of some dozen floats of about 10, with a rounding error of about 1e-5; over a
  // step of 1/64 that is 1e-3. Curvature adds as much. Slopes are about 10.
  const auto check = [&](numbers& values, const numbers& gradient) {
    constexpr float h = 1.0F / 128;
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      const float at = values[i];
      values[i] = at + h;
      const double up = loss();
      values[i] = at - h;
      const double down = loss();
      values[i] = at;
      CHECK(std::abs((up - down) / double(2 * h) - double(gradient[i])) < 2e-2);
    }
  };
  check(x, found.dx);
  check(weights, found.dweights);
}

TEST_CASE("the sizes of an exchange follow from the counts of all ranks", "[dispatch]") {
  // Two sources, four experts, two ranks; this is rank 1, with experts 2 and 3.
  const counts all{1, 2, 3, 4, 5, 0, 6, 7};
  const auto x = exchange_of(all, 4, {1, 2}, {0, 1});
  CHECK(x.sent_ends == counts{5, 18});
  CHECK(x.received_ends == counts{7, 20});
  CHECK(x.gathered_ends == counts{20});
  CHECK(x.groups->offsets == counts{0, 3, 7, 13, 20});
  CHECK(x.groups->experts == integers{0, 1, 0, 1});
  CHECK(x.groups->sources == integers{0, 0, 1, 1});
  // The same counts of two expert tensor ranks with all experts; this is the second one.
  const auto y = exchange_of(all, 4, {0, 1}, {1, 2});
  CHECK(y.sent_ends == counts{18});
  CHECK(y.received_ends == counts{18});
  CHECK(y.gathered_ends == counts{10, 28});
  CHECK(y.groups->offsets == counts{0, 1, 3, 6, 10, 15, 15, 21, 28});
  CHECK(y.groups->experts == integers{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(y.groups->sources == integers(8, 0));
}

TEST_CASE("EXPERTS-1: rows choose experts of the layer, and ranks share them equally",
          "[dispatch]") {
  CHECK_BREAKS("EXPERTS-1", exchange_of(counts(6), 3, {0, 2}, {0, 1}));
  expert_store<float> store({}, 0);
  stream on(kernels::backend::cpu, 1, {});
  tape graph(on, store, {.recording = false});
  CHECK_NOTHROW(rows_of_experts(graph, {.chosen = {0, -1, 3, 2}, .experts = E, .each = 2}));
  CHECK_BREAKS("EXPERTS-1",
               rows_of_experts(graph, {.chosen = {0, 1, 4, 2}, .experts = E, .each = 2}));
  CHECK_BREAKS("EXPERTS-1",
               rows_of_experts(graph, {.chosen = {0, -2, 3, 2}, .experts = E, .each = 2}));
  CHECK_BREAKS("EXPERTS-1", rows_of_experts(graph, {.chosen = {0, 1, 2}, .experts = E, .each = 2}));
}

TEST_CASE("the end of a generation releases ranks that exchange rows", "[dispatch]") {
  const bool gathers = GENERATE(false, true);
  const int delay_us = GENERATE(range(0, 4000, 800));
  CAPTURE(gathers, delay_us);
  const auto all = rows_in(scene::mixed);
  const expert_grid of{.expert = 2, .tensor = 2};
  const cancel_token token;
  std::atomic<int> released = 0, begun = 0;
  std::thread end([&] {
    while (begun < 4)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    token.cancel();
  });
  const auto failure = as_ranks(of, false, token, [&](int r, const auto& groups) {
    const auto& mine = all[std::size_t(r)];
    const auto in = input_of<float>(mine, r);
    const auto weights = weights_of(mine, r);
    ++begun;
    try {
      while (true) {
        expert_store<float> store(of, r);
        computed<float>(mine, in, weights, groups, store, gathers);
      }
    } catch (const cancelled&) {
      ++released;
    }
  });
  end.join();
  CHECK(failure == "");
  CHECK(released == 4);
}

namespace {

/// One of several ranks, without the others.
class lonely final : public communicator {
 public:
  lonely(axis along, int size) : along_(along), size_(size) {}
  axis_set along() const override { return along_; }
  int rank() const override { return size_ - 1; }
  int size() const override { return size_; }
  void barrier() override {}
  void all_reduce_sum(stream&, dtype, std::span<const void* const>, void*, std::int64_t) override {}
  void reduce_scatter_sum(stream&, dtype, std::span<const void* const>, void*, offsets) override {}
  void all_gather(stream&, const void*, void*, offsets) override {}
  void all_to_all(stream&, const void*, offsets, void*, offsets) override {}
  void broadcast(stream&, void*, std::int64_t, int) override {}

 private:
  axis along_;
  int size_;
};

}  // namespace

TEST_CASE("with a shadow pool a rank receives the rows of the load", "[dispatch]") {
  const bool gathers = GENERATE(false, true);
  // 30 rows choose 2 of 4 experts; each of 2 sources sends 30 of its 60 slots to a rank.
  const auto [load, expected]
      = GENERATE(std::pair(1.0, 60), std::pair(1.5, 90), std::pair(0.5, 30), std::pair(9.0, 120));
  lonely expert(axis::expert, 2), tensor(axis::expert_tensor, 2);
  expert_store<float> store({.expert = 2, .tensor = 2}, 3);
  stream on(kernels::backend::cpu, 1, memory_pool::shadow());
  tape graph(
      on,
      store,
      {.recording = false, .groups = {{axis::expert, &expert}, {axis::expert_tensor, &tensor}}});
  const auto x = rows_of_experts(graph,
                                 {.chosen = integers(60), .experts = E, .each = 2},
                                 {.gathers = gathers, .shadow_load = load});
  CHECK(x->received_ends.back() == expected);
  CHECK(x->gathered_ends == counts{expected, 2 * expected});
  CHECK(x->groups->offsets.back() == 2 * expected);
  CHECK(x->sent.place.size() == 60);
  CHECK(x->sent.slot.extents() == shape{30, 2});
  CHECK(x->taken.extents() == (gathers ? shape{expected} : shape()));
  const auto there = dispatch(graph,
                              graph.make(tensor::empty<float>(on, {30, C}), placement::replicated),
                              graph.make(tensor::empty<float>(on, {30, 2}), placement::replicated),
                              x);
  CHECK(there.rows.data.extents() == shape{expected, C});
  CHECK(there.weights.data.extents() == shape{expected, 1});
  const auto all = gather_rows(graph, there.rows, x);
  CHECK(all.data.extents() == shape{2 * expected, C});
}
