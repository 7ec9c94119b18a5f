// Experts of a layer whose rows travel between ranks, for tests of the exchange: the parameters of
// one rank, rows with their choice, and a pass forward and backward.

#pragma once

#include "runtime/autograd/dispatch.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/layer_store.hpp"
#include "tests/support/numbers.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace troupe::tests {

using numbers = std::vector<float>;

/// The number of ranks along expert and expert_tensor. Rank number e * tensor + t.
struct expert_grid {
  int expert = 1, tensor = 1;
  int size() const { return expert * tensor; }
};

inline constexpr std::int64_t routed_experts = 4, routed_width = 6, routed_ffn = 8;  ///< E, C, N

/// up (experts, N, C) and down (experts, C, N) of one rank, with a gradient for each source.
template <class T>
class routed_store final : public layer_store {
 public:
  routed_store(runtime::stream& stream, expert_grid of, int rank) : stream_(stream), entries_(2) {
    using runtime::axis;
    constexpr auto E = routed_experts, C = routed_width, N = routed_ffn;
    const auto up = normal<float>(std::size_t(E * N * C), 1);
    const auto down = normal<float>(std::size_t(E * C * N), 2);
    ranks_[axis::expert] = {rank / of.tensor, of.expert};
    ranks_[axis::expert_tensor] = {rank % of.tensor, of.tensor};
    const std::int64_t own = E / of.expert, n = N / of.tensor;
    const auto first = rank / of.tensor * own, first_n = rank % of.tensor * n;
    std::vector<T> parts[2];
    for (std::int64_t e = first; e < first + own; ++e) {
      for (std::int64_t i = first_n; i < first_n + n; ++i)
        for (std::int64_t c = 0; c < C; ++c)
          parts[0].push_back(T(up[std::size_t((e * N + i) * C + c)]));
      for (std::int64_t c = 0; c < C; ++c)
        for (std::int64_t i = first_n; i < first_n + n; ++i)
          parts[1].push_back(T(down[std::size_t((e * C + c) * N + i)]));
    }
    const runtime::shape extents{own, n * C};
    for (std::size_t i = 0; i < 2; ++i) {
      entries_[i].spec.placements = runtime::of_experts({{axis::expert, runtime::row_sharded()}});
      values_.push_back(runtime::uploaded(stream, parts[i], extents));
      for (int s = 0; s < of.expert; ++s)
        gradients_[i].push_back(runtime::uploaded(stream, numbers(parts[i].size()), extents));
    }
  }

  const std::vector<runtime::parameter_entry>& entries() const override { return entries_; }
  const runtime::axis_ranks& axes() const override { return ranks_; }
  runtime::source_sums sums() const override { return runtime::source_sums::by_source; }
  void acquire(int) override {}
  void release(int) override {}
  runtime::dtype type() const override { return runtime::dtype_of<T>(); }
  const void* value(int, int index) const override { return values_[std::size_t(index)].raw(); }
  float* gradient(int, int index, int source) override {
    return gradients_[index].at(std::size_t(source)).template data<float>();
  }
  void emit(int) override {}

  /// The gradients of a parameter, by source.
  std::vector<numbers> sums_of(int index) const {
    std::vector<numbers> out;
    for (const auto& x : gradients_[index])
      out.push_back(runtime::elements_of<float>(stream_, x));
    return out;
  }

 private:
  runtime::stream& stream_;
  std::vector<runtime::parameter_entry> entries_;
  runtime::axis_ranks ranks_;
  std::vector<runtime::tensor> values_;
  std::vector<runtime::tensor> gradients_[2];
};

/// The rows of one rank: their values, and what the router says of them.
struct routed_rows {
  std::int64_t each = 1;             ///< experts of a row
  std::vector<std::int32_t> chosen;  ///< (R, each)
  std::int64_t padded = 0;
  numbers x = {}, weights = {};  ///< (R, C), (R, each)

  std::int64_t R() const { return std::int64_t(chosen.size()) / each; }
  routed_rows with_values(std::uint32_t seed) const {
    auto out = *this;
    out.x = normal<float>(std::size_t(R() * routed_width), 100 + seed);
    out.weights = normal<float>(chosen.size(), 200 + seed);
    return out;
  }
};

/// `each` distinct experts for each of R rows; some are dropped.
inline routed_rows drawn_rows(std::int64_t R, std::int64_t each, std::uint32_t seed) {
  std::mt19937 rng{seed};
  routed_rows out{.each = each, .chosen = {}};
  for (std::int64_t r = 0; r < R; ++r) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(routed_experts));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t j = 0; j < std::size_t(each); ++j) {
      std::swap(all[j], all[j + rng() % (all.size() - j)]);
      out.chosen.push_back(rng() % 5 == 0 ? -1 : all[j]);
    }
  }
  return out;
}

enum class routed_scene { mixed, empty_rank, one_expert, all_experts, all_dropped, padded, empty };

/// The rows of four ranks.
inline std::vector<routed_rows> rows_in(routed_scene which) {
  std::vector<routed_rows> out;
  const auto add
      = [&](const routed_rows& x) { out.push_back(x.with_values(std::uint32_t(out.size()))); };
  for (std::uint32_t s = 0; s < 4; ++s)
    switch (which) {
      case routed_scene::mixed:
        add(drawn_rows(5 + 2 * s, 2, s));
        break;
      case routed_scene::empty_rank:
        add(drawn_rows(s == 1 ? 0 : 4, 2, s));
        break;
      case routed_scene::one_expert:
        add({.each = 1, .chosen = std::vector<std::int32_t>(3 + s, 2)});
        break;
      case routed_scene::all_experts:
        add({.each = 4, .chosen = {0, 1, 2, 3, 3, 2, 1, 0}});
        break;
      case routed_scene::all_dropped:
        add({.each = 2, .chosen = std::vector<std::int32_t>(6, -1)});
        break;
      case routed_scene::padded: {
        auto x = drawn_rows(6, 2, s);
        x.padded = 4;
        add(x);
        break;
      }
      case routed_scene::empty:
        add({.each = 2, .chosen = {}});
        break;
    }
  return out;
}

struct routed_result {
  numbers y, dx, dweights;
  /// Of `up` and of `down`, by source: all experts of the rank.
  std::vector<numbers> sums[2] = {};

  /// The gradient of one of the rank's experts.
  numbers gradient_of(int index, std::int64_t expert, std::int64_t own, int source) const {
    const auto& all = sums[index].at(std::size_t(source));
    const auto each = std::int64_t(all.size()) / own;
    return {all.begin() + expert * each, all.begin() + (expert + 1) * each};
  }
  friend bool operator==(const routed_result&, const routed_result&) = default;
};

/// A pass forward, and backward for the loss sum y[i] cos(i).
template <class T>
routed_result routed_pass(runtime::stream& on,
                          const routed_rows& rows,
                          expert_grid of,
                          int rank,
                          const runtime::axis_map<runtime::communicator*>& groups,
                          bool gathers) {
  using namespace runtime;
  const auto rounded = [](const numbers& x) { return std::vector<T>(x.begin(), x.end()); };
  routed_store<T> store(on, of, rank);
  tape graph(on, store, {.groups = groups});
  graph.begin_segment(0);
  const auto x
      = graph.make(uploaded(on, rounded(rows.x), {rows.R(), routed_width}), placement::replicated);
  const auto weights
      = graph.make(uploaded(on, rows.weights, {rows.R(), rows.each}), placement::replicated);
  const auto plan = rows_of_experts(
      graph,
      {.chosen = rows.chosen, .experts = routed_experts, .each = rows.each, .padded = rows.padded},
      {.gathers = gathers});
  const auto there = dispatch(graph, x, weights, plan);
  const auto all = gather_rows(graph, there.rows, plan);
  const auto factors = gather_rows(graph, there.weights, plan);
  const auto own = routed_experts / of.expert, n = routed_ffn / of.tensor;
  auto hidden = grouped_linear(graph, all, product::column, plan->groups, own, n, 0);
  hidden = weighted_activation(graph, hidden, factors, kernels::activation::gelu_tanh);
  hidden = grouped_linear(graph, hidden, product::row, plan->groups, own, routed_width, 1);
  const auto y = combine(graph, scatter_rows(graph, hidden, plan), plan);
  graph.end_segment();
  numbers slope(static_cast<std::size_t>(y.data.size()));
  for (std::size_t i = 0; i < slope.size(); ++i)
    slope[i] = float(std::cos(double(i)));
  graph.add(*y.gradient, uploaded(on, rounded(slope), y.data.extents()));
  graph.input_gradients(0);
  graph.weight_gradients(0);
  const auto wide = [&](const tensor& t) {
    const auto elements = elements_of<T>(on, t);
    return numbers(elements.begin(), elements.end());
  };
  return {.y = wide(y.data),
          .dx = wide(x.gradient->sum),
          .dweights = elements_of<float>(on, weights.gradient->sum),
          .sums = {store.sums_of(0), store.sums_of(1)}};
}

}  // namespace troupe::tests
