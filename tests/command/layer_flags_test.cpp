#include "runtime/family/gpt/gpt.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"
#include "tests/command/given_flags.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("Megatron-LM's flags select the layers of newer models", "[command]") {
  const auto m = tests::job_of_flags(
                     "--qk-layernorm --apply-layernorm-1p --squared-relu --window-size 16,0 "
                     "--position-embedding-type rope --use-rope-scaling "
                     "--rotary-seq-len-interpolation-factor 2")
                     .training.model.as<runtime::gpt_config>();
  CHECK(m.qk_norm);
  CHECK(m.gain_offset == 1);
  CHECK(m.window == 16);
  CHECK(m.activation == runtime::activation_kind::squared_relu);
  CHECK(m.scaling == runtime::rope_scaling::llama3);
  CHECK(m.scaling_factor == 8);
  CHECK(m.scaling_positions == 8192);
  CHECK(m.rotary_interpolation == 2);
  CHECK(tests::job_of_flags("--window-size (16,0)").training.model.as<runtime::gpt_config>().window
        == 16);
  CHECK(tests::job_of_flags("--window-size -1,0").training.model.as<runtime::gpt_config>().window
        == -1);
  CHECK(tests::job_of_flags(
            "--position-embedding-type rope --use-rope-scaling --rope-scaling-factor 32")
            .training.model.as<runtime::gpt_config>()
            .scaling_factor
        == 32);

  const auto y = tests::job_of_flags(
                     "--position-embedding-type yarn --rotary-scaling-factor 32 --mscale 0.7 "
                     "--mscale-all-dim 0.5 --yarn-beta-fast 30 --yarn-beta-slow 2 "
                     "--no-yarn-correction-range-round-to-int")
                     .training.model.as<runtime::gpt_config>();
  CHECK(y.position == runtime::position_embedding::rope);
  CHECK(y.scaling == runtime::rope_scaling::yarn);
  CHECK(y.scaling_factor == 32);
  CHECK(y.scaling_positions == 4096);
  CHECK(y.yarn_mscale == 0.7);
  CHECK(y.yarn_mscale_all == 0.5);
  CHECK(y.yarn_fast == 30);
  CHECK(y.yarn_slow == 2);
  CHECK(!y.yarn_round);

  const std::pair<const char*, const char*> refused[] = {
      {"--window-size 16", "give LEFT,0"},
      {"--window-size 16,16", "no later ones"},
      {"--window-size x,0", "whole number"},
      {"--squared-relu --swiglu", "give one"},
      {"--use-rope-scaling", "--position-embedding-type rope"},
      {"--position-embedding-type rope --rope-scaling-factor 4", "without --use-rope-scaling"},
      {"--position-embedding-type rope --yarn-beta-fast 4", "--position-embedding-type yarn"},
      {"--position-embedding-type yarn --use-rope-scaling", "give one"},
      {"--position-embedding-type yarn --rotary-interleaved", "leave out"},
  };
  for (const auto& [flags, says] : refused) {
    INFO(flags);
    CHECK_THAT(tests::refusal_of_flags(tests::small_run + flags), ContainsSubstring(says));
  }
}

TEST_CASE("Megatron-LM's flags select the layers of a Llama", "[command]") {
  const auto m = tests::job_of_flags(
                     "--group-query-attention --num-query-groups 2 --kv-channels 32 --swiglu "
                     "--normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
                     "--rotary-percent 0.5 --rotary-interleaved --disable-bias-linear "
                     "--add-qkv-bias --untie-embeddings-and-output-weights --norm-epsilon 1e-6 "
                     "--hidden-dropout 0 --attention-dropout 0")
                     .training.model.as<runtime::gpt_config>();
  CHECK(m.groups == 2);
  CHECK(m.head_size == 32);
  CHECK(m.ffn == 128);  // 8/3 of 64 is 170, rounded down to a multiple of 64
  CHECK(m.activation == runtime::activation_kind::silu);
  CHECK(m.gated);
  CHECK(m.normalization == runtime::normalization_kind::rms);
  CHECK(m.position == runtime::position_embedding::rope);
  CHECK(m.rotary_base == 500000);
  CHECK(m.rotary_percent == 0.5);
  CHECK(m.rotary_interleaved);
  CHECK(!m.linear_bias);
  CHECK(m.qkv_bias);
  CHECK(!m.tied_embeddings);
  // Without its fused kernel, which also needs biases, Megatron-LM uses the exact formula.
  for (const auto* exact : {"--no-bias-gelu-fusion", "--disable-bias-linear"})
    CHECK(tests::job_of_flags(exact).training.model.as<runtime::gpt_config>().activation
          == runtime::activation_kind::gelu_erf);
  CHECK(tests::job_of_flags("--no-position-embedding")
            .training.model.as<runtime::gpt_config>()
            .position
        == runtime::position_embedding::none);
}

TEST_CASE("Megatron-LM's flags select experts and latent attention", "[command]") {
  const auto of = [](const std::string& more) {
    return tests::job_of_flags("--disable-bias-linear " + more)
        .training.model.as<runtime::gpt_config>();
  };
  const auto mixture = of(
      "--num-experts 8 --ffn-hidden-size 96 --moe-layer-freq ([0]*1+[1]*3) "
      "--moe-router-load-balancing-type aux_loss seq_aux_loss global_aux_loss "
      "--moe-aux-loss-coeff 0.5 0.25 1 --moe-router-dtype fp32");
  CHECK(mixture.experts.number == 8);
  CHECK(mixture.experts.chosen == 2);
  CHECK(mixture.experts.ffn == 96);
  CHECK(mixture.expert_layers() == std::vector<bool>{false, true, true, true});
  CHECK(mixture.experts.balance
        == std::vector<std::string>{"aux_loss", "seq_aux_loss", "global_aux_loss"});
  CHECK(mixture.experts.balance_weights == std::vector<double>{0.5, 0.25, 1});
  const auto latent = of("--multi-latent-attention --qk-layernorm --position-embedding-type rope");
  CHECK(
      latent.latent
      == runtime::latent_config{.kv_rank = 32, .own_size = 128, .rotated = 64, .value_size = 128});
  CHECK(latent.head_size == 192);
  CHECK(latent.rotary_interleaved);
}

TEST_CASE("the flags of the GPT-3 345M script make its model", "[command]") {
  const auto x = training_job_from(tests::words_of(
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --attention-backend auto --micro-batch-size 1 "
      "--global-batch-size 1536 --rampup-batch-size 16 16 5859375 --train-iters 500000 "
      "--weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 --clip-grad "
      "1.0 --lr 6.0e-5 --lr-decay-style cosine --min-lr 6.0e-6 --lr-warmup-fraction .001 "
      "--lr-decay-iters 430000 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 "
      "--mock-data --tokenizer-type NullTokenizer --vocab-size 50257 --split 949,50,1 "
      "--data-impl mmap --distributed-backend nccl --log-interval 100 --save-interval 10000 "
      "--eval-interval 1000 --eval-iters 10 --save of-no-run --load of-no-run"));
  CHECK(runtime::parameter_count(x.training.model) == 354823168);
  CHECK(x.training.model.as<runtime::gpt_config>().padded_vocabulary == 50304);
  CHECK(x.training.rate.decay == std::int64_t{430000} * 1536);
  CHECK(x.training.rate.warmup == 660480);
  CHECK(x.training.batch.ramp_increment == 16);
}

TEST_CASE("the flags of the Llama-3 8B script make its model", "[command]") {
  const auto x = training_job_from(tests::words_of(
      "--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 "
      "--seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope "
      "--rotary-base 1000000 --rotary-percent 1.0 --attention-dropout 0.0 --hidden-dropout 0.0 "
      "--swiglu --init-method-std 0.0134 --attention-backend fused --normalization RMSNorm "
      "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 "
      "--global-batch-size 128 --train-samples 1953125000 --lr-decay-samples 1949218748 "
      "--lr-warmup-samples 3906252 --lr 0.00015 --min-lr 0.00001 --lr-decay-style cosine "
      "--clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 "
      "--cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc "
      "--empty-unused-memory-level 1 --tensor-model-parallel-size 1 --context-parallel-size 1 "
      "--mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --tiktoken-pattern v2 "
      "--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 "
      "--split 99,1,0 --log-interval 1 --eval-iters 32 --eval-interval 100 --save-interval 1000 "
      "--log-throughput --distributed-timeout-minutes 60 --save of-no-run --load of-no-run"));
  CHECK(runtime::parameter_count(x.training.model) == 8030261248);
  CHECK(runtime::training_flops(runtime::spec_of(x.training), runtime::schema_of(x), 1)
        == 421645529382912);
  CHECK(x.train_iterations == 1953125000 / 128);
}
