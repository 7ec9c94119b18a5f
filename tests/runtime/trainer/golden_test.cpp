// The reference trainer, compared with losses of PyTorch (tests/golden/gpt/README.md).

#include "kernels/backend/backend.hpp"
#include "tests/support/golden_run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests::golden;

TEST_CASE("the reference trainer reproduces the losses and gradient norms of PyTorch",
          "[golden][unsanitized]") {
  const std::string name = GENERATE("gpt2_learned_tied",
                                    "gpt2_padded_vocab",
                                    "gpt2_masked",
                                    "gpt2_per_token_loss",
                                    "llama_untied_gqa",
                                    "llama_tied_rope_theta",
                                    "llama_gqa_accumulate",
                                    "qwen3_tied_gqa",
                                    "mistral_window",
                                    "llama_rope_llama3",
                                    "qwen3_yarn",
                                    "nemotron",
                                    "persimmon");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  meet(name, where, dtype::f32, in_f32);
}

TEST_CASE("with experts and latent attention the reference trainer reproduces PyTorch",
          "[golden][unsanitized]") {
  const std::string name
      = GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  meet(name, where, dtype::f32, in_f32);
}

// Actors have the bits of this trainer in each layout: the column `bits` of the matrix.
TEST_CASE("on ranks that share experts the reference trainer reproduces PyTorch",
          "[golden][unsanitized]") {
  const std::string name
      = GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3");
  meet(name, kernels::backend::cpu, dtype::f32, in_f32, {.data = 2, .expert = 2});
}

TEST_CASE("on tensor ranks that share experts the reference trainer reproduces PyTorch",
          "[golden][unsanitized]") {
  const std::string name  // norms of whole rows, as of an OLMoE, need one tensor rank
      = GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3");
  const auto layout = GENERATE(
      reference_layout{.tensor = 2, .expert_tensor = 2},
      reference_layout{.tensor = 2, .data = 2, .expert = 4},
      reference_layout{.tensor = 2, .data = 2, .expert = 2, .expert_tensor = 2},
      reference_layout{.tensor = 2, .data = 2, .expert = 4, .expert_sums = source_sums::together});
  auto with_rows = layout;
  with_rows.sequence_parallel = true;
  CAPTURE(layout.data, layout.expert, layout.expert_tensor);
  meet(name, kernels::backend::cpu, dtype::f32, in_f32, with_rows);
}

TEST_CASE("with each optimizer the reference trainer reproduces PyTorch and the papers' formulas",
          "[golden][unsanitized]") {
  const std::string name = GENERATE("gpt2_sgd", "llama_lion", "llama_muon", "gpt2_muon_lion");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  meet(name, where, dtype::f32, in_f32);
}

TEST_CASE("in bf16, with masters and gradients in f32, the reference trainer reproduces PyTorch",
          "[golden][unsanitized]") {
  const auto [name, allowed] = GENERATE(table<std::string, tolerance>(
      {{"qwen3_bf16", in_bf16}, {"mixtral_bf16", in_bf16_with_experts}}));
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  const bool by_tiles = where == kernels::backend::cpu
                        && kernels::instruction_set().find("_amx") != std::string::npos;
  meet(name, where, dtype::bf16, by_tiles ? in_bf16_by_tiles : allowed);
}

TEST_CASE(
    "in fp16, with a loss scale that falls and grows, the reference trainer reproduces PyTorch",
    "[golden][unsanitized]") {
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  meet("qwen3_f16", where, dtype::f16, in_f16);
}
