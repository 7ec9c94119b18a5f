// Sharding over the data axis keeps the same bits.

#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// Small buckets and grains, so that small parameters are split.
worker_settings sharded(const gpt_config& model) {
  return {.model = gpt_spec(model), .bucket_size = 700, .grain = 32};
}

gpt_config cut_for(gpt_config c, int tensor) {
  c.padded_vocabulary = 32;
  c.groups = std::max<std::int64_t>(c.groups, tensor);
  return c;
}

void check_same(const group_step_result& a, const group_step_result& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t r = 0; r < a.losses.size(); ++r) {
    CHECK(a.losses[r].total == b.losses[r].total);
    CHECK(a.losses[r].tokens == b.losses[r].tokens);
  }
  CHECK(a.norms == b.norms);
  CHECK(a.digests == b.digests);
}

}  // namespace

TEST_CASE("a distributed optimizer gives the same bits", "[distributed][unsanitized]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const int tensor = GENERATE(1, 2), pipeline = GENERATE(1, 2), data = GENERATE(2, 3);
  const bool rounded = GENERATE(false, true);
  CAPTURE(name, tensor, pipeline, data, rounded);
  auto settings = sharded(cut_for(base, tensor));
  settings.precision = rounded ? dtype::bf16 : dtype::f32;
  const grid g{tensor, pipeline, data};
  ranks judge(g, settings, kernels::backend::cpu);
  settings.distributed_optimizer = true;
  ranks sharded_ranks(g, settings, kernels::backend::cpu);
  for (auto* const x : {&judge, &sharded_ranks})
    x->shake();
  for (std::uint64_t step = 1; step <= 3; ++step)
    check_same(sharded_ranks.step(step, 2), judge.step(step, 2));
  CHECK(sharded_ranks.gathered() == judge.gathered());
  CHECK(sharded_ranks.gathered(true) == judge.gathered(true));
  int parted = 0;
  for (int d = 0; d < data; ++d) {
    std::map<std::string, std::int64_t> here;
    for (const auto& x : sharded_ranks.at({0, 0, d}).parameters())
      here[x.name] += x.part.size();
    for (const auto& x : judge.at({0, 0, 0}).parameters())
      here[x.name] -= x.part.size();
    for (const auto& [parameter, missing] : here)
      parted += missing < 0;
  }
  CHECK(parted > data);  // parameters are split
}

TEST_CASE("a distributed optimizer of every kind gives the same bits",
          "[distributed][unsanitized]") {
  const auto model
      = cut_for(tiny_gpts(2).at("rope, rms norm, swiglu, no biases, untied, 2 groups"), 2);
  const auto kind = optimizer_kind(GENERATE(1, 2, 3));  // sgd, lion, muon
  const auto mode = muon_tensor_mode(GENERATE(0, 1, 2));
  const int tensor = GENERATE(1, 2), pipeline = GENERATE(1, 2), data = GENERATE(2, 3);
  const bool rounded = GENERATE(false, true);
  if (mode != muon_tensor_mode::blockwise && (kind != optimizer_kind::muon || tensor == 1))
    return;
  CAPTURE(int(kind), int(mode), tensor, pipeline, data, rounded);
  auto settings = sharded(model);
  settings.optimizer.kind = kind;
  settings.optimizer.muon.tensor_mode = mode;
  settings.optimizer.muon.nesterov = rounded;
  settings.precision = rounded ? dtype::bf16 : dtype::f32;
  const grid g{tensor, pipeline, data};
  ranks judge(g, settings, kernels::backend::cpu);
  settings.distributed_optimizer = true;
  ranks sharded_ranks(g, settings, kernels::backend::cpu);
  for (auto* const x : {&judge, &sharded_ranks})
    x->shake();
  for (std::uint64_t step = 1; step <= 3; ++step)
    check_same(sharded_ranks.step(step, 2), judge.step(step, 2));
  CHECK(sharded_ranks.gathered() == judge.gathered());
  CHECK(sharded_ranks.gathered(true) == judge.gathered(true));
}

TEST_CASE("muon on several tensor ranks orthogonalizes as on one rank", "[distributed]") {
  const auto model
      = cut_for(tiny_gpts(2).at("rope, rms norm, swiglu, no biases, untied, 2 groups"), 2);
  const auto mode = muon_tensor_mode(GENERATE(1, 2));  // duplicated, distributed
  CAPTURE(int(mode));
  auto settings = sharded(model);
  settings.optimizer.kind = optimizer_kind::muon;
  settings.optimizer.muon.tensor_mode = mode;
  ranks judge({1, 1, 1}, settings, kernels::backend::cpu);
  ranks two({2, 1, 1}, settings, kernels::backend::cpu);
  judge.step(1, 2);
  two.step(1, 2);
  const auto expected = judge.gathered(), found = two.gathered();
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    double far = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      far = std::max(far, std::abs(double(values[i]) - double(found.at(name)[i])));
    // A step is at most 0.1, and Newton-Schulz iterations enlarge rounding errors of gradients a
    // hundred times.
    CHECK(far < 2e-5);
  }
}

TEST_CASE("4 logical replicas have the same bits on 1, 2 and 4 workers", "[distributed]") {
  const auto [name, model] = GENERATE(from_range(tiny_gpts(2)));
  const int pipeline = GENERATE(1, 2);
  const bool distributed = GENERATE(false, true);
  CAPTURE(name, pipeline, distributed);
  auto settings = sharded(model);
  settings.replicas = 4;
  ranks judge({1, pipeline, 1}, settings, kernels::backend::cpu);
  std::vector<group_step_result> expected;
  for (std::uint64_t step = 1; step <= 2; ++step)
    expected.push_back(judge.step(step, 2));
  for (const int data : {1, 2, 4}) {
    CAPTURE(data);
    settings.replicas = 4 / data;
    settings.distributed_optimizer = distributed;
    ranks seen({1, pipeline, data}, settings, kernels::backend::cpu);
    for (std::uint64_t step = 1; step <= 2; ++step)
      check_same(seen.step(step, 2), expected[step - 1]);
    CHECK(seen.gathered() == judge.gathered());
  }
}

TEST_CASE("a state moves between any two layouts, with masters and moments", "[distributed]") {
  auto model = cut_for(tiny_gpts(2).at("rope, rms norm, swiglu, no biases, untied, 2 groups"), 2);
  model.tied_embeddings = GENERATE(false, true);
  auto settings = sharded(model);
  settings.precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  settings.distributed_optimizer = true;
  settings.optimizer.kind = GENERATE(false, true) ? optimizer_kind::muon : optimizer_kind::adam;
  const bool muon = settings.optimizer.kind == optimizer_kind::muon;
  ranks from({2, 1, 2}, settings, kernels::backend::cpu);
  for (std::uint64_t step = 1; step <= 2; ++step)
    from.step(step, 1);
  const auto parameters = from.gathered(), moments = from.gathered(true);
  std::size_t arrays = 0;  // with muon, matrices except the embedding have one moment
  for (const auto& [name, values] : parameters) {
    const bool one = muon && name.starts_with("decoder.layers.") && !name.ends_with(".bias")
                     && name.find("norm") == name.npos;
    arrays += one ? 1 : 2;
  }
  CHECK(moments.size() == arrays);
  settings.seed = 99;
  ranks to({1, 2, 3}, settings, kernels::backend::cpu);
  to.each([&](const rank_coordinates& s) {
    to.at(s).restore(
        [&](const state_shard& x) {
          fill(x, (parameters.contains(x.name) ? parameters : moments).at(x.name));
        },
        true);
  });
  CHECK(to.gathered() == parameters);
  CHECK(to.gathered(true) == moments);
}

TEST_CASE("each bucket completes once, and reducing it early gives the same bits",
          "[distributed]") {
  const auto model = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  auto settings = sharded(model);
  settings.replicas = 2;
  if (GENERATE(false, true))
    settings.recompute.granularity = recompute_granularity::full;
  settings.chunks = {{chunk_id(0), {0, 6}}};
  stream stream(kernels::backend::cpu, 1, {});
  const auto data = alone(axis::data);
  worker judge(settings, stream, {.along = {{axis::data, data.get()}}}),
      seen(settings, stream, {.along = {{axis::data, data.get()}}});
  std::vector<int> complete;
  seen.on_complete([&](int bucket) {
    complete.push_back(bucket);
    seen.reduce_bucket(bucket, stream);
  });
  for (auto* const x : {&judge, &seen}) {
    x->begin_step({.step = step_id(1), .microbatches = 2, .logical_replicas = 2});
    for (int r = 0; r < 2; ++r)
      for (std::uint32_t m = 0; m < 2; ++m) {
        CHECK(complete.empty());
        const pass_key key{r, chunk_id(0), microbatch_id(m)};
        x->forward(key, tiny_batch(stream, model, 2, 10 * std::uint64_t(r) + m));
        x->backward(key, {});
      }
    if (x == &judge)
      x->reduce();
    else
      x->finish_reduction();
  }
  CHECK(seen.buckets() > 4);
  REQUIRE(int(complete.size()) == seen.buckets());
  for (int b = 0; b < seen.buckets(); ++b)
    CHECK(complete[std::size_t(b)] == b);
  CHECK(seen.norms() == judge.norms());
  CHECK(seen.vote_digests() == judge.vote_digests());
}

TEST_CASE("a forward pass waits for values that are gathered behind a closed gate",
          "[distributed]") {
  const auto model = tiny_gpts(2).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  auto settings = sharded(model);
  settings.distributed_optimizer = true;
  const grid g{1, 1, 2};
  ranks judge(g, settings, kernels::backend::cpu), seen(g, settings, kernels::backend::cpu);
  const cancel_token token;
  judge.step(1, 1);
  seen.step(1, 1);
  const auto loss_of = [&](worker& by, stream& stream) {
    by.begin_step({.step = step_id(2), .training = false});
    by.forward({0, chunk_id(0), microbatch_id(0)}, tiny_batch(stream, model, 2, 3));
    return by.loss(0).total;
  };
  seen.each([&](const rank_coordinates& s) {
    stream here(kernels::backend::cpu, 1, {}), there(kernels::backend::cpu, 1, {});
    auto& by = seen.at(s);
    by.close_parameter_gates(token);
    std::thread gathering([&] {
      for (int b = by.buckets() - 1; b >= 0; --b) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        by.gather_bucket(b, there);
      }
    });
    const auto loss = loss_of(by, here);
    gathering.join();
    ensure(loss == loss_of(judge.at(s), here), "the loss of the gathered values");
  });
  // Without a gather the wait lasts until the end of the generation.
  auto& by = seen.at({});
  by.close_parameter_gates(token);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    token.cancel();
  });
  stream here(kernels::backend::cpu, 1, {});
  CHECK_THROWS_AS(loss_of(by, here), cancelled);
  end.join();
}
