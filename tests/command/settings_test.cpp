#include "actors/command/flags.hpp"
#include "actors/command/setting_names.hpp"
#include "tests/support/setting_fields.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

using namespace troupe;
using namespace troupe::command;

namespace {

std::vector<flag_description> settings_of_training() {
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  std::vector<flag_description> out;
  for (const auto& group : line.describe().groups)
    for (const auto& flag : group.flags)
      if (!flag.field.empty())
        out.push_back(flag);
  return out;
}

/// "precision" of "precision=bf16": flags that choose one value share a field.
std::string field_of(const flag_description& x) {
  return x.field.substr(0, x.field.find('='));
}

/// What no flag says, and why.
const std::map<std::string, std::string>& no_settings() {
  static const std::map<std::string, std::string> all
      = {{"tokenizer_description", "of the tokenizer's settings"},
         {"own", "a model's parts in C++"},
         {"rate_of", "a function in C++"},
         {"layout.schedule.own", "behaviours in C++"},
         {"layout.schedule.text", "read from the file that is the source"},
         {"layout.schedule.transfer", "with layout.schedule.costs"},
         {"model.padded_vocabulary", "of the vocabulary, its divisor and the tensor ranks"},
         {"model.llama3_low", "Llama 3's, from a model's config.json"},
         {"model.llama3_high", "Llama 3's, from a model's config.json"},
         {"optimizer.moments_from", "where a run resumed without moments"},
         {"batch.data_parallel", "what the other axes leave"},
         {"batch.ramp_start", "with batch.ramp"},
         {"batch.ramp_increment", "with batch.ramp"},
         {"batch.ramp_samples", "with batch.ramp"},
         {"data.end_of_document", "the tokenizer's"},
         {"reduction.grain", "for tests of buckets"},
         {"recompute.core_attention", "with recompute.modules"},
         {"recompute.feed_forward", "with recompute.modules"},
         {"checkpoints.last_pause", "for tests of full disks"},
         {"faults.seed", "with faults.delays"},
         {"faults.lane_delay_us", "with faults.delays"},
         {"faults.message_delay_us", "with faults.delays"},
         {"devices.measure_products", "with devices.product_choices"}};
  return all;
}

/// What is set and not kept in a field of its own: it becomes others.
const std::set<std::string>& becomes_others() {
  static const std::set<std::string> all = {"model.grouped_queries",
                                            "model.vocabulary_divisor",
                                            "model.yarn_factor",
                                            "tokenizer.type",
                                            "tokenizer.vocab_file",
                                            "tokenizer.merge_file",
                                            "tokenizer.folder",
                                            "batch.ramp",
                                            "train_samples",
                                            "nonfinite",
                                            "optimizer",
                                            "rate.decay_iterations",
                                            "rate.warmup_iterations",
                                            "rate.warmup_fraction",
                                            "layout.context",
                                            "layout.expert",
                                            "layout.expert_tensor",
                                            "layout.ends.first",
                                            "layout.ends.last",
                                            "layout.ends.embedding_counts",
                                            "layout.ends.loss_counts",
                                            "layout.schedule.layers_per_chunk",
                                            "recompute.modules",
                                            "faults.delays",
                                            "dry_run"};
  return all;
}

const std::string small
    = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --world-size 1 "
      "--micro-batch-size 2 --train-iters 100 --lr 1e-3 --mock-data --threads-per-worker 1 "
      "--tokenizer-type NullTokenizer --vocab-size 1000 --backend cpu ";

struct trial {
  std::string around, other;  ///< what else it needs, and another value than the default's
};

/// Another value of each setting; of those that need files or a GPU none.
const std::map<std::string, trial>& trials() {
  const std::string gqa = "--group-query-attention ", rope = "--position-embedding-type rope ",
                    yarn = "--position-embedding-type yarn ", fp16 = "--fp16 ",
                    two = "--world-size 2 --pipeline-model-parallel-size 2 ", load = "--load x ",
                    split = "--world-size 2 --use-distributed-optimizer --overlap-grad-reduce ",
                    again
                    = "--recompute-granularity full --recompute-method block "
                      "--recompute-num-layers 1 ";
  static const std::map<std::string, trial> all = {
      {"--num-layers", {"", "2"}},
      {"--hidden-size", {"", "32"}},
      {"--num-attention-heads", {"", "2"}},
      {"--ffn-hidden-size", {"", "128"}},
      {"--kv-channels", {"", "8"}},
      {"--group-query-attention", {"", ""}},
      {"--num-query-groups", {gqa, "2"}},
      {"--seq-length", {"", "16"}},
      {"--max-position-embeddings", {"", "64"}},
      {"--make-vocab-size-divisible-by", {"", "100"}},
      {"--position-embedding-type", {"", "none"}},
      {"--use-rotary-position-embeddings", {"", ""}},
      {"--no-position-embedding", {"", ""}},
      {"--normalization", {"", "RMSNorm"}},
      {"--norm-epsilon", {"", "1e-6"}},
      {"--apply-layernorm-1p", {"", ""}},
      {"--qk-layernorm", {"", ""}},
      {"--window-size", {"", "8,0"}},
      {"--squared-relu", {"", ""}},
      {"--swiglu", {"", ""}},
      {"--no-bias-gelu-fusion", {"", ""}},
      {"--disable-bias-linear", {"", ""}},
      {"--add-qkv-bias", {"--disable-bias-linear ", ""}},
      {"--untie-embeddings-and-output-weights", {"", ""}},
      {"--hidden-dropout", {"", "0"}},
      {"--attention-dropout", {"", "0"}},
      {"--init-method-std", {"", "0.01"}},
      {"--rotary-base", {rope, "500000"}},
      {"--rotary-percent", {rope, "0.5"}},
      {"--rotary-interleaved", {rope, ""}},
      {"--rotary-seq-len-interpolation-factor", {rope, "2"}},
      {"--use-rope-scaling", {rope, ""}},
      {"--rope-scaling-factor", {rope + "--use-rope-scaling ", "4"}},
      {"--rotary-scaling-factor", {yarn, "4"}},
      {"--yarn-original-max-position-embeddings", {yarn, "1024"}},
      {"--yarn-beta-fast", {yarn, "16"}},
      {"--yarn-beta-slow", {yarn, "2"}},
      {"--no-yarn-correction-range-round-to-int", {yarn, ""}},
      {"--mscale", {yarn + "--rotary-scaling-factor 4 ", "2"}},
      {"--mscale-all-dim", {yarn + "--rotary-scaling-factor 4 ", "1"}},
      {"--split", {"", "9,1,0"}},
      {"--data-cache-path", {"", "cache"}},
      {"--eod-mask-loss", {"", ""}},
      {"--reset-position-ids", {"", ""}},
      {"--vocab-size", {"", "900"}},
      {"--micro-batch-size", {"--global-batch-size 4 ", "1"}},
      {"--global-batch-size", {"", "4"}},
      {"--rampup-batch-size", {"--global-batch-size 8 ", "4 4 100"}},
      {"--train-iters", {"", "50"}},
      {"--exit-interval", {"", "10"}},
      {"--on-nonfinite", {"", "skip"}},
      {"--max-skipped-in-a-row", {"--on-nonfinite skip ", "3"}},
      {"--adam-beta1", {"", "0.8"}},
      {"--adam-beta2", {"", "0.95"}},
      {"--adam-eps", {"", "1e-7"}},
      {"--weight-decay", {"", "0.1"}},
      {"--clip-grad", {"", "2"}},
      {"--seed", {"", "7"}},
      {"--loss-scale", {fp16, "128"}},
      {"--initial-loss-scale", {fp16, "65536"}},
      {"--min-loss-scale", {fp16, "2"}},
      {"--loss-scale-window", {fp16, "10"}},
      {"--hysteresis", {fp16, "1"}},
      {"--lr", {"", "2e-3"}},
      {"--min-lr", {"", "1e-4"}},
      {"--lr-decay-style", {"", "cosine"}},
      {"--lr-decay-iters", {"", "50"}},
      {"--lr-warmup-iters", {"", "5"}},
      {"--lr-warmup-fraction", {"", "0.1"}},
      {"--lr-warmup-init", {"", "1e-5"}},
      {"--world-size", {"", "2"}},
      {"--tensor-model-parallel-size", {"--world-size 2 ", "2"}},
      {"--sequence-parallel", {"--world-size 2 --tensor-model-parallel-size 2 ", ""}},
      {"--pipeline-model-parallel-size", {"--world-size 2 ", "2"}},
      {"--context-parallel-size", {"", "1"}},
      {"--expert-model-parallel-size", {"", "1"}},
      {"--expert-tensor-parallel-size", {"", "1"}},
      {"--use-tp-pp-dp-mapping", {"", ""}},
      {"--replicas-per-worker", {"", "2"}},
      {"--threads-per-worker", {"", "2"}},
      {"--bf16", {"", ""}},
      {"--fp16", {"", ""}},
      {"--dry-run", {"", ""}},
      {"--pipeline-model-parallel-layout", {two, "Et|tttL"}},
      {"--decoder-first-pipeline-num-layers", {two, "1"}},
      {"--decoder-last-pipeline-num-layers", {two, "1"}},
      {"--pipeline-schedule",
       {"--world-size 4 --pipeline-model-parallel-size 4 --global-batch-size 16 "
        "--untie-embeddings-and-output-weights ",
        "dualpipe"}},
      {"--num-virtual-stages-per-pipeline-rank", {two + "--global-batch-size 8 ", "2"}},
      {"--num-layers-per-virtual-pipeline-stage", {two + "--global-batch-size 8 ", "1"}},
      {"--microbatch-group-size-per-virtual-pipeline-stage",
       {two + "--global-batch-size 16 --num-virtual-stages-per-pipeline-rank 2 ", "4"}},
      {"--pipeline-memory-limit", {two + "--global-batch-size 16 --pipeline-schedule zb-h2 ", "4"}},
      {"--pipeline-times", {two + "--global-batch-size 8 --pipeline-schedule auto ", "1,1,1,0.5"}},
      {"--use-distributed-optimizer", {"", ""}},
      {"--ddp-bucket-size", {"", "1000"}},
      {"--overlap-grad-reduce", {"", ""}},
      {"--overlap-param-gather", {split, ""}},
      {"--recompute-granularity", {"", "selective"}},
      {"--recompute-activations", {"", ""}},
      {"--recompute-method", {again, "uniform"}},
      {"--recompute-num-layers", {again, "2"}},
      {"--recompute-modules", {"--recompute-granularity selective ", "mlp"}},
      {"--save", {"", "x"}},
      {"--load", {"", "x"}},
      {"--save-interval", {"--save x ", "5"}},
      {"--keep-last", {"--save x ", "2"}},
      {"--finetune", {load, ""}},
      {"--no-load-optim", {load, ""}},
      {"--override-opt_param-scheduler", {load, ""}},
      {"--use-checkpoint-opt_param-scheduler", {load, ""}},
      {"--strict-identity", {load, ""}},
      {"--log-interval", {"", "5"}},
      {"--log-throughput", {"", ""}},
      {"--matrix-rate", {"--log-throughput ", "1"}},
      {"--log-params-norm", {"", ""}},
      {"--log-num-zeros-in-grad", {"", ""}},
      {"--log-file", {"", "a.jsonl"}},
      {"--log-csv", {"", "a.csv"}},
      {"--tensorboard-dir", {"", "board"}},
      {"--tensorboard-log-interval", {"", "2"}},
      {"--record-schedule", {two, "record.csv"}},
      {"--trace", {"", "trace.json"}},
      {"--profile-operations", {"", "profile.json"}},
      {"--eval-interval", {"", "5"}},
      {"--eval-iters", {"", "5"}},
      {"--no-progress", {"", ""}},
      {"--backend", {"", "reference"}},
      {"--transport", {"", "ucx"}},
      {"--check-messages", {"", ""}},
      {"--plant-fault", {"", "stage:0.0@3"}},
      {"--plant-delays", {"", "1,2,3"}},
  };
  return all;
}

/// Settings without a trial, and where another test has them.
const std::set<std::string>& not_tried() {
  static const std::set<std::string> all
      = {"--load-hf",
         "--data-path",
         "--mock-data",
         "--tokenizer-type",
         "--vocab-file",
         "--merge-file",
         "--tokenizer",
         "--devices",
         "--allow-tf32",
         "--collectives",
         "--product-choices",
         "--optimizer",                                // has one value
         "--yarn-correction-range-round-to-int",       // is the default
         "--account-for-embedding-in-pipeline-split",  // layers that divide without do not with it
         "--account-for-loss-in-pipeline-split",
         // Of a run that is counted in samples, where they say what those in iterations say here.
         "--train-samples",
         "--lr-decay-samples",
         "--lr-warmup-samples"};
  return all;
}

std::string identity_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return runtime::identity(training_job_from(words));
}

}  // namespace

TEST_CASE("every field of a job has a setting, or a reason to have none", "[command][settings]") {
  std::set<std::string> known;
  for (const auto& x : settings_of_training())
    known.insert(field_of(x));
  const auto fields = tests::setting_fields({});
  for (const auto& field : fields) {
    INFO(field);
    CHECK(known.contains(field) != no_settings().contains(field));
  }
  for (const auto& field : known) {
    INFO(field);
    const bool is_field = std::find(fields.begin(), fields.end(), field) != fields.end();
    CHECK(is_field != becomes_others().contains(field));
  }
}

TEST_CASE("a setting has one flag, and errors that name it say that flag", "[command][settings]") {
  std::set<std::string> fields;
  for (const auto& x : settings_of_training()) {
    INFO(x.name);
    CHECK(fields.insert(x.field).second);
    CHECK(with_flags("`" + x.field + "` is wrong") == x.name + " is wrong");
  }
  CHECK(with_flags("see `troupe doctor`, or `layout.world` 2")
        == "see `troupe doctor`, or --world-size 2");
  CHECK(with_flags("a lone ` and `nobody`") == "a lone ` and `nobody`");
}

TEST_CASE("a setting is part of the identity exactly where its row says that it decides bits",
          "[command][settings]") {
  for (const auto& x : settings_of_training()) {
    INFO(x.name);
    if (not_tried().contains(x.name))
      continue;
    const auto found = trials().find(x.name);
    REQUIRE(found != trials().end());
    const auto base = small + found->second.around;
    const bool decides = x.resume != at_resume::free;
    CHECK((identity_of(base) != identity_of(base + x.name + " " + found->second.other)) == decides);
  }
}
