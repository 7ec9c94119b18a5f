#include "runtime/family/gpt/gpt.hpp"
#include "runtime/job/batches.hpp"
#include "tests/command/given_flags.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

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
