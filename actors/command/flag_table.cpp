#include "actors/command/flag_table.hpp"

#include "actors/command/help_text.hpp"
#include "runtime/core/log.hpp"

#include <utility>

namespace troupe::command {
namespace {

struct accepted_flag {
  const char* flag;
  int words;
  const char* meaning;
};

constexpr const char* fused
    = "which operations are fused is this program's affair; the function "
      "is the same";
constexpr const char* always_fp32 = "this is always done in fp32, with --bf16 too";
constexpr const char* no_collector = "there is no garbage collector or allocator to advise";

constexpr accepted_flag accepted_flags[] = {
    {"--use-mcore-models", 0, "there is one implementation of the GPT"},
    {"--transformer-impl", 1, "there is one implementation of the GPT"},
    {"--attention-backend", 1, "the attention kernel never stores the T x T matrix"},
    {"--use-flash-attn", 0, "the attention kernel never stores the T x T matrix"},
    {"--attention-softmax-in-fp32", 0, always_fp32},
    {"--accumulate-allreduce-grads-in-fp32", 0, always_fp32},
    {"--no-query-key-layer-scaling", 0, "there is no such scaling"},
    {"--no-masked-softmax-fusion", 0, fused},
    {"--no-bias-swiglu-fusion", 0, fused},
    {"--no-bias-dropout-fusion", 0, fused},
    {"--no-rope-fusion", 0, fused},
    {"--no-persist-layer-norm", 0, fused},
    {"--no-gradient-accumulation-fusion", 0, fused},
    {"--cross-entropy-loss-fusion", 0, fused},
    {"--cross-entropy-fusion-impl", 1, fused},
    {"--no-mmap-bin-files", 0, "data sets are mapped; nothing is copied before it is used"},
    {"--no-create-attention-mask-in-dataloader", 0, "there never is such a mask"},
    {"--num-workers", 1, "the loader serves batches on demand"},
    {"--num-dataset-builder-threads", 1, "the order of samples is computed by one thread"},
    {"--tiktoken-pattern", 1, "only the TikTokenizer reads it, and that is not here"},
    {"--distributed-backend", 1, "workers of one machine exchange memory, not packets"},
    {"--distributed-timeout-minutes", 1, "a dead or failed worker is seen, not waited for"},
    {"--manual-gc", 0, no_collector},
    {"--manual-gc-interval", 1, no_collector},
    {"--empty-unused-memory-level", 1, no_collector},
    {"--exit-signal-handler", 0, "SIGTERM and SIGINT always finish the step, save, and exit"},
    {"--deallocate-pipeline-outputs", 0, "what was sent is freed when nobody needs it"},
    {"--overlap-p2p-communication", 0, "stages never wait for what they send"},
    {"--no-overlap-p2p-communication", 0, "stages never wait for what they send"},
    {"--no-async-tensor-model-parallel-allreduce", 0, "when collectives run decides no result"},
    {"--no-load-rng",
     0,
     "nothing is to be loaded: random numbers are a function of seed, name, step and sample"},
    {"--no-save-rng",
     0,
     "nothing is to be saved: random numbers are a function of seed, name, step and sample"},
};

struct refused_flag {
  const char* flag;
  const char* reason;
};

constexpr const char* fp8 = "8-bit products need a GPU; leave it out, or use --bf16";
constexpr const char* sharded
    = "parameters are not spread over replicas in this build; use --use-distributed-optimizer, "
      "which "
      "spreads the optimizer's state";
constexpr const char* profiler = "no outer profiler is driven; use --trace FILE";
constexpr const char* board
    = "nothing is written for TensorBoard; use --log-file FILE, and draw "
      "it with `troupe plot`";
constexpr const char* recompute
    = "activations are computed again by --recompute-granularity, -method, -num-layers and "
      "-modules "
      "only; leave it out";
constexpr const char* no_scaling
    = "gradients need no scaling in fp32 and bf16, which have the same range; leave it out";
constexpr const char* two_rates = "one learning rate holds for all parameters; leave it out";
constexpr const char* virtual_stages = "each worker holds one pipeline stage; leave it out";

constexpr refused_flag refused_flags[] = {
    {"--fp16",
     "it comes with the GPU, together with the scaling of losses that it needs; use --bf16"},
    {"--grad-reduce-in-bf16",
     "gradients are added and summed in fp32, so that their bits do not depend on the layout; "
     "leave it out"},
    {"--loss-scale", no_scaling},
    {"--initial-loss-scale", no_scaling},
    {"--min-loss-scale", no_scaling},
    {"--loss-scale-window", no_scaling},
    {"--hysteresis", no_scaling},
    {"--use-megatron-fsdp", sharded},
    {"--use-torch-fsdp2", sharded},
    {"--data-parallel-sharding-strategy", sharded},
    {"--align-param-gather",
     "it is about virtual pipeline stages, and each worker holds one stage; leave it out"},
    {"--tp-comm-overlap",
     "collectives of tensor parallelism are not overlapped with products in this build; leave it "
     "out"},
    {"--num-layers-per-virtual-pipeline-stage", virtual_stages},
    {"--num-virtual-stages-per-pipeline-rank", virtual_stages},
    {"--apply-query-key-layer-scaling",
     "it guards against overflow in fp16, which this build does not have; leave it out"},
    {"--openai-gelu", "it is the tanh formula, which is the default here; leave it out"},
    {"--qk-l2-norm", "queries and keys are normalised with gains, by --qk-layernorm"},
    {"--apply-wd-to-qk-layernorm", "gains do not decay; leave it out"},
    {"--overlap-param-gather-with-optimizer-step",
     "it is about virtual pipeline stages, and each worker holds one stage; leave it out"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", virtual_stages},
    {"--num-distributed-optimizer-instances",
     "the optimizer's state is spread over all replicas; leave it out"},
    {"--use-precision-aware-optimizer", "the optimizer's state is fp32; leave it out"},
    {"--distribute-saved-activations",
     "what is kept is not spread over tensor ranks by itself; use --sequence-parallel"},
    {"--window-attn-skip-freq", "all layers see through the same window; leave it out"},
    {"--no-rope-freq", "positions turn in every layer; leave it out"},
    {"--num-experts", "this build has no mixture-of-experts layers; leave it out"},
    {"--multi-latent-attention", "this build has no latent attention; leave it out"},
    {"--mtp-num-layers", "this build predicts one token at a time; leave it out"},
    {"--decoupled-lr", two_rates},
    {"--decoupled-min-lr", two_rates},
    {"--start-weight-decay", "weight decay is constant here; use --weight-decay"},
    {"--end-weight-decay", "weight decay is constant here; use --weight-decay"},
    {"--weight-decay-incr-style", "weight decay is constant here; use --weight-decay"},
    {"--use-checkpoint-args", "give the flags of the first run again; what differs is said"},
    {"--no-save-optim", "a checkpoint that cannot resume exactly is not written; leave it out"},
    {"--async-save", "whether saving waits is not a choice here; leave it out"},
    {"--reset-attention-mask",
     "attention here sees the whole sample, across the ends of documents; leave it out"},
    {"--train-data-path", "one data set is cut by --split; use --data-path"},
    {"--valid-data-path", "one data set is cut by --split; use --data-path"},
    {"--test-data-path", "one data set is cut by --split; use --data-path"},
    {"--data-args-path", "blends of data sets are not in this build; use --data-path"},
    {"--per-split-data-args-path", "blends of data sets are not in this build; use --data-path"},
    {"--tokenizer-model",
     "tokenizers here are GPT2BPETokenizer, by --vocab-file and --merge-file, and NullTokenizer"},
    {"--tensorboard-dir", board},
    {"--tensorboard-queue-size", board},
    {"--log-timers-to-tensorboard", board},
    {"--log-validation-ppl-to-tensorboard", board},
    {"--profile", profiler},
    {"--profile-step-start", profiler},
    {"--profile-step-end", profiler},
    {"--profile-ranks", profiler},
    {"--use-pytorch-profiler", profiler},
    {"--timing-log-level", "use --trace FILE: it has the time of every action"},
    {"--log-params-norm", "the norm of the parameters is not computed; leave it out"},
    {"--log-num-zeros-in-grad", "zeros are not counted; leave it out"},
    {"--yaml-cfg", "the configuration is the command line"},
};

constexpr refused_flag refused_families[] = {
    {"--fp8-", fp8},
    {"--fp4-", fp8},
    {"--moe-", "this build has no mixture-of-experts layers; leave it out"},
    {"--tp-comm-",
     "collectives of tensor parallelism are not overlapped with products in this build; leave it "
     "out"},
    {"--ddp-",
     "gradients are summed in rank order, so that the bits are always the same; use "
     "--ddp-bucket-size, or leave it out"},
    {"--wandb-", board},
    {"--tensorboard-", board},
    {"--dist-ckpt-",
     "it is about the files of torch.distributed, and checkpoints here are "
     "safetensors shards with a manifest; leave it out"},
    {"--ckpt-",
     "it is about the files of torch.distributed, and checkpoints here are safetensors "
     "shards with a manifest; leave it out"},
    {"--inprocess-", "supervision is part of every run here; leave it out"},
    {"--rerun-", "supervision is part of every run here; leave it out"},
    {"--cuda-graph", "there is no GPU in this build; leave it out"},
    {"--recompute-", recompute},
};

/// The flags that are harmless in one form only.
void declare_conditional(command_line& line, training_flags& to) {
  line.group("Understood in one form only");
  line.value("--ckpt-format",
             "FORMAT",
             "torch_dist is accepted and means our own format: safetensors shards and a manifest.",
             [](const std::string& flag, const std::string& word) {
               std::string format;
               one_of(format, {"troupe", "torch_dist"})(flag, word);
               if (format != "troupe")
                 runtime::log_warning(
                     "{} {}: checkpoints are written in Troupe's own format, safetensors shards "
                     "with a manifest",
                     flag,
                     format);
             });
  line.value("--dataloader-type",
             "TYPE",
             "single: samples in the order of the data set's index.",
             [](const std::string& flag, const std::string& word) {
               if (word != "single")
                 throw usage_error(
                     "{} {} is refused: samples come in the order of the data set's index; give "
                     "single",
                     flag,
                     word);
             });
  line.value("--data-impl",
             "IMPL",
             "mmap: the indexed format.",
             [](const std::string& flag, const std::string& word) {
               if (word != "mmap")
                 throw usage_error("{} {} is refused: the one format is mmap", flag, word);
             });
  line.toggle("--calculate-per-token-loss",
              "Accepted where it means the same: unless --eod-mask-loss, every sample has as many "
              "tokens that count.",
              [&to] { to.data.per_token_loss = true; });
}

}  // namespace

void declare_table(command_line& line, training_flags& to) {
  declare_conditional(line, to);
  for (const auto& x : accepted_flags)
    line.accepted(x.flag, x.words);
  for (const auto& x : refused_flags)
    line.refused(x.flag, x.reason);
  for (const auto& x : refused_families)
    line.refused_family(x.flag, x.reason);
}

std::string megatron_help() {
  help_section taken{"Accepted: they decide nothing here", {}};
  for (const auto& x : accepted_flags)
    taken.entries.push_back({std::string(x.flag) + (x.words > 0 ? " X" : ""), x.meaning});
  help_section refused{"Refused", {}};
  for (const auto& x : refused_flags)
    refused.entries.push_back({x.flag, x.reason});
  for (const auto& x : refused_families)
    refused.entries.push_back({std::string(x.flag) + "...", x.reason});
  return format_help("troupe train gpt",
                     "flags of Megatron-LM that are understood, but not used",
                     {taken, refused},
                     {});
}

}  // namespace troupe::command
