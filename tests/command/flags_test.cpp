#include "actors/command/commands.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"
#include "tests/command/given_flags.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("defaults are those of Megatron-LM", "[command]") {
  const auto x = tests::job_of_flags();
  const auto& m = x.training.model.as<runtime::gpt_config>();
  CHECK(m.ffn == 256);
  CHECK(m.head_size == 16);
  CHECK(m.groups == 4);
  CHECK(m.positions == 32);
  CHECK(m.padded_vocabulary == 1024);
  CHECK(m.position == runtime::position_embedding::learned_absolute);
  CHECK(m.normalization == runtime::normalization_kind::layer);
  CHECK(m.activation == runtime::activation_kind::gelu_tanh);
  CHECK(m.linear_bias);
  CHECK(m.tied_embeddings);
  CHECK(m.hidden_dropout == 0.1);
  CHECK(m.attention_dropout == 0.1);
  CHECK(m.init_std == 0.02);
  CHECK(m.norm_epsilon == 1e-5);
  CHECK(x.training.seed == 1234);
  CHECK(x.training.optimizer == runtime::optimizer_settings{0.9, 0.999, 1e-8, 0.01, 1.0});
  CHECK(x.training.rate.style == runtime::decay_style::linear);
  CHECK(x.watch.log_interval == 100);
  CHECK(x.watch.eval_interval == 1000);
  CHECK(x.watch.eval_batches == 100);
  CHECK(x.data.split == "969,30,1");
  CHECK(x.data.end_of_document == 999);
  CHECK(x.layout.world == 1);
  CHECK(x.backend == kernels::backend::cpu);
}

TEST_CASE("learning rates of a run in iterations are converted to samples", "[command]") {
  const auto x = tests::job_of_flags(
      "--lr-warmup-iters 10 --lr-decay-iters 80 --lr-decay-style cosine --min-lr 1e-5");
  CHECK(x.train_iterations == 100);
  CHECK(x.training.rate
        == runtime::rate_schedule{1e-3, 1e-5, 0, 160, 1280, runtime::decay_style::cosine});
  // Values of Megatron-LM's OptimizerParamScheduler for these flags.
  const auto y = tests::job_of_flags(
      "--lr 1.5e-4 --min-lr 1e-5 --lr-warmup-iters 10 --lr-decay-iters 100 "
      "--lr-decay-style cosine");
  CHECK(runtime::learning_rate(y.training.rate, 192) == Catch::Approx(1.498295e-4).epsilon(1e-6));
  CHECK(runtime::learning_rate(y.training.rate, 800) == Catch::Approx(9.215537e-5).epsilon(1e-6));
  // Not rounded to whole samples: 21 steps of one sample with a fraction of 0.1 warm up over 2.1.
  CHECK(tests::job_of_flags("--lr-warmup-fraction 0.0105").training.rate.warmup == 0.0105 * 1600);
}

TEST_CASE("flags set a WSD schedule and a decoupled learning rate", "[command]") {
  const auto x = tests::job_of_flags(
      "--lr 1e-2 --min-lr 1e-4 --lr-decay-style WSD --lr-wsd-decay-iters 20 --lr-wsd-decay-style "
      "minus_sqrt --decoupled-lr 3e-2");
  CHECK(x.training.rate
        == runtime::rate_schedule{1e-2,
                                  1e-4,
                                  0,
                                  0,
                                  1600,
                                  runtime::decay_style::wsd,
                                  runtime::wsd_style::minus_sqrt,
                                  320,
                                  3e-2,
                                  1e-4});
  const auto refused = [](const std::string& text, const char* said) {
    CHECK_THROWS_WITH(tests::job_of_flags(text), ContainsSubstring(said));
  };
  refused("--lr-decay-style WSD", "needs --lr-wsd-decay-iters or --lr-wsd-decay-samples");
  refused("--lr-wsd-decay-iters 5", "need --lr-decay-style WSD");
  refused("--lr-decay-style WSD --lr-wsd-decay-iters 101", "from 1 to the 1600 samples");
  refused("--lr-decay-style WSD --lr-wsd-decay-samples 101",
          "cannot be combined with --train-iters");
  refused("--decoupled-lr 1e-3 --decoupled-min-lr 1e-2", "is above --decoupled-lr");
}

TEST_CASE("weight decay grows over the whole run", "[command]") {
  const auto grown = tests::job_of_flags(
                         "--weight-decay-incr-style linear --start-weight-decay 0.1 "
                         "--end-weight-decay 0.3")
                         .training.optimizer.decay();
  CHECK(grown == runtime::weight_decay_schedule{0.1, 0.3, runtime::increase_style::linear, 1600});
  CHECK(tests::job_of_flags("--weight-decay 0.2").training.optimizer.decay()
        == runtime::weight_decay_schedule{0.2, 0.2, runtime::increase_style::constant, 0});
  CHECK_THROWS_WITH(tests::job_of_flags("--weight-decay-incr-style linear"),
                    ContainsSubstring("give all three"));
  CHECK_THROWS_WITH(tests::job_of_flags("--start-weight-decay 0.1"),
                    ContainsSubstring("give all three"));
  CHECK_THROWS_WITH(tests::job_of_flags("--weight-decay-incr-style cosine --start-weight-decay 2 "
                                        "--end-weight-decay 1"),
                    ContainsSubstring("it only grows"));
}

// Counts of update_train_iters() of Megatron-LM: of d98e8a64 for the schedule, which stops at the
// first step that reaches the samples; of core_v0.16.1 for the ramp-up, which takes one more.
TEST_CASE("a run in samples has Megatron-LM's steps while the batch size changes", "[command]") {
  const auto steps = [](int samples, const std::string& more) {
    auto given = tests::words_of(tests::small_run + "--seq-length 8 --train-samples "
                                 + std::to_string(samples) + " " + more);
    const auto at = std::find(given.begin(), given.end(), "--train-iters");
    given.erase(at, at + 2);
    return training_job_from(given).train_iterations;
  };
  // Samples after each step: 2 to 20 by 2, 24 to 60 by 4, then 68, 76, ... by 8.
  const std::string stepped = "--global-batch-size 8 --step-batch-size-schedule 0:2,160:4,480:8";
  CHECK(steps(200, stepped) == 38);
  CHECK(steps(204, stepped) == 38);
  CHECK(steps(205, stepped) == 39);
  CHECK(steps(60, stepped) == 20);
  CHECK(steps(19, stepped) == 10);
  // 22 steps of 4, 11 of 8 and 7 of 12 end at 260 samples; then 276, 292, ... by 16.
  const std::string ramp = "--global-batch-size 16 --rampup-batch-size 4 4 260";
  CHECK(steps(200, ramp) == 36);
  CHECK(steps(199, ramp) == 35);
  CHECK(steps(291, ramp) == 41);
  CHECK(steps(292, ramp) == 42);
}

TEST_CASE("a run in samples leaves out a partial last batch", "[command]") {
  const auto in_samples = tests::words_of(tests::small_run);
  auto given = in_samples;
  const auto at = std::find(given.begin(), given.end(), "--train-iters");
  given.erase(at, at + 2);
  for (const auto& word : tests::words_of("--train-samples 1000 --lr-warmup-samples 40"))
    given.push_back(word);
  const auto x = training_job_from(given);
  CHECK(x.train_iterations == 62);
  CHECK(x.training.rate.warmup == 40);
  CHECK(x.training.rate.decay == 1000);

  // The ramp ends after 96 samples, with 4 steps of each size; then batches have 16 samples.
  for (const auto& word : tests::words_of("--rampup-batch-size 4 4 96"))
    given.push_back(word);
  const auto y = training_job_from(given);
  std::int64_t steps = 0;
  for (std::int64_t consumed = 0;; ++steps) {
    const auto next = runtime::global_batch_size(y.training.batch, consumed);
    if (consumed + next > 1000)
      break;
    consumed += next;
  }
  CHECK(std::int64_t(y.train_iterations) == steps);
  CHECK(y.training.batch.ramp_start == 4);
}

TEST_CASE("unset sizes of a layout are derived", "[command]") {
  const auto x = tests::job_of_flags("--pipeline-model-parallel-size 2 --world-size 4");
  CHECK(x.training.batch.data_parallel == 2);
  CHECK(x.layout.order == "tp-cp-ep-dp-pp");
  CHECK(x.threads_per_worker >= 1);
  CHECK(tests::job_of_flags("--pipeline-model-parallel-size 4").layout.world == 4);
  CHECK(tests::job_of_flags("--use-tp-pp-dp-mapping").layout.order == "tp-cp-ep-pp-dp");
  CHECK(tests::job_of_flags("--threads-per-worker 3").threads_per_worker == 3);
}

TEST_CASE("tensor, pipeline and replicas in turn multiply to the world and the batch",
          "[command]") {
  const auto x = tests::job_of_flags(
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 8 "
      "--replicas-per-worker 2 --sequence-parallel --bf16");
  CHECK(x.layout.tensor == 2);
  CHECK(x.layout.sequence_parallel);
  CHECK(x.training.batch.data_parallel == 4);
  CHECK(x.training.precision == runtime::dtype::bf16);
  CHECK(x.training.model.as<runtime::gpt_config>().padded_vocabulary == 1024);
  CHECK(runtime::to_text(x.layout.chunks, runtime::gpt_letters(4)) == "Et*2|t*2L");
  const auto y
      = tests::job_of_flags("--tensor-model-parallel-size 4 --make-vocab-size-divisible-by 130");
  CHECK(y.layout.world == 4);
  CHECK(y.training.model.as<runtime::gpt_config>().padded_vocabulary == 1040);
  CHECK(y.training.precision == runtime::dtype::f32);
  CHECK(!tests::job_of_flags("--sequence-parallel").layout.sequence_parallel);
  const auto z
      = tests::job_of_flags("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1");
  CHECK(z.layout.expert_tensor_ranks() == 2);  // the model has no experts
  CHECK(tests::job_of_flags("--accumulate-allreduce-grads-in-fp32").layout.tensor == 1);
}

TEST_CASE("pipeline flags define the stages", "[command]") {
  const auto stages = [](const std::string& more) {
    return runtime::to_text(
        tests::job_of_flags("--pipeline-model-parallel-size 2 " + more).layout.chunks,
        runtime::gpt_letters(4));
  };
  CHECK(stages("--decoder-first-pipeline-num-layers 1") == "Et|t*3L");
  CHECK(stages("--decoder-last-pipeline-num-layers 1") == "Et*3|tL");
  CHECK(stages("--account-for-embedding-in-pipeline-split "
               "--account-for-loss-in-pipeline-split")
        == "Et*2|t*2L");
  CHECK(stages("--pipeline-model-parallel-layout Et*4|L") == "Et*4|L");
  CHECK(stages("--pipeline-model-parallel-layout E||(t|)*2t*2L --pipeline-model-parallel-size 5")
        == "E||t|t|t*2L");
  const auto refused = [](const std::string& more) {
    return tests::refusal_of_flags(tests::small_run + "--pipeline-model-parallel-size 2 " + more);
  };
  CHECK_THAT(refused("--pipeline-model-parallel-layout Ettx|L"),
             ContainsSubstring("\n    Ettx|L\n       ^"));
  CHECK_THAT(refused("--pipeline-model-parallel-layout Et*4|L "
                     "--decoder-first-pipeline-num-layers 1"),
             ContainsSubstring("leave out"));
  CHECK_THAT(refused("--decoder-first-pipeline-num-layers 5"),
             ContainsSubstring("5 layers on 2 stages"));
  CHECK_THAT(refused("--pipeline-model-parallel-size 3"),
             ContainsSubstring("--pipeline-model-parallel-layout"));
}

TEST_CASE("flags set gradient sharding and recompute", "[command]") {
  const auto x = tests::job_of_flags(
      "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
      "--ddp-bucket-size 1000");
  CHECK(x.reduction.distributed_optimizer);
  CHECK(x.reduction.overlap_gradients);
  CHECK(x.reduction.overlap_parameters);
  CHECK(x.reduction.bucket_size == 1000);
  CHECK(tests::job_of_flags().reduction.bucket_size == 40000000);
  CHECK(tests::job_of_flags().recompute == runtime::recompute_settings{});

  using granularity = runtime::recompute_granularity;
  const auto full
      = tests::job_of_flags(
            "--recompute-granularity full --recompute-method block --recompute-num-layers 2")
            .recompute;
  CHECK(full.granularity == granularity::full);
  CHECK(full.method == runtime::recompute_method::block);
  CHECK(full.layers == 2);
  const auto selective = tests::job_of_flags("--recompute-activations").recompute;
  CHECK(selective.granularity == granularity::selective);
  CHECK(selective.core_attention);
  CHECK(!selective.feed_forward);
  const auto both
      = tests::job_of_flags("--recompute-granularity selective --recompute-modules core_attn mlp");
  CHECK(both.recompute.core_attention);
  CHECK(both.recompute.feed_forward);
  CHECK(!tests::job_of_flags("--recompute-activations --recompute-modules mlp")
             .recompute.core_attention);
  const std::string experts = "--num-experts 4 --disable-bias-linear ";
  const auto parts = tests::job_of_flags(
                         experts + "--recompute-activations --recompute-modules moe_act "
                                   "shared_experts")
                         .recompute;
  CHECK(parts.expert_activation);
  CHECK(parts.shared_experts);
  CHECK(!parts.core_attention);
  CHECK(!parts.experts);
  const auto old = tests::job_of_flags(experts + "--moe-layer-recompute").recompute;
  CHECK(old.granularity == granularity::selective);
  CHECK(old.core_attention);
  CHECK(old.experts);
}

TEST_CASE("impossible layouts are refused before a worker starts", "[command]") {
  const std::pair<const char*, const char*> cases[] = {
      {"--tensor-model-parallel-size 3", "--num-attention-heads 4 is not a multiple"},
      {"--tensor-model-parallel-size 3", "--tensor-model-parallel-size 2"},
      {"--tensor-model-parallel-size 2 --group-query-attention", "--num-query-groups 1"},
      {"--tensor-model-parallel-size 2 --ffn-hidden-size 63", "--ffn-hidden-size 63"},
      {"--tensor-model-parallel-size 2 --world-size 5", "nearest valid: 6"},
      {"--replicas-per-worker 3", "the 3 data-parallel replicas"},
      {"--tensor-model-parallel-size 2 --sequence-parallel --seq-length 33 --micro-batch-size 1",
       "--seq-length 34"},
      {"--overlap-param-gather --overlap-grad-reduce", "--use-distributed-optimizer"},
      {"--overlap-param-gather --use-distributed-optimizer", "--overlap-grad-reduce"},
      {"--recompute-granularity full", "--recompute-num-layers, usually 1"},
      {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 5",
       "give 1 to 4"},
      {"--recompute-granularity selective --recompute-method uniform",
       "need --recompute-granularity"},
      {"--recompute-activations --recompute-granularity full", "give one"},
      {"--recompute-modules mlp", "needs --recompute-granularity selective"},
      {"--recompute-granularity selective --recompute-modules moe", "no mixture-of-experts"},
      {"--moe-layer-recompute --recompute-granularity full", "give one"},
      {"--moe-layer-recompute", "no mixture-of-experts"},
      {"--tensor-model-parallel-size 65536 --pipeline-model-parallel-size 65536", "65536"},
  };
  for (const auto& [flags, says] : cases) {
    INFO(flags);
    CHECK_THAT(tests::refusal_of_flags(tests::small_run + flags), ContainsSubstring(says));
  }
}

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
      "--eval-interval 1000 --eval-iters 10 --save of-nobody --load of-nobody"));
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
      "--log-throughput --distributed-timeout-minutes 60 --save of-nobody --load of-nobody"));
  CHECK(runtime::parameter_count(x.training.model) == 8030261248);
  CHECK(runtime::training_flops(runtime::spec_of(x.training), runtime::schema_of(x), 1)
        == 421645529382912);
  CHECK(x.train_iterations == 1953125000 / 128);
}

TEST_CASE("only fp16 has a loss scale", "[command]") {
  const auto usual = tests::job_of_flags("--fp16").training;
  CHECK(usual.precision == runtime::dtype::f16);
  CHECK(usual.scaling == runtime::loss_scaling{});
  const auto told = tests::job_of_flags(
                        "--fp16 --initial-loss-scale 65536 --min-loss-scale 2 "
                        "--loss-scale-window 500 --hysteresis 3")
                        .training.scaling;
  CHECK(told
        == runtime::loss_scaling{.initial = 65536, .minimum = 2, .window = 500, .hysteresis = 3});
  CHECK(tests::job_of_flags("--fp16 --loss-scale 128").training.scaling.constant == 128);
  const auto refused
      = [](const std::string& more) { return tests::refusal_of_flags(tests::small_run + more); };
  CHECK_THAT(refused("--fp16 --bf16"), ContainsSubstring("give one"));
  CHECK_THAT(refused("--loss-scale 128"), ContainsSubstring("need --fp16"));
  CHECK_THAT(refused("--bf16 --hysteresis 2"), ContainsSubstring("need --fp16"));
  CHECK_THAT(refused("--fp16 --loss-scale 128 --hysteresis 2"),
             ContainsSubstring("a constant scale"));
  CHECK_THAT(refused("--fp16 --initial-loss-scale 2 --min-loss-scale 4"),
             ContainsSubstring("lower it"));
}

TEST_CASE("quotes around a split are ignored", "[command]") {
  CHECK(tests::job_of_flags("--split '98,1,1'").data.split == "98,1,1");
  CHECK(tests::job_of_flags("--split \"98,1,1\"").data.split == "98,1,1");
  CHECK_THROWS_AS(tests::job_of_flags("--split '98,1,1"), usage_error);
}

TEST_CASE("a split without validation means no validation", "[command]") {
  CHECK(tests::job_of_flags("--split 100,0,0").watch.eval_interval == 0);
  CHECK(tests::job_of_flags("--eval-iters 0").watch.eval_interval == 0);
}

TEST_CASE("flags set faults and delays", "[command]") {
  const auto x = tests::job_of_flags(
      "--plant-fault stage:0.0@3 --plant-delays 7,200,30 --backend reference");
  CHECK(x.faults.fault == "stage:0.0@3");
  CHECK(tests::job_of_flags("--plant-fault loader@2 monitor@3 --plant-fault node@4").faults.fault
        == "loader@2,monitor@3,node@4");
  CHECK(x.faults.seed == 7);
  CHECK(x.faults.lane_delay_us == 200);
  CHECK(x.faults.message_delay_us == 30);
  CHECK(x.backend == kernels::backend::reference);
}

TEST_CASE("--skip-train turns saving off", "[command]") {
  const auto x = tests::job_of_flags(
      "--skip-train --save ckpt --load ckpt --save-interval 10 --keep-last 2 --keep-every 20");
  CHECK(x.skip_train);
  CHECK(x.checkpoints.save.empty());
  CHECK(x.checkpoints.load == "ckpt");
  CHECK(x.watch.log_file.empty());
}

TEST_CASE("a learning rate of 0 is allowed", "[command]") {
  CHECK(tests::job_of_flags("--lr 0").training.rate.maximum == 0);
}

TEST_CASE("--load-hf and --load accept a Hugging Face folder with model and tokenizer",
          "[command]") {
  const tests::scratch_folder made;
  const auto folder = made.path() / "hub";
  runtime::make_folder(folder);
  const auto text = made.path() / "text";
  runtime::write_text(text, "in the beginning\n");
  command_line program("troupe", "");
  add_commands(program);
  program.parse({"tokenizer",
                 "train",
                 "--input",
                 text.string(),
                 "--vocab-size",
                 "260",
                 "--output",
                 folder.string()})();
  std::ofstream(folder / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64,
             "vocab_size": 300})";
  const std::string base = "--micro-batch-size 1 --train-iters 4 --lr 1e-3 --mock-data ";
  for (const std::string flag : {"--load-hf ", "--load "}) {
    CAPTURE(flag);
    const auto x = training_job_from(tests::words_of(base + flag + folder.string()));
    CHECK(x.checkpoints.load_hub == folder);
    CHECK(x.checkpoints.load.empty());
    CHECK(x.training.model.layers() == 2);
    CHECK_THAT(x.tokenizer_description, ContainsSubstring("GPT2BPETokenizer"));
    // A tokenizer flag takes precedence.
    CHECK_THAT(training_job_from(tests::words_of(base + flag + folder.string()
                                                 + " --tokenizer-type NullTokenizer "
                                                   "--vocab-size 300"))
                   .tokenizer_description,
               ContainsSubstring("NullTokenizer"));
  }
}

namespace {

const std::string hub_run
    = "--micro-batch-size 1 --train-iters 4 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer "
      "--vocab-size 300 --load-hf ";

/// Flags of a run with the hub model of this config.json.
std::string with_hub_model(const tests::scratch_folder& folder, const std::string& config) {
  std::ofstream(folder / "config.json") << config;
  return hub_run + folder.path().string() + " ";
}

std::string with_gpt2(const tests::scratch_folder& folder, const std::string& activation) {
  return with_hub_model(folder,
                        R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
                            "n_positions": 64, "vocab_size": 300, "activation_function": ")"
                            + activation + "\"}");
}

}  // namespace

TEST_CASE("config.json defines the shape of a hub model, and flags must not change it",
          "[command]") {
  const tests::scratch_folder folder;
  const auto base = with_gpt2(folder, "gelu_new");
  const auto x = training_job_from(tests::words_of(base + "--num-layers 2 --seq-length 16"));
  CHECK(x.training.model.layers() == 2);
  CHECK(x.training.model.as<runtime::gpt_config>().hidden == 32);
  CHECK(x.training.model.sequence() == 16);
  CHECK(x.training.model.as<runtime::gpt_config>().positions == 64);
  CHECK(x.training.model.as<runtime::gpt_config>().hidden_dropout == 0);
  CHECK(x.checkpoints.load_hub == folder.path());
  CHECK_THAT(tests::refusal_of_flags(base + "--num-layers 3"),
             ContainsSubstring("--num-layers 3 contradicts --load-hf"));
  CHECK(tests::refusal_of_flags(
            base
            + "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --ffn-hidden-size 128 "
              "--kv-channels 16 --max-position-embeddings 64 --norm-epsilon 1e-5 "
              "--normalization LayerNorm --position-embedding-type learned_absolute")
        == "accepted");
  for (const std::string flag : {"--hidden-size 64",
                                 "--num-attention-heads 4",
                                 "--ffn-hidden-size 64",
                                 "--kv-channels 8",
                                 "--max-position-embeddings 32",
                                 "--norm-epsilon 1e-6",
                                 "--normalization RMSNorm",
                                 "--apply-layernorm-1p",
                                 "--qk-layernorm",
                                 "--window-size 8,0",
                                 "--position-embedding-type rope",
                                 "--group-query-attention",
                                 "--swiglu",
                                 "--squared-relu",
                                 "--no-bias-gelu-fusion",
                                 "--disable-bias-linear",
                                 "--untie-embeddings-and-output-weights",
                                 "--rotary-base 500000",
                                 "--rotary-percent 0.5",
                                 "--rotary-interleaved",
                                 "--use-rope-scaling"}) {
    const auto said = tests::refusal_of_flags(base + flag);
    INFO(said);
    CHECK_THAT(said, ContainsSubstring(flag.substr(0, flag.find(' '))));
    CHECK_THAT(said, ContainsSubstring("contradicts --load-hf"));
  }
}

TEST_CASE("a hub model with experts takes another balance, and no other experts", "[command]") {
  const tests::scratch_folder folder;
  const auto base = with_hub_model(
      folder,
      R"({"model_type": "mixtral", "num_hidden_layers": 2, "num_attention_heads": 2,
          "num_key_value_heads": 1, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 300,
          "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})");
  const auto x = training_job_from(
      tests::words_of(base + "--num-experts 4 --moe-aux-loss-coeff 0.5 --moe-z-loss-coeff 0.25"));
  const auto& experts = x.training.model.as<runtime::gpt_config>().experts;
  CHECK(experts.number == 4);
  CHECK(experts.balance_weights == std::vector<double>{0.5});
  CHECK(experts.z_weight == 0.25);
  CHECK_THAT(tests::refusal_of_flags(base + "--num-experts 8"),
             ContainsSubstring("--num-experts 8 contradicts --load-hf"));
  CHECK(tests::refusal_of_flags(base + "--moe-layer-freq [1]*2") == "accepted");
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-layer-freq 2"),
             ContainsSubstring("--moe-layer-freq 2 contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-bias-update-rate 0.1"),
             ContainsSubstring("without --moe-router-enable-expert-bias"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-token-drop-policy position"),
             ContainsSubstring("without --moe-expert-capacity-factor"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-pre-softmax"),
             ContainsSubstring("--moe-router-pre-softmax contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--multi-latent-attention"),
             ContainsSubstring("--multi-latent-attention contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-load-balancing-type quantile_balancing"),
             ContainsSubstring("which no model of the Hub has"));
  const tests::scratch_folder dense;
  CHECK_THAT(tests::refusal_of_flags(with_gpt2(dense, "gelu_new") + "--moe-z-loss-coeff 0.25"),
             ContainsSubstring("--moe-z-loss-coeff contradicts --load-hf"));
}

TEST_CASE("each given activation is compared with that of a hub model", "[command]") {
  const tests::scratch_folder folder;
  const auto exact = with_gpt2(folder, "gelu");
  CHECK(tests::refusal_of_flags(exact + "--no-bias-gelu-fusion") == "accepted");
  const auto both = tests::refusal_of_flags(exact + "--swiglu --no-bias-gelu-fusion");
  CHECK_THAT(both,
             ContainsSubstring("--swiglu contradicts")
                 && !ContainsSubstring("--no-bias-gelu-fusion contradicts"));
  const auto gated
      = with_hub_model(folder,
                       R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
          "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "vocab_size": 300, "hidden_act": "silu"})");
  CHECK(tests::refusal_of_flags(gated + "--swiglu --disable-bias-linear") == "accepted");
  CHECK_THAT(tests::refusal_of_flags(gated + "--swiglu --no-bias-gelu-fusion"),
             ContainsSubstring("--no-bias-gelu-fusion contradicts"));
}
