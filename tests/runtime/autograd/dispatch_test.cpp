// The exchange of rows between expert ranks, on threads and on fibers: every number of ranks has
// the bits of one rank, with both ways of rows. EXPERTS-1.

#include "runtime/autograd/dispatch.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/fibers.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/routed_experts.hpp"

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

constexpr auto E = routed_experts, C = routed_width, N = routed_ffn;

using integers = std::vector<std::int32_t>;
using counts = std::vector<std::int64_t>;
using scene = routed_scene;

/// Without other ranks.
template <class T>
routed_result alone_with(const routed_rows& rows) {
  stream on(kernels::backend::cpu, 1, {});
  return routed_pass<T>(on, rows, {}, 0, {}, false);
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

/// The results of all ranks.
template <class T>
std::vector<routed_result> of_ranks(expert_grid of,
                                    const std::vector<routed_rows>& rows,
                                    bool gathers,
                                    bool on_fibers = false) {
  std::vector<routed_result> out(std::size_t(of.size()));
  const auto failure = as_ranks(of, on_fibers, {}, [&](int r, const auto& groups) {
    stream on(kernels::backend::cpu, 1, {});
    out[std::size_t(r)] = routed_pass<T>(on, rows[std::size_t(r)], of, r, groups, gathers);
  });
  REQUIRE(failure == "");
  return out;
}

template <class T>
void check_bits(scene which, int ranks, bool gathers, bool on_fibers) {
  const auto rows = rows_in(which);
  const auto got = of_ranks<T>({.expert = ranks}, rows, gathers, on_fibers);
  const auto own = E / ranks;
  for (int s = 0; s < ranks; ++s) {
    CAPTURE(s);
    const auto& mine = got[std::size_t(s)];
    const auto expected = alone_with<T>(rows[std::size_t(s)]);
    CHECK(mine.y == expected.y);
    CHECK(mine.dx == expected.dx);
    CHECK(mine.dweights == expected.dweights);
    for (std::int64_t e = 0; e < E; ++e)
      for (const int index : {0, 1})
        CHECK(got[std::size_t(e / own)].gradient_of(index, e % own, own, s)
              == expected.gradient_of(index, e, E, 0));
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
  const auto rows = rows_in(which);
  const expert_grid of{.expert = expert, .tensor = 2};
  const auto got = of_ranks<float>(of, rows, false);
  CHECK(got == of_ranks<float>(of, rows, true));
  // Each rank adds half of the features, so sums have another order: an error of some 1e-7. A wrong
  // row is off by all of it.
  const auto near = [](const numbers& a, const numbers& b) {
    CHECK(a.size() == b.size());
    CHECK(relative_error(a, b) < 1e-5);
  };
  for (int r = 0; r < of.size(); ++r) {
    CAPTURE(r);
    const auto expected = alone_with<float>(rows[std::size_t(r)]);
    near(got[std::size_t(r)].y, expected.y);
    near(got[std::size_t(r)].dx, expected.dx);
    near(got[std::size_t(r)].dweights, expected.dweights);
  }
}

TEST_CASE("the rows of expert tensor ranks add to the gradient of their source", "[dispatch]") {
  const auto rows = rows_in(scene::mixed);
  const auto got = of_ranks<float>({.expert = 2, .tensor = 2}, rows, false);
  for (int s = 0; s < 2; ++s)
    for (std::int64_t e = 0; e < E; ++e) {
      CAPTURE(s, e);
      // Features [0, N / 2) of expert e, for the rows of ranks (s, 0) and (s, 1).
      numbers expected(std::size_t(N / 2 * C));
      for (const int r : {2 * s, 2 * s + 1}) {
        const auto part = alone_with<float>(rows[std::size_t(r)]).gradient_of(0, e, E, 0);
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += part[i];
      }
      const auto& first_tensor_rank = got[std::size_t(e / 2 * 2)];
      // Products of half of the features may add in another order: rounding only.
      CHECK(relative_error(first_tensor_rank.gradient_of(0, e % 2, 2, s), expected) < 1e-5);
    }
}

TEST_CASE("gradients of rows and weights equal finite differences", "[dispatch]") {
  auto rows = rows_in(scene::mixed)[0];
  const auto found = alone_with<float>(rows);
  const auto loss = [&] {
    const auto y = alone_with<float>(rows).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += double(y[i]) * double(float(std::cos(double(i))));
    return sum;
  };
  // The loss is a sum of some dozen floats of about 10, with a rounding error of about 1e-5; over a
  // step of 1/64 that is 1e-3. Curvature adds as much. Slopes are about 10.
  const auto check = [&](numbers& values, const numbers& gradient) {
    REQUIRE(values.size() == gradient.size());
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
  check(rows.x, found.dx);
  check(rows.weights, found.dweights);
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
  stream on(kernels::backend::cpu, 1, {});
  routed_store<float> store(on, {}, 0);
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
  const auto rows = rows_in(scene::mixed);
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
    stream on(kernels::backend::cpu, 1, {});
    ++begun;
    try {
      while (true)
        routed_pass<float>(on, rows[std::size_t(r)], of, r, groups, gathers);
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
  stream on(kernels::backend::cpu, 1, memory_pool::shadow());
  routed_store<float> store(on, {.expert = 2, .tensor = 2}, 3);
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
