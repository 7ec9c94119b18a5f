// Refusals of flags: what is refused, and the errors.

#include "actors/command/commands.hpp"
#include "actors/command/other_names.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/command/given_flags.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("features that this build lacks are refused with the reason", "[command]") {
  const auto refused
      = [](const std::string& more) { return tests::refusal_of_flags(tests::small_run + more); };
  CHECK_THAT(refused("--fp8-format hybrid"), ContainsSubstring("no 8-bit"));
  CHECK_THAT(refused("--fp8-some-new-flag 3"), ContainsSubstring("is refused"));
  CHECK_THAT(refused("--moe-enable-deepep"), ContainsSubstring("DeepEP"));
  CHECK_THAT(refused("--moe-router-dtype fp64"), ContainsSubstring("in fp32"));
  CHECK_THAT(refused("--moe-token-dispatcher-type flex"),
             ContainsSubstring("flex is refused") && ContainsSubstring("use alltoall"));
  CHECK_THAT(refused("--expert-model-parallel-size 2 --world-size 2"),
             ContainsSubstring("nearest valid: --expert-model-parallel-size 1"));
  CHECK_THAT(refused("--expert-tensor-parallel-size 2"),
             ContainsSubstring("nearest valid: --expert-tensor-parallel-size 1"));
  CHECK_THAT(refused("--qk-layernorm --qk-layernorm-rows --world-size 2 "
                     "--tensor-model-parallel-size 2"),
             ContainsSubstring("parts of --qk-layernorm-rows 1")
                 && ContainsSubstring("nearest valid: --tensor-model-parallel-size 1"));
  CHECK_THAT(refused("--context-parallel-size 2"), ContainsSubstring("give 1"));
  CHECK_THAT(refused("--use-megatron-fsdp"), ContainsSubstring("--use-distributed-optimizer"));
  CHECK_THAT(refused("--grad-reduce-in-bf16"), ContainsSubstring("in fp32"));
  CHECK_THAT(refused("--ddp-average-in-collective"), ContainsSubstring("--ddp-bucket-size"));
  CHECK_THAT(refused("--num-distributed-optimizer-instances 2"), ContainsSubstring("is sharded"));
  CHECK_THAT(
      refused("--optimizer dist_muon"),
      ContainsSubstring("--optimizer dist_muon is refused") && ContainsSubstring("use it with"));
  CHECK_THAT(refused("--optimizer adaptive_muon"), ContainsSubstring("second moment"));
  CHECK_THAT(refused("--optimizer soap"), ContainsSubstring("eigenvectors"));
  CHECK_THAT(refused("--optimizer muons"), ContainsSubstring("adam, sgd, lion, muon"));
  CHECK_THAT(refused("--optimizer muon --muon-fp32-matmul-prec medium"),
             ContainsSubstring("in fp32"));
  CHECK_THAT(refused("--window-attn-skip-freq 4"), ContainsSubstring("same attention window"));
  CHECK_THAT(refused("--openai-gelu"), ContainsSubstring("except with --disable-bias-linear"));
  CHECK_THAT(refused("--no-rope-freq 4"), ContainsSubstring("rotary embedding"));
  CHECK_THAT(refused("--recompute-activations --recompute-modules core_attn moe_act"),
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

TEST_CASE("flags of experts and latent attention need each other", "[command]") {
  const auto refused = [](const std::string& more) {
    return tests::refusal_of_flags(tests::small_run + "--disable-bias-linear " + more);
  };
  CHECK_THAT(refused("--moe-router-topk 2"),
             ContainsSubstring("--moe-router-topk does nothing without --num-experts"));
  CHECK_THAT(refused("--moe-aux-loss-coeff 0.1"),
             ContainsSubstring("--moe-aux-loss-coeff does nothing without --num-experts"));
  CHECK_THAT(refused("--q-lora-rank 8"),
             ContainsSubstring("--q-lora-rank does nothing without --multi-latent-attention"));
  const std::string experts = "--num-experts 8 ";
  CHECK(refused(experts) == "accepted");
  CHECK_THAT(
      refused("--record-expert-choices x"),
      ContainsSubstring("--record-expert-choices 'x': this model has no mixture-of-experts"));
  CHECK_THAT(
      refused(experts + "--replay-expert-choices no_such_folder"),
      ContainsSubstring("--replay-expert-choices 'no_such_folder': there is no such folder"));
  CHECK_THAT(
      refused(experts + "--replay-expert-choices /"),
      ContainsSubstring("--replay-expert-choices '/': the folder has no choices of experts"));
  CHECK_THAT(
      refused(experts + "--record-expert-choices . --replay-expert-choices ."),
      ContainsSubstring("--record-expert-choices and --replay-expert-choices both name '.'"));
  CHECK_THAT(refused(experts + "--moe-enable-routing-replay"),
             ContainsSubstring("use --record-expert-choices and --replay-expert-choices"));
  CHECK_THAT(tests::refusal_of_flags(tests::small_run + experts),
             ContainsSubstring("give --disable-bias-linear"));
  CHECK_THAT(refused(experts + "--moe-router-topk 9"),
             ContainsSubstring("--moe-router-topk is 9 of 8 experts; give 1 to 8"));
  CHECK_THAT(
      refused(experts + "--moe-router-num-groups 3 --moe-router-group-topk 2"),
      ContainsSubstring("--moe-router-num-groups 3 does not divide --num-experts 8; give 2"));
  CHECK_THAT(refused(experts + "--moe-layer-freq [1]*3"),
             ContainsSubstring("has 3 entries, but --num-layers is 4; give '1'"));
  CHECK_THAT(refused(experts + "--moe-router-bias-update-rate 0.1"),
             ContainsSubstring("without --moe-router-enable-expert-bias"));
  CHECK_THAT(refused(experts + "--moe-router-quantile-balancing-ema 0.1"),
             ContainsSubstring("--moe-router-load-balancing-type quantile_balancing"));
  CHECK_THAT(refused(experts + "--moe-router-load-balancing-type entropy"),
             ContainsSubstring("entropy is refused; give aux_loss"));
  CHECK_THAT(
      refused(experts + "--moe-router-load-balancing-type sinkhorn --moe-expert-capacity-factor 1"),
      ContainsSubstring("--moe-expert-capacity-factor needs"));
  CHECK_THAT(refused(experts + "--moe-pad-expert-input-to-capacity"),
             ContainsSubstring("add --moe-expert-capacity-factor"));
  CHECK_THAT(refused(experts + "--moe-token-drop-policy position"),
             ContainsSubstring("without --moe-expert-capacity-factor"));
  CHECK_THAT(refused("--multi-latent-attention --qk-layernorm"),
             ContainsSubstring("give --position-embedding-type rope or yarn"));
  CHECK_THAT(refused("--multi-latent-attention --position-embedding-type rope"),
             ContainsSubstring("add --qk-layernorm"));
}

TEST_CASE("a loss over replicas is refused where they do not meet in their passes", "[command]") {
  const auto global = tests::small_run
                      + "--disable-bias-linear --untie-embeddings-and-output-weights "
                        "--num-experts 8 --moe-router-load-balancing-type global_aux_loss ";
  const auto refused = [&](const std::string& more) {
    return tests::refusal_of_flags(global + "--moe-aux-loss-coeff 0.1 " + more);
  };
  CHECK(refused("--world-size 2") == "accepted");
  CHECK(refused("--world-size 2 --expert-model-parallel-size 2") == "accepted");
  CHECK_THAT(refused("--replicas-per-worker 2"),
             ContainsSubstring("--replicas-per-worker 2 computes replicas in turn, but "
                               "global_load_balancing_loss counts the rows of all replicas"));
  CHECK_THAT(refused("--world-size 2 --verify-fraction 0.5"),
             ContainsSubstring("--verify-fraction 0.5 computes some passes again"));
  const std::string pipeline = "--pipeline-model-parallel-size 2 --pipeline-schedule ";
  CHECK(refused("--world-size 2 " + pipeline + "dualpipe") == "accepted");
  const tests::scratch_folder folder;
  const auto plan = (folder / "plan.csv").string();
  runtime::write_text(plan,
                      "a0F0,b1F1,a0F1,b1B1,a0B0,b1F0,b1B0,a0B1\n"
                      "b0F1,a1F0,b0F0,a1B0,b0B1,a1F1,a1B1,b0B0\n");
  CHECK_THAT(
      refused("--world-size 2 --global-batch-size 4 --micro-batch-size 1 " + pipeline + plan),
      ContainsSubstring("the copies of the model cannot meet in --pipeline-schedule " + plan
                        + " (PLAN-9: rank 0 waits forever at a0F0"));
  const auto script = tests::source_dir() + "/examples/schedules/reactive.lua";
  CHECK_THAT(refused("--world-size 4 " + pipeline + script),
             ContainsSubstring("is decided by each replica while it runs"));
  CHECK(refused("--world-size 2 " + pipeline + script) == "accepted");
  // Without a weight there is no loss.
  CHECK(tests::refusal_of_flags(global + "--replicas-per-worker 2") == "accepted");
}

TEST_CASE("upcycling needs experts that are slices of the dense width", "[command]") {
  const auto refused = [](const std::string& more) {
    return tests::refusal_of_flags(tests::small_run + "--disable-bias-linear " + more);
  };
  const std::string experts = "--num-experts 8 ",
                    upcycle = experts + "--load x --moe-use-upcycling ";
  CHECK(refused(upcycle) == "accepted");
  CHECK(refused(upcycle + "--moe-upcycling-granularity 2 --moe-ffn-hidden-size 128") == "accepted");
  CHECK_THAT(refused(experts + "--moe-use-upcycling"),
             ContainsSubstring("--moe-use-upcycling needs --load DIR"));
  CHECK_THAT(refused("--load x --moe-use-upcycling"),
             ContainsSubstring("has no mixture-of-experts layers"));
  CHECK_THAT(refused(experts + "--moe-upcycling-granularity 2"),
             ContainsSubstring("does nothing without --moe-use-upcycling"));
  CHECK_THAT(refused(upcycle + "--moe-upcycling-granularity 3"),
             ContainsSubstring("--moe-upcycling-granularity 3 does not divide --num-experts 8 and "
                               "--ffn-hidden-size 256; give 2"));
  CHECK_THAT(refused(upcycle + "--moe-upcycling-granularity 2"),
             ContainsSubstring("--moe-ffn-hidden-size is 256, but --moe-upcycling-granularity 2 "
                               "cuts --ffn-hidden-size 256 into experts of 128; give 128"));
  CHECK_THAT(refused(upcycle + "--moe-latent-size 32"),
             ContainsSubstring("leave out --moe-latent-size"));
  CHECK_THAT(refused(upcycle + "--strict-identity"),
             ContainsSubstring("but --moe-use-upcycling changes them"));
}

TEST_CASE("an unknown flag is answered with the nearest one", "[command]") {
  CHECK_THAT(tests::refusal_of_flags("--num-layer 3"),
             ContainsSubstring("did you mean --num-layers?"));
  CHECK_THAT(tests::refusal_of_flags("--adam-beta3=1"),
             ContainsSubstring("--adam-beta3 is not a flag"));
  CHECK_THAT(tests::refusal_of_flags("--xyzzy"), !ContainsSubstring("did you mean"));
  CHECK_THAT(tests::refusal_of_flags("gpt3"),
             ContainsSubstring("'gpt3' does not belong to a flag"));
}

TEST_CASE("a flag of another program is answered with troupe's", "[command]") {
  const auto answer = [](const std::string& flag) { return tests::refusal_of_flags(flag); };
  CHECK_THAT(answer("--learning-rate 1e-3"),
             ContainsSubstring("--learning-rate is not a flag of 'troupe train gpt': use --lr"));
  CHECK_THAT(answer("--learning_rate=1e-3"), ContainsSubstring("use --lr"));
  CHECK_THAT(answer("--epochs 3"), ContainsSubstring("use --train-iters or --train-samples"));
  CHECK_THAT(answer("--dtype bfloat16"), ContainsSubstring("use --bf16 or --fp16"));
  CHECK_THAT(answer("--model gpt2"), ContainsSubstring("use --load-hf DIR"));
  CHECK_THAT(answer("--lora-rank 8"), ContainsSubstring("no adapters (LoRA)"));
  CHECK_THAT(answer("--training.seq_len 128"), ContainsSubstring("use --seq-length"));
  CHECK_THAT(answer("--per_device_train_batch_size 8"), ContainsSubstring("--micro-batch-size"));
  CHECK_THAT(answer("--eval_only"), ContainsSubstring("use --skip-train"));
  CHECK_THAT(answer("--save_strategy epoch"), ContainsSubstring("use --save-interval"));
  CHECK_THAT(answer("--packing"), ContainsSubstring("always packed"));
  CHECK_THAT(answer("--optimizer.weight-decay 0.1"), ContainsSubstring("use --weight-decay"));
  CHECK_THAT(answer("--data_parallel_shard_degree 8"),
             ContainsSubstring("--use-distributed-optimizer"));
  CHECK_THAT(answer("--profiling.enable_profiling"), ContainsSubstring("use --trace"));
  CHECK_THAT(answer("--metrics.enable-wandb"), ContainsSubstring("--tensorboard-dir"));
  CHECK_THAT(answer("--wandb_project x"),
             ContainsSubstring("--wandb-project is refused: metrics are not sent to services")
                 && !ContainsSubstring("did you mean"));
}

TEST_CASE("answers to flags of other programs name existing flags", "[command]") {
  command_line program("troupe", "");
  add_commands(program);
  const auto all = program.describe();
  const auto command = [&all](const std::string& path) {
    std::vector<command_description> open = all.commands;
    while (!open.empty()) {
      const auto next = open.back();
      open.pop_back();
      if (next.path == path)
        return next;
      open.insert(open.end(), next.commands.begin(), next.commands.end());
    }
    throw runtime::broken_promise("there is no command " + path);
  };
  for (const auto& [path, rows] : {std::pair("troupe train gpt", other_names_of_training()),
                                   std::pair("troupe generate", other_names_of_generating()),
                                   std::pair("troupe eval", other_names_of_evaluating()),
                                   std::pair("troupe preprocess", other_names_of_preparing()),
                                   std::pair("troupe conversations", other_names_of_preparing())}) {
    std::set<std::string> flags;
    const auto its = command(path);
    for (const auto& group : its.groups)
      for (const auto& flag : group.flags)
        flags.insert(flag.name);
    for (const auto& row : rows) {
      INFO(path << ": " << row.names);
      for (const auto& word : tests::words_of(row.answer))
        if (word.starts_with("--"))
          CHECK(flags.contains(word.substr(0, word.find_last_not_of(",;:") + 1)));
      for (const auto& name : tests::words_of(row.names))
        CHECK_FALSE(flags.contains("--" + name));
    }
  }
}

TEST_CASE("a bad value is reported with its flag and the allowed values", "[command]") {
  const auto refused
      = [](const std::string& more) { return tests::refusal_of_flags(tests::small_run + more); };
  CHECK_THAT(refused("--num-layers many"),
             ContainsSubstring("--num-layers 'many': give a whole number from 1"));
  CHECK_THAT(refused("--num-layers 0"), ContainsSubstring("from 1"));
  CHECK_THAT(refused("--num-layers 99999999999999999999"), ContainsSubstring("whole number"));
  CHECK_THAT(refused("--lr nan"), ContainsSubstring("--lr 'nan': give a number of 0 or more"));
  CHECK_THAT(refused("--lr 1e-3x"), ContainsSubstring("'1e-3x'"));
  CHECK_THAT(refused("--adam-beta1 2"), ContainsSubstring("from 0 to below 1"));
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

TEST_CASE("all errors are reported at once", "[command]") {
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

TEST_CASE("stray words and unknown flags are reported at once", "[command]") {
  const auto all = tests::refusal_of_flags(
      "--tokenizer-type WordPiece --lr fast --num-layer 3 --adam-beta3 1");
  CHECK_THAT(all,
             ContainsSubstring("4 flags cannot be used") && ContainsSubstring("--tokenizer-type")
                 && ContainsSubstring("--lr 'fast'") && ContainsSubstring("--num-layer ")
                 && ContainsSubstring("--adam-beta3"));
}

TEST_CASE("refused words do not hide missing flags", "[command]") {
  const auto all = tests::refusal_of_flags(
      "--tokenizer-type WordPiece --lr fast --num-layer 3 --hidden-size 64 --micro-batch-size 2");
  CHECK_THAT(all,
             ContainsSubstring("3 flags cannot be used") && ContainsSubstring("\nalso:")
                 && ContainsSubstring("--num-attention-heads is missing")
                 && ContainsSubstring("--seq-length is missing")
                 && ContainsSubstring("--train-iters or --train-samples"));
  CHECK_THAT(all, !ContainsSubstring("--lr is missing") && !ContainsSubstring("--num-layers is"));
  CHECK_THAT(tests::refusal_of_flags(tests::small_run + "--lr fast"),
             !ContainsSubstring("\nalso:"));
}

TEST_CASE("consequences of refused words are not reported", "[command]") {
  const std::string no_rate
      = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --mock-data "
        "--micro-batch-size 2 --train-iters 100 --tokenizer-type NullTokenizer --vocab-size 1000 ";
  for (const auto* words :
       {"--pipeline-model-parallel-size four --pipeline-schedule dualpipe",
        "--global-batch-size 64k --pipeline-model-parallel-size 4 --pipeline-schedule dualpipe",
        "--decoder-last-pipeline-num-layers x --decoder-first-pipeline-num-layers 2 "
        "--pipeline-model-parallel-size 2",
        "--world-size two --tensor-model-parallel-size 3",
        "--load-hf nowhere --train-samples 10k --lr-decay-samples 9000"}) {
    CAPTURE(words);
    const auto said = tests::refusal_of_flags(no_rate + words);
    CAPTURE(said);
    CHECK(std::count(said.begin(), said.end(), '\n') == 2);
    CHECK_THAT(said, ContainsSubstring("\nalso:\n  --lr is missing"));
  }
}

TEST_CASE("a file that cannot be opened is reported once", "[command]") {
  const auto said = tests::refusal_of_flags(
      "--load-hf nowhere --mock-data --lr 1e-3 --train-iters 9 --micro-batch-size 1 "
      "--tokenizer-type NullTokenizer --vocab-size 100");
  CHECK_THAT(said, ContainsSubstring("--load-hf 'nowhere'") && !ContainsSubstring("\n"));
}

TEST_CASE("a missing model folder is not answered by a demand for a tokenizer", "[command]") {
  const std::string rest = " --mock-data --lr 1e-3 --train-iters 9 --micro-batch-size 1";
  CHECK_THAT(tests::refusal_of_flags("--load-hf ./nowhere" + rest),
             ContainsSubstring("--load-hf './nowhere': there is no such folder")
                 && !ContainsSubstring("\n"));
  const tests::scratch_folder empty;
  CHECK_THAT(tests::refusal_of_flags("--load-hf " + empty.path().string() + rest),
             ContainsSubstring("config.json") && !ContainsSubstring("\n"));
  CHECK_THAT(tests::refusal_of_flags("--load-hf ./nowhere --lr 1e-3"),
             ContainsSubstring("there is no such folder")
                 && ContainsSubstring("--micro-batch-size is missing")
                 && !ContainsSubstring("--vocab-file"));
}

TEST_CASE("sizes of the batch that begin late are refused", "[command]") {
  CHECK_THAT(tests::refusal_of_flags(
                 "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                 "--micro-batch-size 2 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer "
                 "--vocab-size 1000 --train-samples 100 --step-batch-size-schedule 3200:64"),
             ContainsSubstring("one must begin at 0"));
}

TEST_CASE("each error is reported once", "[command]") {
  for (const auto* words : {"--split 1,x",
                            "--pipeline-model-parallel-size 4 --pipeline-schedule dualpipe "
                            "--global-batch-size 2",
                            "--pipeline-model-parallel-size 2 --pipeline-schedule missing.csv",
                            "--tokenizer-type GPT2BPETokenizer",
                            "--pipeline-model-parallel-size 2 --rampup-batch-size 4 0 100 "
                            "--train-samples 100"}) {
    CAPTURE(words);
    const auto said = tests::refusal_of_flags(tests::small_run + words);
    CAPTURE(said);
    std::istringstream lines(said);
    std::multiset<std::string> all;
    for (std::string line; std::getline(lines, line);)
      all.insert(line);
    REQUIRE(!all.empty());
    for (const auto& line : all)
      CHECK(all.count(line) == 1);
  }
}

TEST_CASE("rules about an unreadable part are not reported", "[command]") {
  const auto told = [](const std::string& words) {
    return tests::refusal_of_flags(
        "--num-layers 5 --hidden-size 64 --num-attention-heads 4 "
        "--seq-length 32 --train-iters 10 --lr 1e-3 "
        "--tokenizer-type NullTokenizer --vocab-size 100 "
        + words);
  };
  CHECK_THAT(
      told("--micro-batch-size 1 --data-args-path missing.txt"),
      ContainsSubstring("missing.txt") && !ContainsSubstring("the training data is missing"));
  CHECK_THAT(told("--mock-data --global-batch-size 8 --pipeline-model-parallel-size 2 "
                  "--pipeline-schedule dualpipe --decoder-first-pipeline-num-layers 3"),
             ContainsSubstring("--micro-batch-size is missing") && !ContainsSubstring("dualpipe")
                 && !ContainsSubstring("--decoder-first"));
  CHECK_THAT(told("--mock-data --micro-batch-size 1 --rampup-batch-size 4 0 100"),
             ContainsSubstring("--rampup-batch-size") && !ContainsSubstring("no step")
                 && !ContainsSubstring("--lr is 0"));
  CHECK_THAT(told("--mock-data --micro-batch-size 1 --pipeline-model-parallel-size 2 "
                  "--pipeline-model-parallel-layout nonsense --recompute-granularity full "
                  "--recompute-method uniform --recompute-num-layers 3"),
             ContainsSubstring("nonsense") && !ContainsSubstring("--recompute-num-layers 3"));
  CHECK_THAT(told("--mock-data --micro-batch-size 1 --rampup-batch-size 4 0 100 "
                  "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|tt|t|tL "
                  "--num-virtual-stages-per-pipeline-rank 2"),
             ContainsSubstring("--rampup-batch-size") && !ContainsSubstring("do not hold"));
  CHECK_THAT(tests::refusal_of_flags(
                 "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --mock-data --lr 1e-3 "
                 "--train-iters 9 --micro-batch-size 1 --global-batch-size 8 "
                 "--tokenizer-type NullTokenizer --vocab-size 100 --pipeline-model-parallel-size 4 "
                 "--num-virtual-stages-per-pipeline-rank 2 "
                 "--microbatch-group-size-per-virtual-pipeline-stage 4"),
             ContainsSubstring("--seq-length is missing") && !ContainsSubstring("\n"));
  // Rules about the model's shape are checked without a tokenizer.
  CHECK_THAT(told("--mock-data --micro-batch-size 1 --tokenizer-type GPT2BPETokenizer "
                  "--group-query-attention --num-query-groups 3"),
             ContainsSubstring("--vocab-file") && ContainsSubstring("--num-query-groups 3"));
}

TEST_CASE("contradictions are reported together with missing flags", "[command]") {
  const auto all = tests::refusal_of_flags(
      "--mock-data --num-layers 2 --hidden-size 65 --num-attention-heads 4 --seq-length 32 "
      "--micro-batch-size 4 --global-batch-size 6 --min-lr 1 --lr 1e-3 --world-size 5 "
      "--tensor-model-parallel-size 2 --split 0,1 --tokenizer-type NullTokenizer");
  CHECK_THAT(all,
             ContainsSubstring("--hidden-size 65") && ContainsSubstring("needs --vocab-size")
                 && ContainsSubstring("--train-iters or --train-samples")
                 && ContainsSubstring("--global-batch-size 6") && ContainsSubstring("--min-lr 1")
                 && ContainsSubstring("--world-size 5") && ContainsSubstring("--split 0,1"));
}

TEST_CASE("consequences of a missing flag are not reported", "[command]") {
  // Rules about heads, the vocabulary and the length are skipped, because these are missing.
  const auto all = tests::refusal_of_flags(
      "--num-layers 3 --hidden-size 64 --seq-length 31 --micro-batch-size 1 --lr 1e-3 "
      "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel "
      "--pipeline-schedule dualpipe --untie-embeddings-and-output-weights --lr-warmup-iters 10 "
      "--lr-decay-style WSD --lr-wsd-decay-iters 5 --fim-data --data-path nothing "
      "--global-batch-size 8");
  CHECK_THAT(all,
             ContainsSubstring("--num-attention-heads is missing")
                 && ContainsSubstring("--train-iters or --train-samples")
                 && ContainsSubstring("--vocab-file") && ContainsSubstring("'nothing"));
  CHECK_THAT(all,
             !ContainsSubstring("warms up") && !ContainsSubstring("WSD decays")
                 && !ContainsSubstring("tied") && !ContainsSubstring("padded vocabulary")
                 && !ContainsSubstring("no step") && !ContainsSubstring("names no tokenizer")
                 && !ContainsSubstring("--num-layers 3") && !ContainsSubstring("split evenly"));
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
