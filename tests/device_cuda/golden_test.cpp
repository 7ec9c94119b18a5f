// Compares training on a device with losses from PyTorch (tests/golden/gpt/README.md).

#include "tests/support/emulated_plugins.hpp"
#include "tests/support/golden_run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests::golden;

TEST_CASE("a device reproduces the losses and gradient norms of PyTorch in fp32",
          "[device][golden][unsanitized]") {
  const std::string name = GENERATE(
      "gpt2_learned_tied", "gpt2_masked", "gpt2_per_token_loss", "qwen3_yarn", "mixtral");
  meet(name, kernels::backend::cuda, dtype::f32, in_f32);
}

TEST_CASE("a device reproduces PyTorch in bf16, and in fp16 with a dynamic loss scale",
          "[device][golden][unsanitized]") {
  meet("qwen3_bf16", kernels::backend::cuda, dtype::bf16, in_bf16);
  meet("qwen3_f16", kernels::backend::cuda, dtype::f16, in_f16);
}
