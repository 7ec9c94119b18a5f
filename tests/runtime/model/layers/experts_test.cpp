// A mixture of experts: losses, statistics, capacities, recomputation, ranks that share experts.
// gradient_test.cpp compares its gradients with differences, and decoding_test.cpp its logits.

#include "runtime/model/layers/experts.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/inference/score.hpp"
#include "tests/support/experts_gpt.hpp"
#include "tests/support/local_variables.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

using floats = std::vector<float>;
constexpr std::int64_t B = 2;
const pass_settings training{.seed = 9, .step = 4};

/// What a pass leaves. Gradients are by name and source.
struct outcome {
  std::map<std::string, loss_value> losses;
  double objective = 0;
  std::map<std::string, std::vector<floats>> gradients;
};

bool equal(const loss_value& a, const loss_value& b) {
  return a.total == b.total && a.tokens == b.tokens;
}

/// A rank with a whole model in one chunk.
struct rank_of_model {
  stream by;
  chunk model;
  recompute_plan plan;
  resident_store store;

  explicit rank_of_model(const model_spec& spec,
                         const axis_ranks& ranks = {},
                         kernels::backend where = kernels::backend::cpu,
                         dtype type = dtype::f32)
      : by(where, 1, {}),
        model(spec, all_of(spec), ranks, ranks[axis::tensor].size > 1),
        plan(model, {}),
        store(model.units(),
              1,
              by.pool(),
              type,
              ranks,
              {},
              gradient_memory::lasting,
              value_memory::lasting,
              source_sums::by_source) {
    initialise(store, 5);
  }

  /// One micro-batch; its number gives its samples.
  outcome run(std::uint64_t number,
              const pass_settings& settings = training,
              const axis_map<communicator*>& groups = {}) {
    chunk_pass pass(model, plan, by, store, settings, groups);
    pass.forward(tiny_batch(by, model.model(), B, number));
    outcome out;
    for (const auto& loss : losses_of(model.model())) {
      const auto value = pass.loss(loss.name);
      out.losses.emplace(loss.name, value);
      out.objective += loss.weight * value.mean();
    }
    if (settings.training)
      pass.backward(0);
    for (const auto& e : store.entries())
      for (int s = 0; s < store.sources(e); ++s) {
        const float* const from = store.gradients(s, e.index);
        out.gradients[e.spec.name].emplace_back(from, from + e.size());
      }
    return out;
  }

  /// The values of the parameter with this name in the first layer.
  std::span<float> values(const std::string& name) {
    for (const auto& e : store.entries())
      if (e.spec.name == "decoder.layers.0.mlp." + name)
        return store.values().subspan(std::size_t(store.value_offset(e)), std::size_t(e.size()));
    throw std::logic_error("no parameter " + name);
  }
};

const floats& gradient(const outcome& of, const std::string& name) {
  return of.gradients.at("decoder.layers.0.mlp." + name).at(0);
}

/// All losses, a bias, shared experts.
experts_spec balanced() {
  auto x = every_tiny_experts().at("sigmoid, groups, scale, shared experts, swiglu");
  x.router.losses = {{balanced_rows::microbatch, 0.3}, {balanced_rows::sequence, 0.2}};
  x.router.z_weight = 0.1;
  x.router.choice = balance_choice::bias;
  x.router.jitter = 0.1;
  return x;
}

/// Runs each rank in a thread. A failure releases the others.
void in_threads(int ranks, const std::function<void(int, const cancel_token&)>& run) {
  const cancel_token token;
  std::vector<std::thread> threads;
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        run(r, token);
      } catch (const std::exception& e) {
        failures[std::size_t(r)] = e.what();
        token.cancel();
      }
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& failure : failures)
    CHECK(failure == std::string());
}

/// Four ranks, each with a micro-batch, of which `shared` neighbours share experts.
std::vector<outcome> of_four_ranks(const model_spec& model, int shared, bool gathers) {
  std::vector<outcome> out(4);
  std::vector<std::shared_ptr<local_group>> groups;
  in_threads(4, [&, made = std::make_shared<std::once_flag>()](int r, const cancel_token& token) {
    std::call_once(*made, [&] {
      for (int first = 0; first < 4; first += shared)
        groups.push_back(std::make_shared<local_group>(axis::expert, shared, token));
    });
    auto settings = training;
    settings.gathers_rows = gathers;
    local_communicator mine(groups[std::size_t(r / shared)], r % shared);
    rank_of_model rank(model, {{axis::expert, {r % shared, shared}}});
    out[std::size_t(r)]
        = rank.run(std::uint64_t(r), settings, {{axis::expert, shared == 1 ? nullptr : &mine}});
  });
  return out;
}

}  // namespace

TEST_CASE("one expert is a feed-forward layer", "[model]") {
  auto x = tiny_experts();
  x.router.experts = x.router.chosen = 1;
  auto dense = experts_gpt(x);
  for (std::size_t l = 0; l < 2; ++l)
    dense.part<layer_spec>(l).sublayers.at(1).get_if<residual_sublayer>()->body = feed_forward_spec{
        .hidden = x.hidden, .ffn = x.ffn, .activation = x.activation, .gated = x.gated};
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  rank_of_model one(experts_gpt(x), {}, where), layer(dense, {}, where);
  for (const auto& e : layer.store.entries()) {
    auto name = e.spec.name;
    const auto at = name.find("mlp.");
    if (at == std::string::npos)
      continue;
    name.insert(at + 4, "experts.");
    for (const auto& other : one.store.entries())
      if (other.spec.name == name)
        layer.store.set(e,
                        0,
                        one.store.values().subspan(std::size_t(one.store.value_offset(other)),
                                                   std::size_t(e.valid)));
  }
  const auto found = one.run(1), expected = layer.run(1);
  // Two libraries may multiply the matrices: some roundings of floats of about 4.
  CHECK(std::abs(found.objective - expected.objective) < 1e-5);
  for (const auto* const product : {"linear_fc1.weight", "linear_fc2.weight"})
    CHECK(relative_error(gradient(found, std::string("experts.") + product),
                         gradient(expected, product))
          < 1e-5);
  CHECK(gradient(found, "router.weight") == floats(16));
}

TEST_CASE("losses of the balance of experts are losses of the model", "[model]") {
  const auto traits = traits_of(balanced());
  REQUIRE(traits.losses.size() == 3);
  CHECK(traits.losses[0].name == "load_balancing_loss");
  CHECK(traits.losses[0].weight == 0.3 * 2);
  CHECK(traits.losses[1].name == "seq_load_balancing_loss");
  CHECK(traits.losses[2].name == "z_loss");
  rank_of_model rank(experts_gpt(balanced()));
  const auto found = rank.run(1);
  // Each layer counts its rows.
  for (const auto& loss : traits.losses)
    CHECK(found.losses.at(loss.name).tokens == double(2 * B * rank.model.model().sequence));
  CHECK(found.losses.at("load_balancing_loss").mean() > 0.5);
  // Evaluations have them, too.
  auto evaluation = training;
  evaluation.training = false;
  CHECK(rank.run(1, evaluation).losses.contains("z_loss"));
}

TEST_CASE("the losses of a router have the derivatives of the objective", "[model]") {
  auto x = tiny_experts();
  const int which = GENERATE(range(0, 3));
  CAPTURE(which);
  if (which == 2)
    x.router.z_weight = 2;
  else
    x.router.losses = {{which == 1 ? balanced_rows::sequence : balanced_rows::microbatch, 8}};
  // Weights of rows do not depend on what the losses count.
  rank_of_model rank(experts_gpt(with_forced_choice(x)), {}, kernels::backend::reference);
  const auto expected = gradient(rank.run(1), "router.weight");
  auto weights = rank.values("router.weight");
  auto evaluation = training;
  evaluation.training = false;
  int jumps = 0;
  for (std::size_t i = 0; i < weights.size(); i += 4) {
    constexpr float h = 0x1p-9F;
    const float at = weights[i];
    weights[i] = at + h;
    const double up = rank.run(1, evaluation).objective;
    weights[i] = at - h;
    const double down = rank.run(1, evaluation).objective;
    weights[i] = at;
    // Rounding errors of losses are 1e-6. The gradients reach some tenths.
    if (std::abs((up - down) / double(2 * h) - double(expected[i])) > 2e-3)
      ++jumps;
  }
  // A balance loss jumps where an expert of a row changes: in few of 16 differences.
  CHECK(jumps <= (which == 2 ? 0 : 5));
}

TEST_CASE("a bias gets the counts of W, and those of a capacity after drops", "[model]") {
  auto x = balanced();
  const double capacity = GENERATE(0.0, 0.5);
  x.router.capacity = capacity;
  rank_of_model rank(experts_gpt(x));
  const auto rows = B * rank.model.model().sequence;
  const auto counts = gradient(rank.run(1), "router.expert_bias");
  double sum = 0;
  for (const float n : counts) {
    sum += double(n);
    if (capacity > 0)
      CHECK(n <= float(capacity_of(rows, 2, 4, capacity)));
  }
  if (capacity == 0)
    CHECK(sum == double(2 * rows));
  // Another micro-batch adds its own.
  const auto both = gradient(rank.run(2), "router.expert_bias");
  CHECK(both != counts);
  for (std::size_t e = 0; e < counts.size(); ++e)
    CHECK(both[e] >= counts[e]);
  // An evaluation counts nothing.
  auto evaluation = training;
  evaluation.training = false;
  CHECK(gradient(rank.run(3, evaluation), "router.expert_bias") == both);
}

TEST_CASE("generation and scoring drop no row, evaluations do", "[model]") {
  auto x = balanced();
  rank_of_model unlimited(experts_gpt(x));
  x.router.capacity = 0.25;
  rank_of_model limited(experts_gpt(x));
  const std::vector<std::int32_t> text{3, 1, 4, 1, 5, 9, 2, 6, 5};
  const auto score
      = [&](rank_of_model& of) { return surprise(of.model, of.store, of.by, text, 3); };
  CHECK(score(limited) == score(unlimited));
  const std::vector<std::vector<std::int32_t>> prompt{{3, 1, 4, 1, 5}};
  const auto next = [&](rank_of_model& of) {
    decoder generation(of.model, of.store, of.by, 6, true);
    const auto logits = generation.advance(prompt);
    return floats(logits.begin(), logits.end());
  };
  CHECK(next(limited) == next(unlimited));
  const auto logits = [&](rank_of_model& of) {
    return logits_of(of.model, of.store, of.by, std::span(text).first(6));
  };
  CHECK(logits(limited) == logits(unlimited));
  auto evaluation = training;
  evaluation.training = false;
  CHECK(limited.run(1, evaluation).objective != unlimited.run(1, evaluation).objective);
}

TEST_CASE("sinkhorn balances the choice in training only, and a bias of 0 changes none",
          "[model]") {
  auto x = tiny_experts();
  x.router.score = kernels::route_score::softmax;
  const auto outcome_of = [&](balance_choice choice, bool trains) {
    x.router.choice = choice;
    rank_of_model rank(experts_gpt(x));
    auto settings = training;
    settings.training = trains;
    return rank.run(1, settings);
  };
  using enum balance_choice;
  const auto plain = outcome_of(none, true).objective;
  CHECK(outcome_of(none, false).objective == plain);
  CHECK(outcome_of(sinkhorn, false).objective == plain);
  // A bias of 0 chooses as none does; the quantiles are its gradient.
  const auto quantiles = outcome_of(quantile, true);
  CHECK(quantiles.objective == plain);
  CHECK(gradient(quantiles, "router.expert_bias") != floats(4));
  CHECK(std::isfinite(outcome_of(sinkhorn, true).objective));
  CHECK(outcome_of(forced, true).objective != plain);
}

TEST_CASE("padding changes no result", "[model]") {
  auto x = tiny_experts();
  x.router.capacity = GENERATE(0.75, 2.0);
  x.router.drops = GENERATE(false, true) ? drop_policy::position : drop_policy::probability;
  const auto expected = rank_of_model(experts_gpt(x)).run(1);
  x.router.pads = true;
  const auto padded = rank_of_model(experts_gpt(x)).run(1);
  // A product of more rows may have another order of sums: some roundings.
  CHECK(std::abs(padded.objective - expected.objective) < 1e-6);
  for (const auto* const name : {"experts.linear_fc1.weight", "router.weight"})
    CHECK(relative_error(gradient(padded, name), gradient(expected, name)) < 1e-5);
}

TEST_CASE("experts in bf16 have the results of f32, but for roundings", "[model]") {
  const auto [name, spec] = GENERATE(from_range(every_tiny_experts()));
  CAPTURE(name);
  // A loss of about 4 with numbers of 8 bits.
  CHECK(
      std::abs(
          rank_of_model(experts_gpt(spec), {}, kernels::backend::cpu, dtype::bf16).run(1).objective
          - rank_of_model(experts_gpt(spec)).run(1).objective)
      < 0.1);
}

TEST_CASE("experts have the same bits at every cut and with recomputation", "[model][recompute]") {
  auto gated = every_tiny_experts().at("softmax, shared experts with gate, gelu");
  gated.router.choice = balance_choice::quantile;
  const auto spec = GENERATE_COPY(
      balanced(), gated, every_tiny_experts().at("one sigmoid, latent, shared experts, jitter"));
  const auto how = GENERATE(recompute_settings{},
                            recomputed_experts(true, false, false),
                            recomputed_experts(false, true, false),
                            recomputed_experts(false, false, true),
                            recomputed_experts(false, true, true),
                            recompute_settings{recompute_granularity::full});
  const auto cut = GENERATE(range(std::int64_t{1}, std::int64_t{4}));
  CAPTURE(spec.latent, spec.shared_gate, how.experts, how.expert_activation, how.shared_experts);
  const auto model = experts_gpt(spec, 0.2);
  stream by(kernels::backend::cpu, 1, {});
  stages whole(model, {{0, 4}}, by), two(model, {{0, cut}, {cut, 4}}, by, how);
  for (int m = 0; m < 2; ++m) {
    const auto in = tiny_batch(by, model, B, std::uint64_t(m), true);
    CHECK(two.forward_backward(m, in, training).total
          == whole.forward_backward(m, in, training).total);
  }
  CHECK(two.gradients() == whole.gradients());  // with the counts of biases
}

TEST_CASE("a recomputed router reads the counts of its forward pass", "[model][recompute]") {
  auto x = tiny_experts();
  x.router.losses = {{balanced_rows::step, 0.5}};
  const auto model = experts_gpt(x);
  const auto gradients = [&](const recompute_settings& how) {
    rank_of_model rank(model);
    const recompute_plan plan(rank.model, how);
    step_counts counts;
    auto settings = training;
    settings.step_counts = &counts;
    std::vector<std::unique_ptr<chunk_pass>> passes;
    for (std::uint64_t m = 0; m < 3; ++m) {
      passes.push_back(
          std::make_unique<chunk_pass>(rank.model, plan, rank.by, rank.store, settings));
      passes.back()->forward(tiny_batch(rank.by, model, B, m));
    }
    for (const auto& pass : passes)
      for (int b = pass->blocks() - 1; b >= 0; --b) {
        if (plan.blocks[std::size_t(b)].recomputed)
          pass->recompute(b);
        pass->backward(b);
      }
    std::map<std::string, floats> out;
    for (const auto& e : rank.store.entries()) {
      const float* const from = rank.store.gradients(0, e.index);
      out[e.spec.name] = floats(from, from + e.size());
    }
    return out;
  };
  const auto expected = gradients({});
  CHECK(gradients(recomputed_experts(true, false, false)) == expected);
  CHECK(gradients({recompute_granularity::full}) == expected);
}

TEST_CASE("recomputation of experts covers these segments", "[model][recompute]") {
  const auto model = experts_gpt(balanced());
  const chunk whole(model, {1, 2});
  const auto groups = [&](const recompute_settings& settings) {
    std::string out;
    for (const auto& group : recompute_plan(whole, settings).groups) {
      for (int s = group.first; s < group.end; ++s) {
        const auto& name = whole.program()[std::size_t(s)].name;
        out += name.substr(name.find("mlp.") + 4) + " ";
      }
      out += "| ";
    }
    return out;
  };
  const std::string activation = "act fc2 | ",
                    shared = "shared_experts.fc1 shared_experts.fc2 shared_experts.sum | ";
  CHECK(groups(recomputed_experts(true, false, false))
        == "norm router counts dispatch gather fc1 act fc2 scatter combine " + shared);
  CHECK(groups(recomputed_experts(false, true, false)) == activation);
  CHECK(groups(recomputed_experts(false, false, true)) == shared);
  CHECK(groups(recomputed_experts(false, true, true)) == activation + shared);
}

TEST_CASE("the number of ranks that share experts changes no bit", "[model]") {
  auto all = every_tiny_experts();
  all["balanced"] = balanced();
  auto& limited = all["capacity"] = tiny_experts();
  limited.router.capacity = 0.75;
  const auto [name, spec] = GENERATE_COPY(from_range(all));
  const int shared = GENERATE(2, 4);
  const bool gathers = GENERATE(false, true);
  CAPTURE(name, shared, gathers);
  const auto model = experts_gpt(spec);
  const auto alone = of_four_ranks(model, 1, false), found = of_four_ranks(model, shared, gathers);
  for (std::size_t r = 0; r < 4; ++r) {
    CAPTURE(r);
    for (const auto& [loss, value] : alone[r].losses)
      CHECK(equal(found[r].losses.at(loss), value));
    const auto first = r / std::size_t(shared) * std::size_t(shared), at = r - first;
    for (const auto& [parameter, by_source] : found[r].gradients) {
      CAPTURE(parameter);
      for (std::size_t s = 0; s < by_source.size(); ++s) {
        const bool stacked = by_source.size() > 1;
        const auto& whole = alone[stacked ? first + s : r].gradients.at(parameter).at(0);
        const auto n = stacked ? whole.size() / std::size_t(shared) : whole.size();
        const auto begin = whole.begin() + std::ptrdiff_t(stacked ? at * n : 0);
        CHECK(by_source[s] == floats(begin, begin + std::ptrdiff_t(n)));
      }
    }
  }
}

TEST_CASE("tensor ranks with their own rows have the results of one rank", "[model]") {
  const bool limited = GENERATE(false, true);
  auto spec = limited ? every_tiny_experts().at("one sigmoid, latent, shared experts, jitter")
                      : balanced();
  spec.shared_ffn = 6;  // both ranks have 3
  spec.shared_gate = limited;
  const auto inner = GENERATE(values({axis::tensor, axis::expert, axis::expert_tensor}));
  CAPTURE(limited, inner);
  const auto model = experts_gpt(spec);
  const auto expected = rank_of_model(model).run(1);
  std::vector<outcome> found(2);
  std::vector<std::shared_ptr<local_group>> groups(2);
  in_threads(2, [&, made = std::make_shared<std::once_flag>()](int r, const cancel_token& token) {
    std::call_once(*made, [&] {
      groups = {std::make_shared<local_group>(axis::tensor, 2, token),
                std::make_shared<local_group>(inner, 2, token)};
    });
    local_communicator tensor(groups[0], r), experts(groups[1], r);
    axis_map<communicator*> of{{axis::tensor, &tensor}};
    axis_ranks ranks{{axis::tensor, {r, 2}}};
    if (inner != axis::tensor) {
      of[inner] = &experts;
      ranks[inner] = {r, 2};
    }
    found[std::size_t(r)] = rank_of_model(model, ranks).run(1, training, of);
  });
  // Sums of partial results in another order: roundings of floats.
  for (const auto& one : found)
    CHECK(std::abs(one.objective - expected.objective) < 1e-5);
  for (const auto* const name : {"router.weight",
                                 "router.expert_bias",
                                 "fc1_latent_proj.weight",
                                 "fc2_latent_proj.weight",
                                 "shared_experts.gate_weight",
                                 "experts.linear_fc1.weight",
                                 "experts.linear_fc2.weight"}) {
    const bool cut = std::string(name).starts_with("experts.");
    const auto full = std::string("decoder.layers.0.mlp.") + name;
    if (!expected.gradients.contains(full) || (cut && inner == axis::expert_tensor))
      continue;
    CAPTURE(name);
    floats sum(gradient(expected, name).size());
    for (std::size_t r = 0; r < 2; ++r)
      for (const auto& part : found[r].gradients.at(full)) {
        const auto begin = part.size() < sum.size() ? r * part.size() : 0;  // of experts
        for (std::size_t i = 0; i < part.size(); ++i)
          sum[begin + i] += part[i];
      }
    CHECK(relative_error(sum, gradient(expected, name)) < 1e-4);
  }
}

TEST_CASE("expert ranks divide experts, and expert tensor ranks their width", "[model]") {
  const auto build = [](axis along, int ranks) {
    const auto model = experts_gpt(tiny_experts());
    const chunk whole(model, all_of(model), {{along, {0, ranks}}});
  };
  CHECK_NOTHROW(build(axis::expert, 4));
  CHECK_NOTHROW(build(axis::expert_tensor, 3));
  CHECK_THROWS_AS(build(axis::expert, 3), input_error);
  CHECK_THROWS_AS(build(axis::expert_tensor, 4), input_error);
}

TEST_CASE("layers with experts have their published numbers of parameters and FLOPs", "[model]") {
  const auto parameters = [](const experts_spec& x) {
    unit_spec unit;
    std::vector<shape> caches;
    std::vector<segment> program;
    unit_under_construction in{.unit = unit, .caches = caches, .program = program};
    module_builder to(in, "mlp");
    add(to, x);
    std::int64_t out = 0;
    for (const auto& one : unit.parameters)
      out += whole_extents(one).size();
    return out;
  };
  const experts_spec mixtral{.hidden = 4096, .ffn = 14336, .router = {.experts = 8, .chosen = 2}};
  CHECK(parameters(mixtral) == 8 * 3 * std::int64_t{4096} * 14336 + 8 * 4096);
  CHECK(forward_flops(mixtral, 1024).parameters == 2.0 * 1024 * 2 * 3 * 4096 * 14336);
  const experts_spec v3{.hidden = 7168,
                        .ffn = 2048,
                        .shared_ffn = 2048,
                        .router = {.experts = 256, .chosen = 8, .choice = balance_choice::bias}};
  CHECK(parameters(v3) == 257 * 3 * std::int64_t{7168} * 2048 + 256 * 7168 + 256);
  CHECK(forward_flops(v3, 4096).parameters == 2.0 * 4096 * 9 * 3 * 7168 * 2048);
  auto latent = v3;
  latent.latent = 1024;
  CHECK(parameters(latent)
        == (256 * 1024 + 7168) * 3 * std::int64_t{2048} + 2 * 7168 * 1024 + 256 * 7168 + 256);
  CHECK(forward_flops(latent, 1).parameters
        == 2.0 * ((8.0 * 1024 + 7168) * 3 * 2048 + 2.0 * 7168 * 1024));
}
