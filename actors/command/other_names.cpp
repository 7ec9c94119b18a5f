#include "actors/command/other_names.hpp"

#include <sstream>
#include <string>

namespace troupe::command {
namespace {

constexpr other_name of_training[] = {
    {"learning-rate max-lr peak-lr optimizer.lr", "use --lr"},
    {"lr-scheduler lr-scheduler-type lr-schedule scheduler lr-scheduler.decay-type",
     "use --lr-decay-style"},
    {"warmup warmup-steps warmup-iters num-warmup-steps lr-scheduler.warmup-steps",
     "use --lr-warmup-iters"},
    {"min-lr-ratio lr-scheduler.min-lr-factor", "use --min-lr, which is a rate"},
    {"warmup-ratio warmup-fraction", "use --lr-warmup-fraction"},
    {"lr-decay-steps decay-steps", "use --lr-decay-iters"},
    {"epochs num-epochs num-train-epochs max-epochs",
     "a run is counted in steps or samples; use --train-iters or --train-samples"},
    {"steps max-steps num-steps total-steps max-iters num-iters training.steps",
     "use --train-iters"},
    {"max-train-samples", "use --train-samples"},
    {"batch-size train-batch-size per-device-train-batch-size per-gpu-train-batch-size "
     "local-batch-size training.local-batch-size device-batch-size",
     "use --micro-batch-size for the samples of one pass, --global-batch-size for those of a step"},
    {"total-batch-size training.global-batch-size", "use --global-batch-size"},
    {"gradient-accumulation-steps gradient-accumulation grad-accum grad-accum-steps "
     "accumulate-grad-batches",
     "use --global-batch-size; a step has global batch / (micro-batch x replicas) micro-batches"},
    {"block-size seq-len seqlen sequence-length max-seq-length max-seq-len max-length "
     "context-length n-ctx n-positions model-max-length training.seq-len",
     "use --seq-length"},
    {"n-layer n-layers layers depth num-hidden-layers", "use --num-layers"},
    {"n-head n-heads heads num-heads", "use --num-attention-heads"},
    {"n-kv-head n-kv-heads num-kv-heads num-key-value-heads",
     "use --group-query-attention and --num-query-groups"},
    {"n-embd d-model dim hidden-dim embed-dim embedding-size", "use --hidden-size"},
    {"intermediate-size d-ff ffn-dim ffn-hidden-dim", "use --ffn-hidden-size"},
    {"dropout", "use --hidden-dropout and --attention-dropout"},
    {"rope-theta", "use --rotary-base"},
    {"tie-word-embeddings tie-embeddings",
     "they are tied; --untie-embeddings-and-output-weights separates them"},
    {"model model-name model-path model-name-or-path pretrained init-from hf-model base-model "
     "model.name model.flavor",
     "use --load-hf DIR for a Hugging Face folder, or --num-layers, --hidden-size and "
     "--num-attention-heads for a new model"},
    {"dtype torch-dtype precision amp mixed-precision training.mixed-precision-param",
     "use --bf16 or --fp16; without them it is fp32"},
    {"data dataset datasets dataset-name dataset-path data-dir train-file train-data "
     "training.dataset training.dataset-path",
     "use --data-path PREFIX, which `troupe preprocess` makes from text"},
    {"validation-file valid-data eval-dataset", "use --valid-data-path PREFIX, or --split"},
    {"tokenizer-name tokenizer-path tokenizer-name-or-path model.tokenizer-path",
     "use --tokenizer DIR"},
    {"out output out-dir output-dir save-dir checkpoint-dir dump-folder job.dump-folder "
     "checkpoint.folder",
     "use --save"},
    {"resume resume-from resume-from-checkpoint ckpt ckpt-path checkpoint checkpoint-path",
     "use --load"},
    {"save-steps save-every checkpoint-interval checkpointing-steps checkpoint.interval",
     "use --save-interval"},
    {"save-total-limit checkpoint.keep-latest-k", "use --keep-last"},
    {"logging-steps log-every log-freq print-every metrics.log-freq", "use --log-interval"},
    {"eval-steps eval-every eval-freq validation-interval", "use --eval-interval"},
    {"eval-batches limit-val-batches", "use --eval-iters"},
    {"grad-clip max-grad-norm max-norm gradient-clip-val gradient-clipping training.max-norm",
     "use --clip-grad"},
    {"optim optimizer.name", "use --optimizer"},
    {"beta1 optimizer.beta1", "use --adam-beta1"},
    {"beta2 optimizer.beta2", "use --adam-beta2"},
    {"adam-epsilon optimizer.eps", "use --adam-eps"},
    {"wd optimizer.weight-decay", "use --weight-decay"},
    {"random-seed data-seed training.seed", "use --seed, which also sets the sample order"},
    {"gradient-checkpointing activation-checkpointing activation-checkpoint.mode",
     "use --recompute-granularity"},
    {"tp tp-size tensor-parallel tensor-parallel-size tensor-parallel-degree "
     "parallelism.tensor-parallel-degree",
     "use --tensor-model-parallel-size"},
    {"pp pp-size pipeline-parallel pipeline-parallel-size pipeline-parallel-degree "
     "parallelism.pipeline-parallel-degree",
     "use --pipeline-model-parallel-size"},
    {"dp dp-size data-parallel-size data-parallel-replicate-degree "
     "parallelism.data-parallel-replicate-degree",
     "use --world-size, which is tensor x pipeline x data"},
    {"fsdp zero zero-stage data-parallel-shard-degree parallelism.data-parallel-shard-degree",
     "--use-distributed-optimizer shards the optimizer's state; parameters and gradients are not "
     "sharded"},
    {"gpus num-gpus ngpus n-gpus num-devices nproc-per-node", "use --world-size"},
    {"nnodes num-nodes", "use --nodes"},
    {"device", "use --backend"},
    {"threads num-threads", "use --threads-per-worker"},
    {"config-file job.config-file", "use --config"},
    {"lora use-lora lora-r lora-rank lora-alpha lora-dropout peft use-peft qlora load-in-4bit "
     "load-in-8bit",
     "there are no adapters (LoRA), all parameters are trained; leave it out"},
    {"compile torch-compile training.compile", "nothing is compiled at run time; leave it out"},
    {"flash-attn flash-attention attn-implementation",
     "attention never stores its scores of a whole sequence; leave it out"},
    {"wandb use-wandb wandb-log wandb-run-name report-to metrics.enable-wandb",
     "use --log-file or --tensorboard-dir, which Weights & Biases can read"},
    {"logging-dir metrics.enable-tensorboard metrics.save-tb-folder", "use --tensorboard-dir"},
    {"profiling profiling.enable-profiling", "use --trace FILE"},
    {"run-name", "a run is named by its folder; use --save or --run"},
    {"eval-only", "use --skip-train"},
    {"eval-strategy evaluation-strategy", "use --eval-interval; 0 is never"},
    {"per-device-eval-batch-size eval-batch-size",
     "validation has the batch of training; use --eval-iters for the number of batches"},
    {"checkpoint.enable checkpoint.enable-checkpoint", "use --save"},
    {"save-strategy always-save-checkpoint",
     "use --save-interval; checkpoints do not depend on the loss"},
    {"load-best-model-at-end",
     "checkpoints do not depend on the loss; use --save-interval, and `troupe eval` on each"},
    {"early-stopping-patience early-stopping-threshold",
     "a run does not end by its loss; leave it out, or end the run with `troupe stop`"},
    {"decay-lr", "use --lr-decay-style; constant has no decay"},
    {"bias", "linear layers have biases; --disable-bias-linear leaves them out"},
    {"packing", "documents and conversations are always packed into samples; leave it out"},
    {"deepspeed",
     "DeepSpeed's configurations are not read; --use-distributed-optimizer shards the optimizer's "
     "state, as ZeRO 1"},
    {"context-parallel-degree parallelism.context-parallel-degree",
     "samples are not split over workers; leave it out"},
    {"pipeline-parallel-schedule parallelism.pipeline-parallel-schedule",
     "use --pipeline-schedule"},
    {"do-train do-eval overwrite-output-dir push-to-hub",
     "leave it out; --skip-train only evaluates, `troupe checkpoint export` writes a Hugging Face "
     "folder"},
};

constexpr other_name of_generating[] = {
    {"model model-path model-name-or-path ckpt ckpt-path checkpoint resume hf load-hf out-dir",
     "use --load DIR: the folder of a training run, a checkpoint or a Hugging Face folder"},
    {"max-new-tokens max-tokens num-tokens max-length length", "use --tokens"},
    {"start text input", "use --prompt, or --prompts FILE"},
    {"temp", "use --temperature"},
    {"num-samples num-return-sequences",
     "use --prompts FILE with a line for each sample, or --return-beams"},
    {"num-beams beams beam-width", "use --beam-size"},
    {"device", "use --backend"},
    {"dtype precision torch-dtype", "use --bf16 or --fp16; without them it is fp32"},
    {"do-sample", "it samples; --greedy takes the most probable token"},
};

constexpr other_name of_evaluating[] = {
    {"model model-path model-name-or-path ckpt ckpt-path checkpoint hf load-hf out-dir",
     "use --load DIR: the folder of a training run, a checkpoint or a Hugging Face folder"},
    {"file text data data-path dataset", "use --input FILE, a text"},
    {"stride", "use --overlapping-eval"},
    {"device", "use --backend"},
    {"dtype precision torch-dtype", "use --bf16 or --fp16; without them it is fp32"},
};

/// For `troupe preprocess` and `troupe conversations`.
constexpr other_name of_preparing[] = {
    {"model model-name model-path model-name-or-path tokenizer-name tokenizer-path "
     "tokenizer-name-or-path hf load-hf",
     "use --tokenizer DIR"},
    {"data dataset datasets dataset-name dataset-path data-path data-dir file files input-file "
     "train-file",
     "use --input FILE..."},
    {"out output out-dir output-dir output-path output-file save", "use --output-prefix PREFIX"},
    {"num-proc num-workers nproc threads num-threads", "use --workers"},
};

}  // namespace

std::span<const other_name> other_names_of_training() {
  return of_training;
}
std::span<const other_name> other_names_of_generating() {
  return of_generating;
}
std::span<const other_name> other_names_of_evaluating() {
  return of_evaluating;
}

std::span<const other_name> other_names_of_preparing() {
  return of_preparing;
}

void declare_other_names(command_line& line, std::span<const other_name> rows) {
  for (const auto& row : rows) {
    std::istringstream names(row.names);
    for (std::string name; names >> name;)
      line.answers("--" + name, row.answer);
  }
}

}  // namespace troupe::command
