#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section old_section() {
  return {
      "Of earlier versions",
      {
          {works, "mmap only", "--data-impl"},
          {accepted, "there is no such scaling", "--no-query-key-layer-scaling"},
          {accepted,
           when_only,
           "--no-async-tensor-model-parallel-allreduce --no-delay-grad-reduce "
           "--delay-param-gather"},
          {accepted, "stages never wait for what they send", "--overlap-p2p-communication"},
          {accepted,
           "what was sent is freed when nobody needs it",
           "--deallocate-pipeline-outputs --no-scatter-gather-tensors-in-pipeline"},
          {accepted, mapped, "--mmap-warmup"},
          {accepted,
           "gradients lie in buckets, always",
           "--DDP-impl X --no-contiguous-buffers-in-local-ddp --use-contiguous-buffers-in-ddp"},
          {refused,
           "the stages of a worker gather one after the other, each before its next forward pass; "
           "leave it out",
           "--align-param-gather"},
          {refused, "use --norm-epsilon", "--layernorm-epsilon"},
          {refused, "use --override-opt_param-scheduler", "--override-lr-scheduler"},
          {refused, "use --use-checkpoint-opt_param-scheduler", "--use-checkpoint-lr-scheduler"},
          {refused, "use --recompute-num-layers", "--checkpoint-num-layers"},
          {refused,
           "what is kept is not spread over tensor ranks by itself; use --sequence-parallel",
           "--distribute-checkpointed-activations"},
          {refused,
           "no launcher starts this program: one process runs all workers, see --world-size",
           "--local_rank"},
          {refused, "there is one implementation of the GPT; leave it out", "--use-legacy-models"},
          {refused,
           "stages are cut by --pipeline-model-parallel-layout",
           "--pipeline-model-parallel-split-rank --standalone-embedding-stage"},
          {refused,
           encoders,
           "--encoder-tensor-model-parallel-size --encoder-pipeline-model-parallel-size"},
          {accepted,
           "--tensorboard-dir always has it",
           "--log-batch-size-to-tensorboard --log-learning-rate-to-tensorboard"},
          {accepted,
           "loss and gradient always are; --on-nonfinite says what follows",
           "--check-for-nan-in-loss-and-grad"},
          {refused, board, "--no-log-learnig-rate-to-tensorboard"},
          {refused, other_services, "--enable-one-logger --one-logger-entity"},
          {coming, sharded, "--use-custom-fsdp --keep-fp8-transpose-cache-when-using-custom-fsdp"},
          {refused,
           "the embedding has the type of the parameters; leave it out",
           "--embedding-weights-in-fp32"},
          {coming, blends, "--renormalize-blend-weights"},
          {refused, "data sets are files; copy them, and leave it out", "--s3-cache-path"},
          {refused,
           "tokenizers here are GPT2BPETokenizer, by --vocab-file and --merge-file, and "
           "NullTokenizer",
           "--legacy-tokenizer --tiktoken-special-tokens --tokenizer-hf-use-fast "
           "--tokenizer-hf-include-special-tokens"},
          {coming, eight_bits, "--kitchen-config-file --kitchen-recipe-number"},
          {refused, after_training, "--load-model-opt-format"},
          {coming, serving, "--disable-chunked-prefill"},
          {refused, vision, "--img-dim"},
      }};
}

}  // namespace troupe::command::megatron
