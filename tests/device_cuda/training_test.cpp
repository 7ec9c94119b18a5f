// Compares the reference trainer on a device with itself on the CPU.

#include "kernels/backend/cuda_library.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/latent_gpt.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <optional>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

recipe tiny_recipe(const gpt_config& model, dtype precision, std::int64_t data_parallel = 1) {
  recipe recipe;
  recipe.model = model;
  recipe.precision = precision;
  recipe.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  recipe.batch = {.micro = 2, .global = 8, .data_parallel = data_parallel};
  return recipe;
}

std::vector<step_report> steps(const recipe& recipe, backend_kind where, int n) {
  stream stream(where, 1, {});
  reference_trainer by(recipe, std::make_shared<formula_source>(recipe, true), stream);
  std::vector<step_report> out;
  for (int i = 0; i < n; ++i)
    out.push_back(by.step());
  return out;
}

/// `again` may have fewer steps: a launch on the emulated device costs a millisecond.
void check_same_bits(const std::vector<step_report>& all, const std::vector<step_report>& again) {
  REQUIRE(again.size() > 1);
  for (std::size_t i = 0; i < again.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i].state == again[i].state);
    CHECK(all[i].loss == again[i].loss);
  }
}

/// `loss` and `norm`: allowed relative differences. Both trainers sum in f32 in different orders,
/// with a hundred sums per step. 1e-4 is the project's promise for devices.
void check_close(const std::vector<step_report>& here,
                 const std::vector<step_report>& there,
                 double loss = 1e-4,
                 std::optional<double> norm = 1e-3) {
  REQUIRE(here.size() == there.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(there[i].loss == Catch::Approx(here[i].loss).epsilon(loss));
    if (norm)
      CHECK(there[i].grad_norm == Catch::Approx(here[i].grad_norm).epsilon(*norm));
  }
}

}  // namespace

TEST_CASE("a device trains like the CPU, with reproducible bits", "[device][unsanitized]") {
  const auto [name, model] = GENERATE(from_range(tiny_gpts(2)));
  CAPTURE(name);
  const auto recipe = tiny_recipe(model, dtype::f32);
  const auto here = steps(recipe, backend_kind::cpu, 4);
  const auto there = steps(recipe, backend_kind::cuda, 4),
             again = steps(recipe, backend_kind::cuda, 2);
  check_close(here, there);
  check_same_bits(there, again);
}

TEST_CASE("a device trains latent attention like the CPU", "[device][unsanitized]") {
  const bool low_rank = GENERATE(false, true), narrow = GENERATE(false, true);
  CAPTURE(low_rank, narrow);
  auto recipe = tiny_recipe(gpt_for_latents(), dtype::f32);
  recipe.own = latent_extension(low_rank);
  const auto here = steps(recipe, backend_kind::cpu, 3);
  recipe.precision = narrow ? dtype::bf16 : dtype::f32;
  const auto there = steps(recipe, backend_kind::cuda, 3);
  check_close(here, there, narrow ? 1e-2 : 1e-4, std::nullopt);
}

TEST_CASE("a device trains experts like the CPU, with reproducible bits", "[device][unsanitized]") {
  auto model = tiny_gpts(2).at("rope, rms norm, swiglu, no biases, untied, 2 groups");
  auto& x = model.experts;
  x.number = 4;
  x.ffn = 6;
  const std::string balance
      = GENERATE(as<std::string>{}, "losses and a capacity", "bias", "sinkhorn", "quantile");
  CAPTURE(balance);
  if (balance == "losses and a capacity") {
    x.balance = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
    x.balance_weights = {0.1, 0.2, 0.3};
    x.z_weight = 0.1;
    x.capacity = 1;
    x.pads = x.shared_gate = true;
    x.shared_ffn = 5;
  } else if (balance == "bias") {
    x.score = "sigmoid";
    x.expert_bias = true;
    x.layers = "[0,1]";
  } else {
    x.balance = {balance == "sinkhorn" ? balance : "quantile_balancing"};
  }
  REQUIRE(validate(model).empty());
  const auto recipe = tiny_recipe(model, dtype::f32);
  const auto here = steps(recipe, backend_kind::cpu, 3);
  const auto there = steps(recipe, backend_kind::cuda, 3),
             again = steps(recipe, backend_kind::cuda, 2);
  check_close(here, there);
  check_same_bits(there, again);
}

// The host draws the initial weights; each device computes the digest in its own memory.
TEST_CASE("a state has the same digest on the CPU and on a device", "[device]") {
  auto recipe = tiny_recipe(tiny_gpts(2).begin()->second, dtype::f32);
  recipe.rate = {.maximum = 0, .minimum = 0, .style = decay_style::constant};
  recipe.optimizer.beta1 = recipe.optimizer.beta2 = 1;  // moments stay zero
  CHECK(steps(recipe, backend_kind::cpu, 1)[0].state
        == steps(recipe, backend_kind::cuda, 1)[0].state);
}

TEST_CASE("a device trains in bf16 within 1 % of the CPU's fp32", "[device][unsanitized]") {
  auto model = tiny_gpts(2).begin()->second;
  model.ffn = GENERATE(20, 24);  // GELU in our own kernel, and fused into the products
  const auto exact = steps(tiny_recipe(model, dtype::f32), backend_kind::cpu, 12);
  const auto recipe = tiny_recipe(model, dtype::bf16);
  const auto there = steps(recipe, backend_kind::cuda, 12),
             again = steps(recipe, backend_kind::cuda, 3);
  check_close(exact, there, 1e-2, std::nullopt);
  check_same_bits(there, again);
}

// Differences of sums grow with each update. tests/bench/gpu.sh --part losses tests the real size
// on a real device.
TEST_CASE("a device stays close to the CPU over a hundred steps, in fp32 and in bf16",
          "[device][unsanitized]") {
  const auto long_recipe = [](dtype precision) {
    auto recipe = tiny_recipe(tiny_gpt(1), precision);
    recipe.batch = {.micro = 4, .global = 4};
    recipe.rate.decay = 400;
    return recipe;
  };
  const auto exact = steps(long_recipe(dtype::f32), backend_kind::cpu, 100);
  REQUIRE(exact[99].loss < 0.9 * exact[0].loss);  // the model really learns
  const bool narrow = GENERATE(false, true);
  const auto recipe = long_recipe(narrow ? dtype::bf16 : dtype::f32);
  const auto there = steps(recipe, backend_kind::cuda, 100);
  const auto again = steps(recipe, backend_kind::cuda, 3);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    const double allowed = narrow ? 1e-2 : i < 20 ? 1e-4 : 1e-3;
    CHECK(there[i].loss == Catch::Approx(exact[i].loss).epsilon(allowed));
  }
  check_same_bits(there, again);
}

TEST_CASE("on a device the backward product includes the gradient of GELU", "[device]") {
  auto model = tiny_gpts(2).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  model.ffn = 24;  // rows with the alignment that cuBLASLt's GELU gradient needs
  REQUIRE(model.activation == troupe::kernels::activation::gelu_tanh);
  steps(tiny_recipe(model, dtype::bf16), backend_kind::cuda, 1);
  const auto choices = troupe::kernels::open_cuda().choices();
  CHECK(std::any_of(choices.begin(), choices.end(), [](const auto& choice) {
    return choice.product.starts_with("backward_input bf16 gelu_gradient ");
  }));
}

TEST_CASE("replicas that a device computes in turn add up as on the CPU", "[device]") {
  const auto recipe = tiny_recipe(tiny_gpts(2).begin()->second, dtype::f32, 2);
  const auto here = steps(recipe, backend_kind::cpu, 3),
             there = steps(recipe, backend_kind::cuda, 3);
  check_close(here, there, 1e-4, std::nullopt);
}

TEST_CASE("a device trains in fp16 with a loss scale like the CPU", "[device][unsanitized]") {
  auto recipe = tiny_recipe(tiny_gpts(2).begin()->second, dtype::f16);
  recipe.scaling.initial = 1 << 24;  // overflows: the first steps are skipped
  const auto here = steps(recipe, backend_kind::cpu, 16),
             there = steps(recipe, backend_kind::cuda, 16);
  const auto again = steps(recipe, backend_kind::cuda, 4);
  int left_out = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(there[i].loss == Catch::Approx(here[i].loss).epsilon(1e-2));
    CHECK(there[i].scale == here[i].scale);
    left_out += i > 0 && there[i].scale.value < there[i - 1].scale.value ? 1 : 0;
  }
  check_same_bits(there, again);
  CHECK(left_out > 0);
  CHECK(there.back().state != there.front().state);
}
