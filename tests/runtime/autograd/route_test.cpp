// The router on a tape: gradients against finite differences, losses, rows of tensor ranks.

#include "runtime/autograd/route.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::normal;
using troupe::tests::relative_error;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::int64_t B = 2, T = 4, C = 6, E = 5, k = 2, R = B * T;

using floats = std::vector<float>;

floats numbers(const tensor& x) {
  const auto all = x.elements<float>();
  return {all.begin(), all.end()};
}

double mean(const tensor& sums) {
  return sums.elements<double>()[0] / sums.elements<double>()[1];
}

/// Parameters: weight (E, C) and bias (E) of a gate.
struct fixture {
  stream on{kernels::backend::reference, 1, {}};
  resident_store store;
  row_layout rows;

  explicit fixture(dtype type = dtype::f32)
      : store({{"unit",
                {{.name = "weight", .extents = {E, C}, .keep_f32 = true},
                 {.name = "bias", .extents = {E}, .keep_f32 = true}}}},
              1,
              {},
              type) {
    store.set(store.entries()[0], 0, normal<float>(E * C, 3));
    store.set(store.entries()[1], 0, normal<float>(E, 4));
    rows.order = uploaded<std::int32_t>(on, std::vector<std::int32_t>(R), {B, T});
    rows.samples = uploaded<std::uint64_t>(on, std::vector<std::uint64_t>{7, 1}, {B});
  }

  tensor made(const floats& x, shape extents) { return uploaded<float>(on, x, extents); }
};

floats gradient_of(fixture& x, int entry) {
  const float* const first = x.store.gradients(0, entry);
  return {first, first + (entry == 0 ? E * C : E)};
}

/// Counts to use in place of those of the micro-batch.
std::function<counted_choices(const tensor&)> known(fixture& x,
                                                    const std::vector<std::uint64_t>& counts,
                                                    double rows) {
  const counted_choices out{uploaded<std::uint64_t>(x.on, counts, {std::int64_t(counts.size())}),
                            rows};
  return [out](const tensor&) { return out; };
}

/// Logits that are far from ties.
floats some_logits() {
  floats out;
  for (int i = 0; i < R * E; ++i)
    out.push_back(float(i * 37 % 41) / 12 - 1.7F);
  return out;
}

/// A pass of the router, whose objective is sum(weights * up) + the weighted losses.
struct routing {
  double objective = 0;
  floats dlogits;
  routed found;

  routing(fixture& x, const floats& logits, const route_options& options, const floats& up) {
    tape graph(x.on, x.store, {});
    graph.begin_segment(0);
    const auto in = graph.make(x.made(logits, {B, T, E}), placement::replicated);
    found = route(graph, in, x.rows, options);
    graph.end_segment();
    const auto weights = numbers(found.weights.data);
    objective = std::inner_product(weights.begin(), weights.end(), up.begin(), 0.0);
    for (std::size_t i = 0; i < options.balance.size(); ++i)
      objective += double(options.balance[i].average.scale) * mean(found.balance[i]);
    if (options.z)
      objective += double(options.z->scale) * mean(found.z);
    found.weights.gradient->sum = x.made(up, {B, T, k});
    graph.input_gradients(0);
    dlogits = numbers(in.gradient->sum);
  }
};

}  // namespace

TEST_CASE("the router's gradient equals the derivative of weights and losses",
          "[autograd][route]") {
  fixture x;
  route_options options{.rules = {.E = E, .k = k, .scale = 1.5F}};
  options.rules.score = kernels::every_route_score[GENERATE(range(0, 4))];
  const int losses = GENERATE(0, 1, 2, 3);
  if (losses == 1)
    options.z = loss_average{0.3F, true};
  if (losses >= 2)
    options.balance = {{.average = {0.7F}}, {.average = {0.2F}, .by_sequence = true}};
  if (losses == 3) {
    options.z = loss_average{0.3F};
    options.balance.push_back({.average = {0.5F}, .counts = known(x, {9, 0, 3, 8, 20}, 20)});
  }
  const bool given = GENERATE(false, true);
  if (given) {  // not the best experts
    std::vector<std::int32_t> choice;
    for (std::int32_t r = 0; r < R; ++r)
      for (std::int32_t j = 0; j < k; ++j)
        choice.push_back((3 * r + 2 * j) % E);
    options.given = uploaded<std::int32_t>(x.on, choice, {B, T, k});
  }
  CAPTURE(int(options.rules.score), losses, given);
  const auto up = normal<float>(R * k, 5);
  auto logits = some_logits();
  const routing at(x, logits, options, up);
  floats slopes;
  for (auto& logit : logits) {
    // The differences are of order four: errors of 1e-6 in steps and of 1e-5 in roundings.
    const auto objective = [&](float by) {
      const float before = std::exchange(logit, logit + by);
      const double out = routing(x, logits, options, up).objective;
      logit = before;
      return out;
    };
    constexpr float step = 0x1p-6F;
    const double one = objective(step) - objective(-step);
    const double two = objective(2 * step) - objective(-2 * step);
    slopes.push_back(float((8 * one - two) / (12 * double(step))));
  }
  CHECK(relative_error(at.dlogits, slopes) < 2e-4);
}

TEST_CASE("losses count the unbiased choice, and counts the choice itself", "[autograd][route]") {
  fixture x;
  const floats up(R * k);
  const floats bias{0, 0, 0, 0, 50};
  route_options options{.rules = {.E = E, .k = k}, .balance = {{.average = {1}}}};
  const routing plain(x, some_logits(), options, up);
  options.bias = x.made(bias, {E});
  const routing biased(x, some_logits(), options, up);
  CHECK(mean(plain.found.balance[0]) == mean(biased.found.balance[0]));
  CHECK(plain.dlogits == biased.dlogits);
  const auto counts = [](const routing& of, std::int64_t e) {
    const auto all = of.found.counts.elements<std::uint64_t>();
    return all[std::size_t(e)] + all[std::size_t(E + e)];
  };
  CHECK(counts(biased, 4) == R);
  CHECK(counts(plain, 4) < R);
  std::uint64_t sum = 0;
  for (int e = 0; e < E; ++e)
    sum += counts(plain, e);
  CHECK(sum == R * k);

  options.given = plain.found.chosen;
  const routing replayed(x, some_logits(), options, up);
  CHECK(numbers(replayed.found.weights.data) == numbers(plain.found.weights.data));
}

TEST_CASE("a balanced router has a balance loss of 1", "[autograd][route]") {
  fixture x;
  const floats up(R), equal(R * E);
  const std::vector<std::uint64_t> counts(std::size_t(E), 8);
  const route_options options{.rules = {.E = E, .k = 1},
                              .round_robin = true,
                              .balance = {{.average = {1}, .counts = known(x, counts, 40)}}};
  tape graph(x.on, x.store, {.recording = false});
  graph.begin_segment(0);
  const auto in = graph.make(x.made(equal, {B, T, E}), placement::replicated);
  const auto found = route(graph, in, x.rows, options);
  graph.end_segment();
  CHECK(std::abs(mean(found.balance[0]) - 1) < 1e-7);
  CHECK(found.chosen.elements<std::int32_t>()[6] == 6 % E);
}

TEST_CASE("sinkhorn and quantiles give a bias", "[autograd][route]") {
  fixture x;
  auto logits = some_logits();
  for (std::size_t i = 0; i < logits.size(); i += E)
    logits[i] += 6;  // expert 0 is the best of every row
  const auto rows_of_first = [&](const route_options& options) {
    tape graph(x.on, x.store, {.recording = false});
    graph.begin_segment(0);
    const auto in = graph.make(x.made(logits, {B, T, E}), placement::replicated);
    const auto found = route(graph, in, x.rows, options);
    graph.end_segment();
    const auto chosen = found.chosen.elements<std::int32_t>();
    return std::pair(std::ranges::count(chosen, 0), found.quantile_bias);
  };
  route_options options{.rules = {.E = E, .k = 1}};
  CHECK(rows_of_first(options).first == R);
  options.sinkhorn = true;
  CHECK(rows_of_first(options).first < R);
  options.sinkhorn = false;
  options.quantile = true;
  for (int i = 0; i < 4; ++i)
    options.bias = rows_of_first(options).second;
  CHECK(rows_of_first(options).first < R);
}

TEST_CASE("tensor ranks with their own rows have the losses and gradients of one rank",
          "[autograd][route]") {
  const auto logits = some_logits();
  const auto up = normal<float>(R * k, 5);
  const auto score
      = GENERATE(kernels::route_score::softmax_of_chosen, kernels::route_score::sigmoid);
  const route_options options{.rules = {.E = E, .k = k, .score = score},
                              .quantile = true,
                              .balance = {{.average = {0.7F}}, {{0.2F}, true}},
                              .z = loss_average{0.3F}};
  fixture whole;
  const routing expected(whole, logits, options, up);
  constexpr std::size_t ranks = 4;  // each has half a sequence
  constexpr std::int64_t rows_each = R / std::int64_t{ranks};
  const auto group = std::make_shared<local_group>(axis::tensor, int(ranks), cancel_token());
  std::vector<std::thread> threads;
  std::vector<std::string> failures(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto part = [r](const floats& x) {
        const auto share = std::ptrdiff_t(x.size() / ranks);
        return floats(x.begin() + std::ptrdiff_t(r) * share,
                      x.begin() + std::ptrdiff_t(r + 1) * share);
      };
      const auto check = [&](bool good, const char* what) {
        if (!good)
          failures[r] += std::string(what) + "; ";
      };
      local_communicator mine(group, int(r));
      fixture x;
      tape graph(x.on, x.store, {.groups = {{axis::tensor, &mine}}, .sequence_parallel = true});
      graph.begin_segment(0);
      const auto in = graph.make(x.made(part(logits), {rows_each, E}), placement::sequence_sharded);
      const auto found = route(graph, in, x.rows, options);
      graph.end_segment();
      for (std::size_t i = 0; i < 2; ++i)
        check(std::abs(mean(found.balance[i]) - mean(expected.found.balance[i])) < 1e-12,
              "balance");
      check(std::abs(mean(found.z) - mean(expected.found.z)) < 1e-12, "z");
      check(numbers(found.quantile_bias) == numbers(expected.found.quantile_bias), "quantiles");
      check(numbers(found.weights.data) == part(numbers(expected.found.weights.data)), "weights");
      found.weights.gradient->sum = x.made(part(up), {rows_each, k});
      graph.input_gradients(0);
      check(relative_error(numbers(in.gradient->sum), part(expected.dlogits)) < 1e-6, "gradient");
    });
  for (auto& t : threads)
    t.join();
  for (const auto& failure : failures)
    CHECK(failure.empty());
}

TEST_CASE("a gate's gradients equal the derivative, with and without noise", "[autograd][route]") {
  fixture x;
  const gate_noise noise{.eps = GENERATE(0.0F, 0.3F), .key = 11};
  const auto up = normal<float>(R * E, 5);
  auto input = normal<float>(R * C, 6);
  // Linear in each argument, so differences are exact but for roundings.
  const auto objective = [&] {
    tape graph(x.on, x.store, {.recording = false});
    graph.begin_segment(0);
    const auto y = gate(
        graph, graph.make(x.made(input, {B, T, C}), placement::replicated), x.rows, E, 0, 1, noise);
    graph.end_segment();
    const auto all = numbers(y.data);
    return std::inner_product(all.begin(), all.end(), up.begin(), 0.0);
  };
  tape graph(x.on, x.store, {});
  graph.begin_segment(0);
  const auto in = graph.make(x.made(input, {B, T, C}), placement::replicated);
  const auto y = gate(graph, in, x.rows, E, 0, 1, noise);
  graph.end_segment();
  y.gradient->sum = x.made(up, {B, T, E});
  graph.input_gradients(0);
  graph.weight_gradients(0);
  const auto slope = [&](float& of) {
    const float before = std::exchange(of, of + 1);
    const double above = objective();
    of = before - 1;
    const double out = (above - objective()) / 2;
    of = before;
    return float(out);
  };
  floats dx, dweight, dbias(E);
  for (auto& element : input)
    dx.push_back(slope(element));
  const auto& weight = x.store.entries()[0];
  for (std::int64_t i = 0; i < E * C; ++i)
    dweight.push_back(slope(x.store.values()[std::size_t(x.store.value_offset(weight) + i)]));
  CHECK(relative_error(numbers(in.gradient->sum), dx) < 1e-5);
  for (std::int64_t i = 0; i < R * E; ++i)
    dbias[std::size_t(i % E)] += up[std::size_t(i)];
  CHECK(relative_error(gradient_of(x, 0), dweight) < 1e-5);
  CHECK(relative_error(gradient_of(x, 1), dbias) < 1e-6);
}

TEST_CASE("a gate has f32 logits in a narrow store", "[autograd][route]") {
  using kernels::bf16;
  const auto input = normal<float>(R * C, 6);
  std::vector<bf16> narrow(input.begin(), input.end());
  fixture wide, x(dtype::bf16);
  const auto logits = [&](fixture& of, const tensor& in) {
    tape graph(of.on, of.store, {.recording = false});
    graph.begin_segment(0);
    const auto y = gate(graph, graph.make(in, placement::replicated), of.rows, E, 0, 1);
    graph.end_segment();
    return numbers(y.data);
  };
  const floats rounded(narrow.begin(), narrow.end());
  CHECK(logits(x, uploaded<bf16>(x.on, narrow, {B, T, C}))
        == logits(wide, wide.made(rounded, {B, T, C})));

  const auto input_gradient = [](fixture& of, const tensor& from) {
    tape graph(of.on, of.store, {});
    graph.begin_segment(0);
    const auto in = graph.make(from, placement::replicated);
    const auto y = gate(graph, in, of.rows, E, 0, 1, {.eps = 0.1F, .key = 11});
    graph.end_segment();
    y.gradient->sum = of.made(normal<float>(R * E, 5), {B, T, E});
    graph.input_gradients(0);
    graph.weight_gradients(0);
    return in.gradient->sum;
  };
  const auto dx = input_gradient(x, uploaded<bf16>(x.on, narrow, {B, T, C}));
  const auto expected = numbers(input_gradient(wide, wide.made(rounded, {B, T, C})));
  REQUIRE(dx.type() == dtype::bf16);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(float(dx.elements<bf16>()[i]) - expected[i]) <= 0x1p-8F * std::abs(expected[i]));
  // The weight's gradient has the rounded input and the same noise.
  CHECK(gradient_of(x, 0) == gradient_of(wide, 0));
  CHECK(gradient_of(x, 1) == gradient_of(wide, 1));
}

TEST_CASE("ROUTE-1: rules and tensors that contradict each other are refused",
          "[autograd][route]") {
  fixture x;
  tape graph(x.on, x.store, {.recording = false});
  graph.begin_segment(0);
  const auto in = graph.make(x.made(some_logits(), {B, T, E}), placement::replicated);
  const auto refuses = [&](const route_options& options) {
    CHECK_THROWS_MATCHES(
        route(graph, in, x.rows, options), broken_promise, MessageMatches(StartsWith("ROUTE-1")));
  };
  refuses({.rules = {.E = E, .k = 0}});
  refuses({.rules = {.E = E, .k = E + 1}});
  refuses({.rules = {.E = E, .k = 1, .groups = 2}});
  refuses({.rules = {.E = E, .k = 1, .groups = 5, .group_topk = 6}});
  refuses({.rules = {.E = E, .k = 1, .groups = 5, .group_best = 2}});
  refuses({.rules = {.E = E, .k = 2, .groups = 5, .group_topk = 1}});
  refuses({.rules = {.E = E, .k = 1, .score = kernels::route_score::sigmoid}, .sinkhorn = true});
  refuses({.rules = {.E = E, .k = E}, .quantile = true});
  refuses({.rules = {.E = E, .k = 1, .groups = 0}});
  refuses({.rules = {.E = E, .k = 1, .group_topk = 0}});
  refuses({.rules = {.E = E - 1, .k = 1}});
  const floats bias(E);
  refuses({.rules = {.E = E, .k = 1}, .bias = x.made(bias, {E}), .sinkhorn = true});
  refuses({.rules = {.E = E, .k = 1}, .bias = x.made({1}, {1})});
  const std::vector<std::int32_t> given(R);
  refuses({.rules = {.E = E, .k = 2}, .given = uploaded<std::int32_t>(x.on, given, {B, T, 1})});
  const std::vector<std::uint64_t> counts(E);
  refuses(
      {.rules = {.E = E, .k = 1}, .balance = {{.average = {1}, .counts = known(x, counts, 0)}}});
  refuses({.rules = {.E = E, .k = 1}, .balance = {{.average = {1}, .counts = known(x, {1}, 9)}}});
  const auto fewer = graph.make(x.made(floats(E), {1, 1, E}), placement::replicated);
  CHECK_THROWS_MATCHES(route(graph, fewer, x.rows, {.rules = {.E = E, .k = 1}}),
                       broken_promise,
                       MessageMatches(StartsWith("ROUTE-1")));
  CHECK_NOTHROW(
      route(graph, in, x.rows, {.rules = {.E = E, .k = 2, .groups = 5, .group_topk = 2}}));
  graph.end_segment();
}
