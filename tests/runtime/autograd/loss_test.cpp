// The loss: place of the logits' gradient, memory, and exact bits.

#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/masked_loss.hpp"
#include "runtime/autograd/ops.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t T = 6, V = 2048, vocabulary = 2041;
constexpr std::size_t logits_bytes = T * V * sizeof(float);

/// The worker's inputs of a loss, on one of `ranks`.
struct loss_fixture {
  stream on{kernels::backend::cpu, 1, {}};
  resident_store store{{{"unit", {{.name = "gain", .extents = {4}}}}}, 1, {}};
  tensor targets = made<std::int32_t>({1, T}, [](std::int64_t r) { return std::int32_t(r * 331); });
  tensor mask = made<float>({1, T}, [](std::int64_t r) { return r == 2 ? 0.0F : 1.0F; });

  template <class Element, class At>
  tensor made(shape extents, const At& at) {
    auto out = tensor::empty<Element>(on, extents);
    for (std::int64_t i = 0; i < out.size(); ++i)
      out.template data<Element>()[i] = at(i);
    return out;
  }
  static float logit(std::int64_t row, std::int64_t column) {
    return 3 * std::sin(float(row * V + column) * 0.7F);
  }
  /// Logits of rank `r`.
  tensor logits(int r = 0, int ranks = 1) {
    const auto width = V / ranks;
    return made<float>({1, T, width},
                       [=](std::int64_t i) { return logit(i / width, i % width + r * width); });
  }
};

/// The expected results, computed with separate forward and backward operations.
struct two_passes {
  tensor gradient, sums;

  two_passes(loss_fixture& x, loss_average average) : gradient(x.logits()) {
    const auto floats = [&] { return tensor::empty<float>(x.on, {T}); };
    auto loss = floats(), lse = floats(), dloss = floats();
    sums = tensor::empty<double>(x.on, {2});
    auto* const at = sums.data<double>();
    auto* const logits = gradient.data<float>();
    const auto* const target = x.targets.data<std::int32_t>();
    const auto* const mask = x.mask.data<float>();
    x.on.run(kernels::cross_entropy_forward<float>{
        loss.data<float>(), lse.data<float>(), logits, target, T, V, vocabulary});
    x.on.run(kernels::masked_loss_forward<float>{at, at + 1, loss.data<float>(), mask, T});
    const double scale = average.per_row ? average.weight(0, T) : double(average.scale);
    x.on.run(kernels::masked_loss_backward<float>{
        dloss.data<float>(), mask, average.per_row ? nullptr : at + 1, scale, T});
    x.on.run(kernels::cross_entropy_backward<float>{
        logits, logits, lse.data<float>(), target, dloss.data<float>(), T, V, vocabulary});
  }
};

std::vector<float> numbers(const tensor& x) {
  const auto all = x.elements<float>();
  return {all.begin(), all.end()};
}

std::vector<double> pair_of(const tensor& sums) {
  const auto all = sums.elements<double>();
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("a loss and its gradient equal those of separate forward and backward operations",
          "[autograd]") {
  const loss_average average{GENERATE(1.0F, 0.37F), GENERATE(false, true)};
  loss_fixture x;
  const two_passes expected(x, average);
  tape graph(x.on, x.store, {});
  graph.begin_segment(0);
  auto logits = graph.make(x.logits(), placement::feature_sharded);
  const auto back = logits.gradient;
  const auto sums = cross_entropy(graph, std::move(logits), x.targets, x.mask, vocabulary, average);
  graph.end_segment();
  CHECK_FALSE(back->sum);  // the backward pass computes it
  graph.input_gradients(0);
  CHECK(pair_of(sums) == pair_of(expected.sums));
  CHECK(numbers(back->sum) == numbers(expected.gradient));
}

TEST_CASE("the gradient of logits overwrites them, without a second array", "[autograd]") {
  loss_fixture x;
  tape graph(x.on, x.store, {});
  graph.begin_segment(0);
  auto logits = graph.make(x.logits(), placement::feature_sharded);
  const auto back = logits.gradient;
  const auto* const place = logits.data.raw();
  auto pool = x.on.pool();
  const auto before = pool.bytes_in_use();
  pool.reset_peak();
  (void)cross_entropy(graph, std::move(logits), x.targets, x.mask, vocabulary, {});
  graph.end_segment();
  graph.input_gradients(0);
  CHECK(back->sum.raw() == place);
  CHECK(pool.peak_bytes() < before + logits_bytes / 2);
}

TEST_CASE("logits with another owner are not overwritten", "[autograd]") {
  loss_fixture x;
  const two_passes expected(x, {});
  tape graph(x.on, x.store, {});
  graph.begin_segment(0);
  auto logits = graph.make(x.logits(), placement::feature_sharded);
  const auto back = logits.gradient;
  const auto kept = logits.data;
  (void)cross_entropy(graph, std::move(logits), x.targets, x.mask, vocabulary, {});
  graph.end_segment();
  graph.input_gradients(0);
  CHECK(numbers(kept) == numbers(x.logits()));
  CHECK(numbers(back->sum) == numbers(expected.gradient));
}

TEST_CASE("a loss without a gradient leaves the logits unchanged and has the same bits",
          "[autograd]") {
  loss_fixture x;
  const two_passes expected(x, {});
  tape graph(x.on, x.store, {.recording = false});
  graph.begin_segment(0);
  const auto kept = x.logits();
  // The tensor looks like the only owner of its memory.
  tensor logits(memory_block(const_cast<std::byte*>(kept.raw()), [](std::byte*) {}),
                kept.type(),
                kept.extents());
  const auto sums = cross_entropy(graph,
                                  graph.make(std::move(logits), placement::feature_sharded),
                                  x.targets,
                                  x.mask,
                                  vocabulary,
                                  {});
  graph.end_segment();
  CHECK(pair_of(sums) == pair_of(expected.sums));
  CHECK(numbers(kept) == numbers(x.logits()));
}

TEST_CASE("the gradient of a vocabulary shard equals that of the whole, up to rounding",
          "[autograd]") {
  loss_fixture alone;
  const two_passes whole(alone, {});
  const auto expected = numbers(whole.gradient);
  const auto total = pair_of(whole.sums);
  constexpr int ranks = 2;
  const auto group = std::make_shared<local_group>(axis::tensor, ranks, cancel_token());
  std::vector<std::thread> threads;
  std::vector<double> worst(ranks, HUGE_VAL);
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      loss_fixture x;
      tape graph(x.on, x.store, {.groups = {{axis::tensor, &mine}}});
      graph.begin_segment(0);
      auto logits = graph.make(x.logits(r, ranks), placement::feature_sharded);
      const auto back = logits.gradient;
      const auto sums = cross_entropy(graph, std::move(logits), x.targets, x.mask, vocabulary, {});
      graph.end_segment();
      graph.input_gradients(0);
      double away = std::abs(pair_of(sums)[0] - total[0]) / total[0];
      const auto part = numbers(back->sum);
      constexpr auto width = V / ranks;
      for (std::int64_t i = 0; i < T * width; ++i)
        away = std::max(
            away,
            std::abs(double(part[std::size_t(i)])
                     - double(expected[std::size_t(i / width * V + r * width + i % width)])));
      worst[std::size_t(r)] = away;
    });
  for (auto& t : threads)
    t.join();
  // A few roundings of floats below 1.
  CHECK(*std::max_element(worst.begin(), worst.end()) < 1e-6);
}

TEST_CASE("log-probabilities take their gradient later, and both equal those of the loss",
          "[autograd]") {
  const bool with_owner = GENERATE(false, true);
  loss_fixture x;
  const two_passes expected(x, {});
  tape graph(x.on, x.store, {});
  graph.begin_segment(0);
  auto logits = graph.make(x.logits(), placement::feature_sharded);
  const auto back = logits.gradient;
  const auto* const place = logits.data.raw();
  const auto kept = with_owner ? logits.data : tensor();
  const auto y = token_log_probs(graph, std::move(logits), x.targets, vocabulary);
  graph.end_segment();
  double total = 0;
  auto dy = x.mask;
  for (std::int64_t r = 0; r < T; ++r) {
    total -= double(y.data.data<float>()[r]) * double(dy.data<float>()[r]);
    dy.data<float>()[r] *= -1.0F / 5;  // the mean over 5 rows
  }
  CHECK(total == pair_of(expected.sums)[0]);
  graph.add(*y.gradient, dy);
  graph.input_gradients(0);
  CHECK(numbers(back->sum) == numbers(expected.gradient));
  CHECK((back->sum.raw() == place) == !with_owner);
  if (with_owner)
    CHECK(numbers(kept) == numbers(x.logits()));
}

TEST_CASE("log-probabilities and their gradient are those of all shards of the vocabulary",
          "[autograd]") {
  loss_fixture alone;
  const two_passes whole(alone, {});
  const auto expected = numbers(whole.gradient);
  const double total = pair_of(whole.sums)[0];
  constexpr int ranks = 2;
  constexpr auto width = V / ranks;
  const auto group = std::make_shared<local_group>(axis::tensor, ranks, cancel_token());
  std::vector<std::thread> threads;
  std::vector<double> worst(ranks, HUGE_VAL);
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      loss_fixture x;
      tape graph(x.on, x.store, {.groups = {{axis::tensor, &mine}}});
      graph.begin_segment(0);
      auto logits = graph.make(x.logits(r, ranks), placement::feature_sharded);
      const auto back = logits.gradient;
      const auto y = token_log_probs(graph, std::move(logits), x.targets, vocabulary);
      graph.end_segment();
      double sum = 0;
      auto dy = x.mask;
      for (std::int64_t i = 0; i < T; ++i) {
        sum -= double(y.data.data<float>()[i]) * double(dy.data<float>()[i]);
        dy.data<float>()[i] *= -1.0F / 5;
      }
      graph.add(*y.gradient, dy);
      graph.input_gradients(0);
      double away = std::abs(sum - total) / total;
      const auto part = numbers(back->sum);
      for (std::int64_t i = 0; i < T * width; ++i)
        away = std::max(
            away,
            std::abs(double(part[std::size_t(i)])
                     - double(expected[std::size_t(i / width * V + r * width + i % width)])));
      worst[std::size_t(r)] = away;
    });
  for (auto& t : threads)
    t.join();
  // A few roundings of floats below 1.
  CHECK(*std::max_element(worst.begin(), worst.end()) < 1e-6);
}

TEST_CASE("a loss of replicated logits is that of one rank, on each rank", "[autograd]") {
  loss_fixture alone;
  const two_passes whole(alone, {});
  constexpr int ranks = 2;
  const auto group = std::make_shared<local_group>(axis::tensor, ranks, cancel_token());
  std::vector<std::thread> threads;
  std::vector<char> equal(ranks);
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      loss_fixture x;
      tape graph(x.on, x.store, {.groups = {{axis::tensor, &mine}}});
      graph.begin_segment(0);
      auto logits = graph.make(x.logits(), placement::replicated);
      const auto back = logits.gradient;
      const auto sums = cross_entropy(graph, std::move(logits), x.targets, x.mask, vocabulary, {});
      graph.end_segment();
      graph.input_gradients(0);
      equal[std::size_t(r)]
          = pair_of(sums) == pair_of(whole.sums) && numbers(back->sum) == numbers(whole.gradient);
    });
  for (auto& t : threads)
    t.join();
  CHECK(equal == std::vector<char>(ranks, 1));
}
