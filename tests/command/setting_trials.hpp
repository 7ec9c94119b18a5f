// A second value of each training setting, with the other flags that it needs.

#pragma once

#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/file/file.hpp"
#include "runtime/model/expert_choices.hpp"
#include "runtime/process/credentials.hpp"
#include "tests/support/hub_tokenizer.hpp"
#include "tests/support/scratch_folder.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

using namespace troupe::command;

inline std::vector<flag_description> settings_of_training() {
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  std::vector<flag_description> out;
  const auto add = [&out](const std::vector<flag_description>& all) {
    for (const auto& flag : all)
      if (!flag.field.empty())
        out.push_back(flag);
  };
  const auto about = line.describe();
  for (const auto& group : about.groups)
    add(group.flags);
  add(about.faults);
  return out;
}

/// "precision" of "precision=bf16": flags that choose one value share a field.
inline std::string field_of(const flag_description& x) {
  return x.field.substr(0, x.field.find('='));
}

inline const std::string small
    = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --world-size 1 "
      "--micro-batch-size 2 --lr 1e-3 --threads-per-worker 1 --backend cpu ";

/// Two tokenizers, `a` and `b`, and data sets of documents and conversations, encoded with `a`.
class made_files {
 public:
  made_files() {
    runtime::write_text(folder_ / "text", "in the beginning, in the end\n\nand in between\n");
    command_line program("troupe", "");
    add_commands(program);
    const auto at = [&](const char* name) { return (folder_ / name).string(); };
    for (const auto& [name, tokens] : {std::pair("a", "260"), std::pair("b", "262")})
      program.parse({"tokenizer",
                     "train",
                     "--input",
                     at("text"),
                     "--vocab-size",
                     tokens,
                     "--output",
                     at(name)})();
    for (const auto& [name, tokens] : {std::pair<std::string, int>("a", 260), {"b", 262}}) {
      const auto from = folder_ / name, to = folder_ / ("hub_" + name);
      runtime::make_folder(to);
      runtime::write_hub_tokenizer(to,
                                   {.end_of_document = tokens - 1,
                                    .vocab_file = from / "vocab.json",
                                    .merge_file = from / "merges.txt"});
    }
    write_with_fim_tokens();
    std::string ranks, list;
    for (int rank = 0; rank < 270; ++rank) {  // all bytes, and some pairs
      unsigned char text[8] = {},
                    token[2] = {static_cast<unsigned char>(rank), static_cast<unsigned char>('a')};
      EVP_EncodeBlock(text, token, rank < 256 ? 1 : 2);
      const std::string shown(reinterpret_cast<const char*>(text));
      ranks += fmt::format("{} {}\n", shown, rank);
      list += fmt::format(
          "{}{{\"rank\": {}, \"token_bytes\": \"{}\"}}", rank == 0 ? "[" : ", ", rank, shown);
    }
    runtime::write_text(folder_ / "ranks", ranks);
    runtime::write_text(folder_ / "list", list + "]");
    program.parse({"preprocess",
                   "--input",
                   at("text"),
                   "--input-format",
                   "lines",
                   "--output-prefix",
                   at("data"),
                   "--tokenizer",
                   at("a"),
                   "--append-eod"})();
    // Without the manifest, because trials use these data with other tokenizers.
    std::filesystem::remove(at("data_text_document.manifest.json"));
    runtime::write_text(
        folder_ / "talks.jsonl",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
    program.parse({"conversations",
                   "--input",
                   at("talks.jsonl"),
                   "--output-prefix",
                   at("talks"),
                   "--format",
                   "identity",
                   "--tokenizer",
                   at("a")})();
    const auto credentials = folder_ / "credentials";
    runtime::make_credentials(credentials, "0011223344556677");
    runtime::write_text(folder_ / "hub.pem",
                        runtime::read_text(credentials / "certificate.pem")
                            + runtime::read_text(credentials / "key.pem"));
    runtime::choice_writer(folder_ / "choices")
        .write(
            {{.router = "r", .experts = 1, .each = 1, .positions = 1, .samples = {0}, .count = 1},
             {0}});
    runtime::write_text(folder_ / "blend", "1 " + at("data_text_document"));
    runtime::write_text(folder_ / "parts", R"({"train": [")" + at("data_text_document") + R"("]})");
  }
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

 private:
  /// Writes hub_a with additional special tokens.
  void write_with_fim_tokens() {
    auto file = nlohmann::json::parse(runtime::read_text(folder_ / "hub_a/tokenizer.json"));
    for (const auto* name :
         {"<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>", "<file>"}) {
      auto added = file["added_tokens"].back();
      added["id"] = added["id"].get<int>() + 1;
      added["content"] = name;
      file["added_tokens"].push_back(added);
    }
    write_hub_tokenizer(folder_ / "fim", file);
  }

  scratch_folder folder_;
};

inline const made_files& files() {
  static const made_files all;
  return all;
}

/// True if a flag with this prefix is given.
inline bool gives(const std::string& text, const std::string& flag) {
  return (" " + text).find(" " + flag) != std::string::npos;
}

/// Adds the flags that a run needs and `text` does not give.
inline std::string complete(const std::string& text) {
  auto out = small;
  if (!gives(text, "--train-samples"))
    out += "--train-iters 100 ";
  if (!gives(text, "--data-path") && !gives(text, "--mock-data")
      && !gives(text, "--train-data-path") && !gives(text, "--data-args-path")
      && !gives(text, "--per-split-data-args-path"))
    out += "--mock-data ";
  if (!gives(text, "--tokenizer") && !gives(text, "--vocab-file"))
    out += "--tokenizer-type NullTokenizer --vocab-size 1000 ";
  return out + text;
}

struct trial {
  std::string around, other;  ///< other flags that it needs, and a value other than the default
  std::string instead = {};   ///< flags in its place on the other side, if needed
};

/// Another value of each setting that does not need a GPU.
inline const std::map<std::string, trial>& trials() {
  const std::string gqa = "--group-query-attention ", rope = "--position-embedding-type rope ",
                    yarn = "--position-embedding-type yarn ", fp16 = "--fp16 ",
                    two = "--world-size 2 --pipeline-model-parallel-size 2 ", load = "--load x ",
                    split = "--world-size 2 --use-distributed-optimizer --overlap-grad-reduce ",
                    again
                    = "--recompute-granularity full --recompute-method block "
                      "--recompute-num-layers 1 ",
                    samples = "--train-samples 200 ", wsd = "--lr-decay-style WSD ",
                    muon = "--optimizer muon ", grows = "--weight-decay-incr-style linear ",
                    uneven = two + "--num-layers 3 ", no_bias = "--disable-bias-linear ",
                    experts = "--num-experts 8 " + no_bias,
                    sigmoid = experts + "--moe-router-score-function sigmoid ",
                    capacity = experts + "--moe-expert-capacity-factor 1.5 ",
                    latent_layer = "--qk-layernorm " + no_bias + rope,
                    latent = "--multi-latent-attention " + latent_layer;
  const auto bpe = [](const std::string& name) {
    return "--vocab-file " + files() / (name + "/vocab.json") + " --merge-file "
           + files() / (name + "/merges.txt");
  };
  const auto text = "--split 100,0,0 --tokenizer " + files() / "fim" + " --data-path "
                    + files() / "data_text_document ",
             fim = text + "--fim-data ";
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
      {"--qk-layernorm-rows", {"--qk-layernorm ", ""}},
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
      {"--yarn-correction-range-round-to-int",
       {yarn, "", "--no-yarn-correction-range-round-to-int"}},
      {"--multi-latent-attention", {latent_layer, ""}},
      {"--q-lora-rank", {latent, "16"}},
      {"--kv-lora-rank", {latent, "16"}},
      {"--qk-head-dim", {latent, "16"}},
      {"--qk-pos-emb-head-dim", {latent, "16"}},
      {"--v-head-dim", {latent, "16"}},
      {"--latent-norm-epsilon", {latent, "1e-6"}},
      {"--num-experts", {no_bias, "8"}},
      {"--moe-layer-freq", {experts, "([0]*1+[1]*3)"}},
      {"--moe-ffn-hidden-size", {experts, "32"}},
      {"--moe-latent-size", {experts, "32"}},
      {"--moe-shared-expert-intermediate-size", {experts, "32"}},
      {"--moe-shared-expert-gate", {experts + "--moe-shared-expert-intermediate-size 32 ", ""}},
      {"--moe-router-topk", {experts, "3"}},
      {"--moe-router-score-function", {experts, "sigmoid"}},
      {"--moe-router-pre-softmax", {experts, ""}},
      {"--moe-router-topk-scaling-factor", {experts, "2.5"}},
      {"--moe-router-dtype", {experts, "fp32"}},
      {"--moe-router-num-groups",
       {experts + "--moe-router-group-topk 2 ", "4", "--moe-router-num-groups 2"}},
      {"--moe-router-group-topk",
       {experts + "--moe-router-num-groups 4 ", "2", "--moe-router-group-topk 1"}},
      {"--moe-router-group-score",
       {experts + "--moe-router-num-groups 4 --moe-router-group-topk 2 ", "max"}},
      {"--moe-router-load-balancing-type", {experts, "seq_aux_loss"}},
      {"--moe-aux-loss-coeff", {experts, "0.01"}},
      {"--moe-z-loss-coeff", {experts, "0.001"}},
      {"--moe-input-jitter-eps", {experts, "0.01"}},
      {"--moe-router-enable-expert-bias", {sigmoid, ""}},
      {"--moe-router-bias-update-rate", {sigmoid + "--moe-router-enable-expert-bias ", "0.01"}},
      {"--moe-router-quantile-balancing-ema",
       {experts + "--moe-router-load-balancing-type quantile_balancing ", "0.5"}},
      {"--moe-expert-capacity-factor", {experts, "1.5"}},
      {"--moe-pad-expert-input-to-capacity", {capacity, ""}},
      {"--moe-token-drop-policy", {capacity, "position"}},
      {"--moe-router-force-load-balancing", {experts, ""}},
      {"--data-path", {"--split 100,0,0 ", files() / "data_text_document", "--mock-data"}},
      {"--data-args-path", {"", files() / "blend", "--mock-data"}},
      {"--train-data-path", {"", files() / "data_text_document", "--mock-data"}},
      {"--valid-data-path",
       {"--train-data-path " + files() / "data_text_document ", files() / "data_text_document"}},
      {"--test-data-path",
       {"--train-data-path " + files() / "data_text_document ", files() / "data_text_document"}},
      {"--per-split-data-args-path", {"", files() / "parts", "--mock-data"}},
      {"--mock-data", {"--split 100,0,0 ", "", "--data-path " + files() / "data_text_document"}},
      {"--tokenizer-type", {"", "NullTokenizer --vocab-size 1000", "--tokenizer " + files() / "a"}},
      {"--vocab-file", {"", bpe("b").substr(13), bpe("a")}},
      {"--merge-file",
       {"--vocab-file " + files() / "b/vocab.json ", files() / "b/merges.txt", bpe("a")}},
      {"--tokenizer", {"", files() / "b", "--tokenizer " + files() / "a"}},
      {"--tokenizer-model",
       {"--tokenizer-type HuggingFaceTokenizer ",
        files() / "hub_b",
        "--tokenizer-model " + files() / "hub_a"}},
      {"--tiktoken-pattern",
       {"--tokenizer-type TikTokenizer --tokenizer-model " + files() / "ranks" + " ",
        "cl100k_base",
        "--tiktoken-pattern llama3"}},
      {"--tiktoken-num-special-tokens",
       {"--tokenizer-type TikTokenizer --vocab-size 1264 --tokenizer-model " + files() / "list"
            + " ",
        "996",
        "--tiktoken-num-special-tokens 1000"}},
      {"--split", {"", "9,1,0"}},
      {"--data-cache-path", {"", "cache"}},
      {"--object-storage-cache-path", {"", "cache"}},
      {"--dataloader-type", {"", "cyclic"}},
      {"--no-data-sharding", {"--dataloader-type cyclic ", ""}},
      {"--eod-mask-loss", {"", ""}},
      {"--calculate-per-token-loss", {"", ""}},
      {"--reset-position-ids", {"", ""}},
      {"--reset-attention-mask", {"", ""}},
      {"--sft", {"--split 100,0,0 --data-path " + files() / "talks_conversations ", ""}},
      {"--fim-data", {text, ""}},
      {"--fim-rate", {fim, "0.9"}},
      {"--fim-spm-rate", {fim, "0"}},
      {"--fim-split-sample", {fim, "<file>"}},
      {"--fim-fragment-rate", {fim + "--fim-split-sample <file> ", "1"}},
      {"--fim-no-prefix", {fim, "in"}},
      {"--fim-prefix-token", {fim, "<file>"}},
      {"--fim-middle-token", {fim, "<file>"}},
      {"--fim-suffix-token", {fim, "<file>"}},
      {"--fim-pad-token", {fim, "<file>"}},
      {"--fim-eod-token", {fim, "<file>"}},
      {"--vocab-size", {"", "900"}},
      {"--micro-batch-size", {"--global-batch-size 4 ", "1"}},
      {"--global-batch-size", {"", "4"}},
      {"--step-batch-size-schedule", {samples, "0:2,1K:4"}},
      {"--rampup-batch-size", {"--global-batch-size 8 ", "4 4 100"}},
      {"--train-iters", {"", "50"}},
      {"--train-samples", {samples, "100"}},
      {"--exit-interval", {"", "10"}},
      {"--exit-duration-in-mins", {"", "10"}},
      {"--skip-train", {"", ""}},
      {"--on-nonfinite", {"", "skip"}},
      {"--max-skipped-in-a-row", {"--on-nonfinite skip ", "3"}},
      {"--optimizer", {"", "sgd"}},
      {"--sgd-momentum", {"--optimizer sgd ", "0.5"}},
      {"--lion-beta1", {"--optimizer lion ", "0.5"}},
      {"--lion-beta2", {"--optimizer muon --muon-scalar-optimizer lion ", "0.5"}},
      {"--muon-momentum", {muon, "0.5"}},
      {"--muon-nesterov", {muon, ""}},
      {"--muon-no-split-qkv", {muon, ""}},
      {"--muon-scale-mode", {muon, "unit_rms_norm"}},
      {"--muon-extra-scale-factor", {muon, "0.2"}},
      {"--muon-coefficient-type", {muon, "simple"}},
      {"--muon-num-ns-steps", {muon, "10"}},
      {"--muon-tp-mode", {muon, "distributed"}},
      {"--muon-scalar-optimizer", {muon, "lion"}},
      {"--adam-beta1", {"", "0.8"}},
      {"--adam-beta2", {"", "0.95"}},
      {"--adam-eps", {"", "1e-7"}},
      {"--weight-decay", {"", "0.1"}},
      {"--weight-decay-incr-style", {"", "linear --start-weight-decay 0 --end-weight-decay 1"}},
      {"--start-weight-decay", {grows + "--end-weight-decay 1 ", "0.1", "--start-weight-decay 0"}},
      {"--end-weight-decay", {grows + "--start-weight-decay 0 ", "0.1", "--end-weight-decay 1"}},
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
      {"--lr-decay-samples", {samples, "100"}},
      {"--lr-warmup-iters", {"", "5"}},
      {"--lr-warmup-samples", {samples, "20"}},
      {"--lr-warmup-fraction", {"", "0.1"}},
      {"--lr-warmup-init", {"", "1e-5"}},
      {"--lr-wsd-decay-style", {wsd + "--lr-wsd-decay-iters 10 ", "linear"}},
      {"--lr-wsd-decay-iters", {wsd, "5", "--lr-wsd-decay-iters 10"}},
      {"--lr-wsd-decay-samples", {samples + wsd, "20", "--lr-wsd-decay-samples 10"}},
      {"--decoupled-lr", {"", "2e-3"}},
      {"--decoupled-min-lr", {"--decoupled-lr 2e-3 ", "1e-4"}},
      {"--world-size", {"", "2"}},
      {"--processes", {"--world-size 2 ", "2"}},
      {"--nodes", {"--world-size 2 ", "one:7000,two:7000 --credentials c"}},
      {"--spare-nodes",
       {"--world-size 2 --nodes one:7000,two:7000 --credentials c ", "three:7000,four:7000"}},
      {"--failure-domains", {"--world-size 2 --nodes one:7000,two:7000 --credentials c ", "racks"}},
      {"--credentials", {"--world-size 2 --nodes one:7000,two:7000 ", "c", "--insecure"}},
      {"--local-addr", {"--world-size 2 --credentials c --nodes one:7000,two:7000 ", "10.0.0.1"}},
      {"--hostfile", {"", "hosts"}},
      {"--ssh-command", {"--hostfile hosts ", "rsh"}},
      {"--interface", {"", "ib0"}},
      {"--launch-timeout", {"", "5"}},
      {"--insecure", {"--world-size 2 --nodes one:7000,two:7000 ", "", "--credentials c"}},
      {"--tensor-model-parallel-size", {"--world-size 2 ", "2"}},
      {"--sequence-parallel", {"--world-size 2 --tensor-model-parallel-size 2 ", ""}},
      {"--pipeline-model-parallel-size", {"--world-size 2 ", "2"}},
      {"--context-parallel-size", {"", "1"}},
      {"--expert-model-parallel-size",
       {experts + "--world-size 2 --expert-gradient-sums together ", "2"}},
      {"--expert-tensor-parallel-size",
       {experts + "--world-size 2 --tensor-model-parallel-size 2 --sequence-parallel ", "1"}},
      {"--expert-gradient-sums",
       {experts + "--world-size 2 --expert-model-parallel-size 2 ", "together"}},
      {"--moe-token-dispatcher-type", {"", "allgather"}},
      {"--use-tp-pp-dp-mapping", {"", ""}},
      {"--replicas-per-worker", {"", "2"}},
      {"--threads-per-worker", {"", "2"}},
      {"--bf16", {"", ""}},
      {"--fp16", {"", ""}},
      {"--dry-run", {"", ""}},
      {"--run", {"", "elsewhere"}},
      {"--pipeline-model-parallel-layout", {two, "Et|tttL"}},
      {"--decoder-first-pipeline-num-layers", {two, "1"}},
      {"--decoder-last-pipeline-num-layers", {two, "1"}},
      {"--account-for-embedding-in-pipeline-split",
       {uneven, "", "--account-for-loss-in-pipeline-split"}},
      {"--account-for-loss-in-pipeline-split",
       {uneven, "", "--account-for-embedding-in-pipeline-split"}},
      {"--pipeline-schedule",
       {"--world-size 4 --pipeline-model-parallel-size 4 --global-batch-size 16 "
        "--untie-embeddings-and-output-weights ",
        "dualpipe"}},
      {"--num-virtual-stages-per-pipeline-rank", {two + "--global-batch-size 8 ", "2"}},
      {"--num-layers-per-virtual-pipeline-stage", {two + "--global-batch-size 8 ", "1"}},
      {"--microbatch-group-size-per-virtual-pipeline-stage",
       {two + "--global-batch-size 16 --num-virtual-stages-per-pipeline-rank 2 ", "4"}},
      {"--pipeline-memory-limit", {two + "--global-batch-size 16 --pipeline-schedule zb-h2 ", "4"}},
      {"--pipeline-credits", {two + "--global-batch-size 8 ", "1"}},
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
      {"--moe-layer-recompute", {"--num-experts 4 --disable-bias-linear ", ""}},
      {"--save", {"", "x"}},
      {"--load", {"", "x"}},
      {"--pretrained-checkpoint", {"", "x"}},
      {"--save-interval", {"--save x ", "5"}},
      {"--keep-last", {"--save x ", "2"}},
      {"--keep-every", {"--save x --keep-last 1 ", "5"}},
      {"--non-persistent-save-interval",
       {"--world-size 2 --processes 2 ", "5 --non-persistent-local-ckpt-dir x"}},
      {"--non-persistent-local-ckpt-dir",
       {"--world-size 2 --processes 2 ", "x --non-persistent-save-interval 5"}},
      {"--finetune", {load, ""}},
      {"--moe-use-upcycling", {load + experts, ""}},
      {"--moe-upcycling-granularity",
       {load + experts + "--moe-ffn-hidden-size 128 ", "2 --moe-use-upcycling"}},
      {"--no-load-optim", {load, ""}},
      {"--override-opt_param-scheduler", {load, ""}},
      {"--use-checkpoint-opt_param-scheduler", {load, ""}},
      {"--strict-identity", {load, ""}},
      {"--exit-on-missing-checkpoint", {load, ""}},
      {"--log-interval", {"", "5"}},
      {"--log-throughput", {"", ""}},
      {"--matrix-rate", {"--log-throughput ", "1"}},
      {"--log-params-norm", {"", ""}},
      {"--moe-per-layer-logging", {experts, ""}},
      {"--save-tokens-per-expert-interval", {experts, "5"}},
      {"--log-num-zeros-in-grad", {"", ""}},
      {"--log-file", {"", "a.jsonl"}},
      {"--log-csv", {"", "a.csv"}},
      {"--tensorboard-dir", {"", "board"}},
      {"--tensorboard-log-interval", {"", "2"}},
      {"--record-schedule", {two, "record.csv"}},
      {"--record-expert-choices", {experts, "choices"}},
      {"--replay-expert-choices", {experts, files() / "choices"}},
      {"--trace", {"", "trace.json"}},
      {"--profile-operations", {"", "profile.json"}},
      {"--eval-interval", {"", "5"}},
      {"--eval-iters", {"", "5"}},
      {"--no-progress", {"", ""}},
      {"--log-format", {"", "short"}},
      {"--log-level", {"", "warning"}},
      {"--quiet", {"", ""}},
      {"--straggler-ratio", {"", "3"}},
      {"--monitor-address", {"", "127.0.0.1:7123"}},
      {"--monitor-certificate", {"--monitor-address 127.0.0.1:7123 ", files() / "hub.pem"}},
      {"--backend", {"", "reference"}},
      {"--transport", {"", "ucx"}},
      {"--check-messages", {"", ""}},
      {"--plant-fault", {"", "stage:0.0@3"}},
      {"--plant-death", {"", "lane:0.0@3:reduce"}},
      {"--plant-delays", {"", "1,2,3"}},
      {"--recovery", {"", "on"}},
      {"--max-restarts", {"", "3"}},
      {"--restart-window", {"", "60"}},
      {"--suspicion-seconds", {"", "2.5"}},
      {"--verify-fraction", {"", "0.25"}},
  };
  return all;
}

inline runtime::training_job job_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return training_job_from(words);
}

}  // namespace troupe::tests
