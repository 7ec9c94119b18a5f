// What flags cannot ask for, and how that is told.

#include "tests/command/given_flags.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("what this build cannot do is refused with the reason", "[command]") {
  const auto refused
      = [](const std::string& more) { return tests::refusal_of_flags(tests::small_run + more); };
  CHECK_THAT(refused("--fp8-format hybrid"), ContainsSubstring("need a GPU"));
  CHECK_THAT(refused("--fp8-some-new-flag 3"), ContainsSubstring("is refused"));
  CHECK_THAT(refused("--moe-router-topk 2"), ContainsSubstring("mixture-of-experts"));
  CHECK_THAT(refused("--context-parallel-size 2"), ContainsSubstring("give 1"));
  CHECK_THAT(refused("--use-megatron-fsdp"), ContainsSubstring("--use-distributed-optimizer"));
  CHECK_THAT(refused("--grad-reduce-in-bf16"), ContainsSubstring("in fp32"));
  CHECK_THAT(refused("--ddp-average-in-collective"), ContainsSubstring("--ddp-bucket-size"));
  CHECK_THAT(refused("--num-distributed-optimizer-instances 2"), ContainsSubstring("is sharded"));
  CHECK_THAT(
      refused("--optimizer dist_muon"),
      ContainsSubstring("--optimizer dist_muon is refused") && ContainsSubstring("muon with it"));
  CHECK_THAT(refused("--optimizer adaptive_muon"), ContainsSubstring("second moment"));
  CHECK_THAT(refused("--optimizer soap"), ContainsSubstring("eigenvectors"));
  CHECK_THAT(refused("--optimizer muons"), ContainsSubstring("adam, sgd, lion, muon"));
  CHECK_THAT(refused("--optimizer muon --muon-fp32-matmul-prec medium"),
             ContainsSubstring("in fp32"));
  CHECK_THAT(refused("--window-attn-skip-freq 4"), ContainsSubstring("same window"));
  CHECK_THAT(refused("--openai-gelu"), ContainsSubstring("unless --disable-bias-linear"));
  CHECK_THAT(refused("--no-rope-freq 4"), ContainsSubstring("rotary embedding"));
  CHECK_THAT(refused("--recompute-modules core_attn moe_act"),
             ContainsSubstring("moe_act is refused"));
  CHECK_THAT(refused("--decoupled-min-lr 5e-4"), ContainsSubstring("needs --decoupled-lr"));
  CHECK_THAT(refused("--wandb-project x"), ContainsSubstring("--tensorboard-dir"));
  CHECK_THAT(refused("--no-check-for-nan-in-loss-and-grad"), ContainsSubstring("--on-nonfinite"));
  CHECK_THAT(refused("--profile --profile-step-start 4"), ContainsSubstring("--trace"));
  CHECK_THAT(refused("--position-embedding-type mrope"),
             ContainsSubstring("learned_absolute, rope, yarn, none"));
  CHECK_THAT(refused("--lr-decay-style steep"), ContainsSubstring("constant, linear, cosine"));
  CHECK_THAT(refused("--ckpt-format zarr"), ContainsSubstring("torch_dist"));
  CHECK_THAT(refused("--dataloader-type external"), ContainsSubstring("single, cyclic"));
}

TEST_CASE("a flag that nobody knows is answered with the nearest", "[command]") {
  CHECK_THAT(tests::refusal_of_flags("--num-layer 3"),
             ContainsSubstring("did you mean --num-layers?"));
  CHECK_THAT(tests::refusal_of_flags("--adam-beta3=1"),
             ContainsSubstring("--adam-beta3 is not a flag"));
  CHECK_THAT(tests::refusal_of_flags("--xyzzy"), !ContainsSubstring("did you mean"));
  CHECK_THAT(tests::refusal_of_flags("gpt3"), ContainsSubstring("'gpt3' is a word too many"));
}

TEST_CASE("a bad value is named with its flag and what is allowed", "[command]") {
  const auto refused
      = [](const std::string& more) { return tests::refusal_of_flags(tests::small_run + more); };
  CHECK_THAT(refused("--num-layers many"),
             ContainsSubstring("--num-layers 'many': give a whole number from 1"));
  CHECK_THAT(refused("--num-layers 0"), ContainsSubstring("from 1"));
  CHECK_THAT(refused("--num-layers 99999999999999999999"), ContainsSubstring("whole number"));
  CHECK_THAT(refused("--lr nan"), ContainsSubstring("--lr 'nan': give a number of 0 or more"));
  CHECK_THAT(refused("--lr 1e-3x"), ContainsSubstring("'1e-3x'"));
  CHECK_THAT(refused("--adam-beta1 2"), ContainsSubstring("from 0 to 1"));
  CHECK_THAT(
      refused("--vocab-size 2147483647"),
      ContainsSubstring("has 2147483648 rows") && ContainsSubstring("a smaller --vocab-size"));
  CHECK_THAT(refused("--ffn-hidden-size 0"),
             ContainsSubstring("--ffn-hidden-size '0': give a whole number from 1 to 2147483647 "
                               "(default: 4 C; with --swiglu"));
  CHECK_THAT(refused("--log-interval 0"), ContainsSubstring("(default: 100)"));
  CHECK_THAT(refused("--hidden-size 0"), ContainsSubstring("(no default)"));
  CHECK_THAT(refused("--hidden-dropout 1"), ContainsSubstring("from 0 to below 1 (default: 0.1"));
  CHECK_THAT(refused("--norm-epsilon 0"), ContainsSubstring("give a number above 0 (default"));
  CHECK_THAT(refused("--rotary-percent 0"), ContainsSubstring("give a number above 0 to 1"));
  CHECK_THAT(refused("--rampup-batch-size 4 x 4"), ContainsSubstring("'x': give a whole number"));
  CHECK_THAT(refused("--rampup-batch-size 4 4"), ContainsSubstring("START INCREMENT SAMPLES"));
  CHECK_THAT(refused("--save --load x"), ContainsSubstring("--save needs a value"));
  CHECK_THAT(refused("--lr"), ContainsSubstring("--lr needs a value"));
  CHECK_THAT(refused("--plant-delays 1,2"), ContainsSubstring("SEED,LANE_US,MESSAGE_US"));
}

TEST_CASE("everything that is wrong is told at once", "[command]") {
  const auto all = tests::refusal_of_flags(tests::small_run
                           + "--pipeline-model-parallel-size 3 --world-size 4 --global-batch-size "
                             "15 --min-lr 1 --split 0,1 --trace /nowhere/x "
                             "--data-path nothing");
  CHECK_THAT(all,
             ContainsSubstring("--world-size 4") && ContainsSubstring("--num-layers 4")
                 && ContainsSubstring("--global-batch-size 15") && ContainsSubstring("--min-lr 1")
                 && ContainsSubstring("--split 0,1") && ContainsSubstring("/nowhere")
                 && ContainsSubstring("--mock-data"));
  CHECK_THAT(tests::refusal_of_flags("--mock-data"),
             ContainsSubstring("--num-layers is missing") && ContainsSubstring("--lr is missing")
                 && ContainsSubstring("--train-iters or --train-samples")
                 && ContainsSubstring("--vocab-file"));
}

TEST_CASE("words that no flag takes and flags that are unknown are told at once", "[command]") {
  const auto all = tests::refusal_of_flags(
      "--tokenizer-type WordPiece --lr fast --num-layer 3 --adam-beta3 1");
  CHECK_THAT(all,
             ContainsSubstring("4 flags cannot be used") && ContainsSubstring("--tokenizer-type")
                 && ContainsSubstring("--lr 'fast'") && ContainsSubstring("--num-layer ")
                 && ContainsSubstring("--adam-beta3"));
}

TEST_CASE("iterations and samples are not mixed", "[command]") {
  CHECK_THAT(tests::refusal_of_flags(tests::small_run + "--lr-decay-samples 5"),
             ContainsSubstring("count both in iterations"));
  CHECK_THAT(tests::refusal_of_flags(tests::small_run + "--train-samples 5"),
             ContainsSubstring("give one"));
  CHECK_THAT(
      tests::refusal_of_flags(tests::small_run + "--lr-warmup-iters 1 --lr-warmup-fraction 0.1"),
      ContainsSubstring("give one"));
  CHECK_THAT(tests::refusal_of_flags(tests::small_run + "--lr-warmup-iters 100"),
             ContainsSubstring("warms up"));
}
