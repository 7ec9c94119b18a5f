#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section serving_section() {
  return {
      "Serving",
      {
          {coming,
           serving,
           "--inference-cuda-graph-scope --inference-fuse-tp-communication "
           "--inference-disable-triton-nvls-kernels --inference-grouped-gemm-backend "
           "--inference-moe-disable-fused-quant-kernels --inference-moe-token-dispatcher-type "
           "--inference-batch-times-seqlen-threshold --inference-max-requests "
           "--inference-max-seq-length --inference-dynamic-batching "
           "--inference-dynamic-batching-buffer-size-gb "
           "--inference-dynamic-batching-paused-buffer-size-gb "
           "--inference-dynamic-batching-mamba-memory-ratio "
           "--inference-dynamic-batching-block-size --inference-dynamic-batching-max-requests "
           "--inference-dynamic-batching-max-tokens --inference-dynamic-batching-num-cuda-graphs "
           "--inference-dynamic-batching-track-paused-request-events "
           "--inference-dynamic-batching-track-generated-token-events "
           "--inference-cuda-graph-all-prefills --inference-cuda-graph-max-tokens "
           "--inference-dynamic-batching-unified-memory-level "
           "--inference-dynamic-batching-prefix-caching "
           "--inference-dynamic-batching-prefix-caching-eviction-policy "
           "--inference-dynamic-batching-prefix-caching-coordinator-policy "
           "--inference-dynamic-batching-prefix-caching-routing-alpha "
           "--inference-dynamic-batching-prefix-caching-mamba-gb "
           "--inference-dynamic-batching-cuda-graph-mixed-prefill-count "
           "--inference-dynamic-batching-cuda-graph-sizing-distribution "
           "--inference-dynamic-batching-sampling-backend "
           "--inference-dynamic-batching-async-sched-mode "
           "--inference-dynamic-batching-logprobs-mode --inference-logging-step-interval "
           "--inference-text-gen-server-logging --inference-wandb-logging "
           "--inference-coordinator-port --inference-use-synchronous-zmq-collectives "
           "--inference-disable-ep-consensus --inference-shards"},
          {coming,
           serving,
           "--use-legacy-static-engine --max-tokens-to-oom --decode-only-cuda-graphs "
           "--enable-chunked-prefill --num-speculative-tokens "
           "--use-same-sampling-seed-across-dp-ranks "
           "--no-inference-dynamic-batching-prefix-caching --no-inference-text-gen-server-logging "
           "--no-inference-wandb-logging --no-inference-use-synchronous-zmq-collectives "
           "--no-inference-disable-ep-consensus --flash-decode --batch-invariant-mode "
           "--batch-invariant-backend --symmetric-ar-type --nccl-all-reduce-for-prefill "
           "--mlp-chunks-for-prefill"},
      }};
}

flag_section later_training_section() {
  return {
      "Reinforcement learning, quantisation, distillation",
      {
          {refused,
           reinforcement,
           "--perform-rl-step --rl-prompts-per-eval --grpo-prompts-per-step --grpo-group-size "
           "--rl-generation-lag --rl-max-inflight-requests --rl-submission-granularity "
           "--rl-consumption-granularity --rl-durable-rollout-bank --rl-rollout-bank-dir "
           "--rl-rollout-bank-max-bytes --grpo-iterations --grpo-clamp-eps-lower "
           "--grpo-clamp-eps-upper --grpo-kl-beta --grpo-entropy-term-weight "
           "--grpo-filter-groups-with-same-reward --langrl-env-config --rl-default-temperature "
           "--rl-default-top-p --rl-default-top-k --rl-offload-optimizer-during-inference "
           "--rl-kv-cache-management-mode --rl-persist-cuda-graphs --no-rl-persist-cuda-graphs "
           "--rl-partial-rollouts --no-rl-partial-rollouts --rl-inference-logprobs-is-correction "
           "--no-rl-inference-logprobs-is-correction --rl-importance-sampling-truncation-coef "
           "--rl-use-sequence-packing --no-rl-use-sequence-packing "
           "--rl-sequence-packing-max-sequences-per-bin --rl-sequence-packing-algo "
           "--rl-training-cuda-graphs --no-rl-training-cuda-graphs "
           "--rl-inference-tensor-model-parallel-size --rl-inference-pipeline-model-parallel-size "
           "--rl-inference-expert-model-parallel-size "
           "--rl-inference-expert-tensor-model-parallel-size "
           "--rl-inference-model-unified-memory-level "
           "--rl-offload-inference-model-weights-when-idle "
           "--no-rl-offload-inference-model-weights-when-idle --rl-verify-model-weights-swap "
           "--no-rl-verify-model-weights-swap --rl-skip-bos-token --no-rl-skip-bos-token "
           "--rl-profile --rl-profile-dir --rl-inference-parsers --refit-method"},
          {refused,
           after_training,
           "--logits-save-top-k --logits-save-top-p --logits-save-top-p-min-k --logits-save-dir "
           "--logits-save-dtype --logits-load-dir --logits-load-decode-threads "
           "--logits-load-prefetch-factor --logits-load-msc-prefetch-depth "
           "--logits-load-kd-loss-alpha --logits-load-ignore-errors --export-model-type "
           "--export-legacy-megatron --export-te-mcore-model --export-default-te-spec "
           "--export-force-local-attention --export-kv-cache-quant --export-real-quant-cfg "
           "--export-quant-cfg --export-kd-teacher-load --export-kd-teacher-model-config "
           "--export-kd-teacher-ckpt-format --export-kd-cfg --finetune-hf-dataset "
           "--finetune-data-split --finetune-data-files --qad-train-target --freeze-base-for-mtp "
           "--export-qk-l2-norm --export-moe-apply-probs-on-input --export-offline-model "
           "--modelopt-enabled --enable-gpt-oss"},
      }};
}

}  // namespace troupe::command::megatron
