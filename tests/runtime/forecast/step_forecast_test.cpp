#include "runtime/forecast/step_forecast.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_estimates.hpp"
#include "runtime/forecast/goodput.hpp"
#include "runtime/forecast/layout_search.hpp"
#include "runtime/forecast/memory_estimate.hpp"
#include "runtime/schedule/generators.hpp"
#include "tests/support/published_gpts.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Approx;

namespace {

/// 16 hosts with 8 devices of round figures.
cluster_outline round_cluster() {
  return {
      .name = "round",
      .device = {.name = "device", .memory = 80e9, .bandwidth = 2e12, .f32 = 2e13, .bf16 = 4e14},
      .hosts = 16,
      .devices_per_host = 8,
      .inside = {.bandwidth = 4e11, .latency = 2e-6},
      .between = {.bandwidth = 5e10, .latency = 5e-6},
      .rails = 8,
      .device_seconds_between_failures = 1.8e8,
      .detection = 2,
      .restart = 8,
      .job_restart = 600,
      .checkpoint = 30};
}

std::vector<int> ranks_from(int first, int count, int stride) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i)
    out.push_back(first + i * stride);
  return out;
}

gpt_config small_gpt() {
  auto out = gpt2(24, 2048, 16);
  out.sequence = out.positions = 2048;
  return out;
}

step_outline step_on(int world, int tensor, int pipeline, int layers, int v = 1) {
  return {.world = world,
          .tensor = tensor,
          .pipeline = pipeline,
          .expert_tensor = tensor,
          .chunks = even_chunks(layers, pipeline * v),
          .micro = 1,
          .global = 128,
          .sequence_parallel = tensor > 1,
          .distributed_optimizer = true,
          .overlap_gradients = true,
          .overlap_parameters = true};
}

step_forecast forecast_with(const char* schedule,
                            const gpt_config& model,
                            const step_outline& step) {
  const int v = int(step.chunks.size()) / step.pipeline;
  const auto plan = generate(schedule,
                             {.ranks = step.pipeline,
                              .chunks_per_rank = v > 1 ? v : 0,
                              .microbatches = step.microbatches()});
  return forecast_step(gpt_outline(model), step, round_cluster(), plan);
}

}  // namespace

TEST_CASE("a group's span counts its hosts, and its members on one of them", "[forecast]") {
  const auto inside = span_of(ranks_from(0, 8, 1), 8);
  CHECK(inside.hosts == 1);
  CHECK(inside.local == 8);
  const auto across = span_of(ranks_from(3, 16, 8), 8);
  CHECK(across.hosts == 16);
  CHECK(across.local == 1);
  const auto both = span_of(ranks_from(4, 8, 1), 8);
  CHECK(both.size == 8);
  CHECK(both.hosts == 2);
  CHECK(both.local == 4);
}

TEST_CASE("collectives take the time of their slowest link and of their messages", "[forecast]") {
  const auto on = round_cluster();
  const collective_costs costs(on, 1);
  const group_span one = {}, host = {8, 1, 8}, far = {16, 16, 1}, wide = {64, 8, 8};
  CHECK(costs.all_reduce(1e9, one) == 0);
  CHECK(costs.all_gather(8e8, host) == Approx(7e8 / 4e11 + 7 * 2e-6));
  CHECK(costs.all_gather(1.6e9, far) == Approx(1.5e9 / 5e10 + 15 * 5e-6).margin(6e-6));
  // Eight members on each host use eight rails: the links inside are as fast.
  CHECK(costs.all_gather(6.4e9, wide) == Approx(6.3e9 / 4e11).epsilon(0.02));
  CHECK(costs.all_reduce(8e8, host) <= 2 * costs.all_gather(8e8, host));
  // A tree sends fewer messages than a ring.
  CHECK(costs.all_reduce(1e3, far) < 8.1 * 5e-6 + 1e-6);
  CHECK(costs.all_to_all(8e8, host) == Approx(7e8 / 4e11 + 2e-6));
  CHECK(costs.all_to_all(1.6e9, far) == Approx(1.5e9 / 5e10 + 5e-6));
  CHECK(costs.transfer(5e8, true) == Approx(0.01).epsilon(0.01));
  CHECK(costs.transfer(4e8, false) == Approx(0.001).epsilon(0.01));
}

TEST_CASE("layers are shared evenly, with both ends counted if they do not divide", "[forecast]") {
  for (const auto& [layers, chunks] :
       {std::pair(24, 4), {94, 24}, {61, 8}, {7, 3}, {5, 5}, {3, 5}}) {
    INFO(layers << " layers, " << chunks << " chunks");
    const auto all = even_chunks(layers, chunks);
    REQUIRE(int(all.size()) == chunks);
    CHECK(all.front().embedding);
    CHECK(all.back().head);
    int at = 0;
    for (const auto& x : all) {
      CHECK(x.first == at);
      CHECK(x.end >= x.first);
      at = x.end;
    }
    CHECK(at == layers);
  }
  const auto uneven = even_chunks(94, 24);
  CHECK(uneven.front().end == 3);
  CHECK(uneven.back().first == 91);
  CHECK(uneven[1].end - uneven[1].first == 4);
}

TEST_CASE("tensor ranks divide the columns of a first product and the rows of a second one",
          "[forecast]") {
  const auto on = round_cluster();
  const model_outline model = {.hidden = 1024, .sequence = 2048};
  const rank_share share = {.rows = 2048, .tensor = 8, .peak = on.device.bf16};
  const layer_costs costs(model, share, on, {});
  const auto seconds = [&](const product_outline& x) {
    layer_outline layer;
    layer.products = {x};
    return costs.of_layer(layer).forward.products;
  };
  const double first = seconds({1024, 4096});
  CHECK(seconds({4096, 1024, product_split::rows}) == Approx(first));
  CHECK(seconds({4096, 1024}) > 1.1 * first);
  CHECK(seconds({1024, 4096, product_split::none}) > 4 * first);
}

TEST_CASE("the parts of a step add up to its time", "[forecast]") {
  const auto x = forecast_with("interleaved", small_gpt(), step_on(64, 2, 4, 24, 2));
  CHECK(x.seconds
        == Approx(x.passes.all() + x.bubble + x.gradients + x.update + x.gather + x.host));
  CHECK(x.passes.products > x.passes.attention);
  CHECK(x.passes.tensor > 0);
  CHECK(x.bubble > 0);
}

TEST_CASE("a faster schedule has a smaller bubble and the same passes", "[forecast]") {
  const auto model = small_gpt();
  const auto plain = forecast_with("1f1b", model, step_on(64, 1, 4, 24));
  const auto split = forecast_with("zb-h1", model, step_on(64, 1, 4, 24));
  const auto chunks = forecast_with("interleaved", model, step_on(64, 1, 4, 24, 2));
  CHECK(split.bubble < plain.bubble);
  CHECK(chunks.bubble < plain.bubble);
  CHECK(split.passes.all() == Approx(plain.passes.all()));
}

TEST_CASE("FP8 speeds up the products of layers and adds kernels that round", "[forecast]") {
  const auto model = gpt_outline(small_gpt());
  auto on = round_cluster();
  on.device.fp8 = 2 * on.device.bf16;
  auto step = step_on(8, 1, 1, 24);
  const auto wide = estimate_step(model, step, on);
  step.fp8 = true;
  const auto narrow = estimate_step(model, step, on);
  CHECK(narrow.passes.products > 0.5 * wide.passes.products);
  CHECK(narrow.passes.products < 0.65 * wide.passes.products);
  CHECK(narrow.passes.attention == Approx(wide.passes.attention));
  CHECK(narrow.passes.kernels > 1.1 * wide.passes.kernels);
  CHECK_THROWS_AS(estimate_step(model, step, round_cluster()), input_error);
}

TEST_CASE("context ranks divide the work of a sequence and exchange its keys and values",
          "[forecast]") {
  const auto model = gpt_outline(small_gpt());
  const auto on = round_cluster();
  auto step = step_on(8, 1, 1, 24);
  const auto whole = estimate_step(model, step, on);
  step.world *= 2;
  step.context = 2;
  CHECK(step.data() == 8);
  const auto half = estimate_step(model, step, on);
  CHECK(half.passes.attention == Approx(whole.passes.attention / 2).epsilon(0.05));
  CHECK(half.passes.products > 0.5 * whole.passes.products);
  CHECK(half.passes.products < 0.7 * whole.passes.products);
  CHECK(estimate_memory(model, step) < estimate_memory(model, step_on(8, 1, 1, 24)));
  auto slow = on;
  slow.inside.bandwidth = 1e9;  // the exchange outlasts the attention that hides it
  CHECK(half.passes.context < 0.01 * half.passes.attention);
  CHECK(estimate_step(model, step, slow).passes.context > half.passes.attention);
}

TEST_CASE("sequence-parallel collectives of a backward pass run beside products where asked",
          "[forecast]") {
  const auto model = gpt_outline(small_gpt());
  auto step = step_on(8, 8, 1, 24);
  const auto seen = estimate_step(model, step, round_cluster()).passes.tensor;
  step.overlap_tensor = true;
  CHECK(estimate_step(model, step, round_cluster()).passes.tensor < 0.65 * seen);
}

TEST_CASE("recomputation adds a forward pass", "[forecast]") {
  const auto model = small_gpt();
  auto step = step_on(8, 1, 1, 24);
  const auto without = forecast_with("1f1b", model, step);
  step.recompute.granularity = recompute_granularity::full;
  const auto with = forecast_with("1f1b", model, step);
  const double more = with.passes.products / without.passes.products;
  CHECK(more > 1.25);
  CHECK(more < 1.34);
  step.recompute.granularity = recompute_granularity::selective;
  const auto attention = forecast_with("1f1b", model, step);
  CHECK(attention.passes.products == Approx(without.passes.products));
  CHECK(attention.passes.attention > without.passes.attention);
  step.recompute = {.granularity = recompute_granularity::selective,
                    .core_attention = false,
                    .feed_forward = true};
  const auto feed_forward = forecast_with("1f1b", model, step);
  CHECK(feed_forward.passes.products > 1.1 * without.passes.products);
  CHECK(feed_forward.passes.products < with.passes.products);
  CHECK(feed_forward.passes.attention == Approx(without.passes.attention));
}

TEST_CASE("overlapped sums cost less", "[forecast]") {
  const auto model = small_gpt();
  auto step = step_on(64, 1, 1, 24);
  const auto hidden = forecast_with("1f1b", model, step);
  step.overlap_gradients = step.overlap_parameters = false;
  const auto seen = forecast_with("1f1b", model, step);
  CHECK(seen.gradients > 2 * hidden.gradients);
  CHECK(seen.gather > 2 * hidden.gather);
}

TEST_CASE("the rank order decides which groups leave a host", "[forecast]") {
  const auto model = small_gpt();
  auto step = step_on(64, 8, 1, 24);
  const auto near = forecast_with("1f1b", model, step);
  step.order = "dp-cp-ep-tp-pp";  // tensor ranks are on eight hosts, data ranks on one
  const auto far = forecast_with("1f1b", model, step);
  CHECK(far.passes.tensor > 5 * near.passes.tensor);
  CHECK(far.gradients < near.gradients);
}

TEST_CASE("a layout that needs more devices than the cluster has is refused", "[forecast]") {
  const auto model = small_gpt();
  CHECK_THROWS_AS(forecast_with("1f1b", model, step_on(256, 1, 1, 24)), input_error);
}

TEST_CASE("the outline of a GPT has the parameters of its configuration", "[forecast]") {
  for (const auto& model : {gpt2(12, 768, 12), llama3_8b(), mixtral_8x7b(), deepseek_v3()}) {
    const auto outline = gpt_outline(model);
    double all = outline.vocabulary * outline.hidden * (outline.tied ? 1 : 2)
                 + outline.positions * outline.hidden;
    for (const int kind : outline.layers) {
      const auto x = parameters_of(outline.kinds[std::size_t(kind)], {});
      all += x.dense + x.experts;
    }
    CHECK(all == Approx(double(parameter_count(model))).epsilon(0.002));
  }
}

TEST_CASE("recovery keeps 99.5 % of the time at a failure every 1.8 hours", "[forecast]") {
  const auto on = round_cluster();
  const auto x = forecast_goodput(on, 16384, 12, 1.8 * 3600);
  CHECK(x.lost == Approx(2 + 8 + 12));
  CHECK(x.with_recovery == Approx(1 - 22.0 / 6480));
  CHECK(x.with_recovery > 0.995);
  CHECK(x.with_checkpoints < 0.9);
  CHECK(x.interval == Approx(std::sqrt(2 * 30 * 6480.0)));
}

TEST_CASE("failures grow with the devices, and a cluster without a rate has none", "[forecast]") {
  auto on = round_cluster();
  CHECK(forecast_goodput(on, 1000, 1).between_failures == Approx(1.8e5));
  CHECK(forecast_goodput(on, 10000, 1).with_recovery < forecast_goodput(on, 1000, 1).with_recovery);
  on.device_seconds_between_failures = 0;
  const auto none = forecast_goodput(on, 1000, 1);
  CHECK(none.with_recovery == 1);
  CHECK(none.with_checkpoints == 1);
}

TEST_CASE("a search returns layouts that fit, the fastest first", "[forecast]") {
  auto model = gpt2(96, 12288, 96);
  model.sequence = model.positions = 2048;
  const auto outline = gpt_outline(model);
  const auto on = round_cluster();
  const step_outline base = {.world = 128, .global = 512};
  const auto found = search_layouts(outline, base, on, {.tensor_divides = {96, 12288}});
  REQUIRE(!found.best.empty());
  CHECK(found.compared > found.too_large);
  double before = 0;
  for (const auto& x : found.best) {
    CHECK(x.forecast.seconds >= before);
    before = x.forecast.seconds;
    CHECK(x.memory <= 0.9 * on.device.memory);
    CHECK(x.step.world == 128);
    CHECK(x.step.global % (x.step.micro * x.step.data()) == 0);
    CHECK(96 % x.step.tensor == 0);
  }
  // No layout holds the state of a model that is a hundred times larger.
  auto too_large = outline;
  for (auto& kind : too_large.kinds)
    for (auto& p : kind.products)
      p.inputs *= 100;
  const auto none = search_layouts(too_large, base, on, {.tensor_divides = {96, 12288}});
  CHECK(none.best.empty());
  CHECK(none.too_large == none.compared);
  CHECK(none.least_memory > on.device.memory);
}
