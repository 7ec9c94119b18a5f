#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section expert_section() {
  return {
      "Mixture of experts",
      {
          {works, "1 only", "--expert-model-parallel-size --expert-tensor-parallel-size"},
          {coming,
           experts,
           "--num-experts --moe-shared-expert-intermediate-size --moe-shared-expert-gate "
           "--moe-shared-expert-overlap --moe-shared-expert-glu-interleave-size "
           "--moe-ffn-hidden-size --moe-z-loss-coeff --moe-input-jitter-eps "
           "--moe-per-layer-logging --moe-expert-capacity-factor "
           "--moe-pad-expert-input-to-capacity --moe-token-drop-policy --moe-layer-recompute "
           "--moe-apply-probs-on-input --moe-latent-size --moe-layer-freq --moe-use-upcycling "
           "--moe-aux-loss-coeff --moe-upcycling-granularity --use-grouped-gemm-for-shared-expert "
           "--use-grouped-gemm-for-dense-mlp --use-fused-weighted-squared-relu"},
          {coming,
           experts,
           "--moe-router-topk --moe-enable-routing-replay --moe-router-padding-for-quantization "
           "--moe-router-padding-for-fp8 --moe-router-num-groups --moe-router-group-topk "
           "--moe-router-pre-softmax --moe-router-topk-scaling-factor --moe-router-score-function "
           "--moe-router-dtype --moe-router-enable-expert-bias --moe-router-bias-update-rate "
           "--moe-router-quantile-balancing-ema --moe-router-force-load-balancing "
           "--moe-router-force-biased --moe-router-fusion --moe-router-load-balancing-type "
           "--moe-routing-trace-path --moe-routing-trace-max-training-iters "
           "--moe-routing-trace-capture-logits --moe-routing-trace-capture-hidden-states "
           "--moe-routing-trace-dump-weights --save-tokens-per-expert-interval"},
          {coming,
           experts,
           "--moe-grouped-gemm --moe-use-grouped-tensor --moe-single-grouped-weight "
           "--moe-single-grouped-bias --moe-token-dispatcher-type --moe-enable-deepep "
           "--moe-flex-dispatcher-backend --moe-permute-fusion-into-hybridep "
           "--moe-hybridep-pad-uneven-dispatch-inputs --moe-pad-experts-for-cuda-graph-inference "
           "--moe-permute-fusion --moe-flex-dispatcher-num-sms --moe-deepep-num-sms "
           "--moe-hybridep-num-sms --moe-hybridep-num-blocks-permute "
           "--moe-hybridep-num-blocks-unpermute --moe-hybridep-num-sms-preprocessing "
           "--moe-ncclep-zero-copy --moe-dispatch-fwd-dtype --moe-combine-bwd-dtype "
           "--moe-mlp-glu-interleave-size --moe-expert-rank-capacity-factor --moe-paged-stash "
           "--moe-paged-stash-page-size --moe-paged-stash-buffer-size-factor-cuda "
           "--moe-paged-stash-buffer-size-factor-cpu"},
          {coming,
           experts,
           "--overlap-moe-expert-parallel-comm --overlap-dispatch-backward-with-experts-wgrad "
           "--ep-overlap-early-attn-memory-release --high-priority-a2a-comm-stream"},
      }};
}

}  // namespace troupe::command::megatron
