#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section precision_section() {
  return {
      "Precision",
      {
          {works, "gradients are added, summed and kept in fp32", "--bf16 --fp16"},
          {works,
           "with --fp16; refused without, where gradients need no scaling",
           "--loss-scale --initial-loss-scale --min-loss-scale --loss-scale-window --hysteresis"},
          {accepted,
           always_fp32,
           "--attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32 "
           "--disable-bf16-reduced-precision-matmul"},
          {refused,
           "gradients are added and summed in fp32, so that their bits do not depend on the "
           "layout; leave it out",
           "--grad-reduce-in-bf16"},
          {refused,
           "logits and loss are as the program computes them, the loss in fp32; leave it out",
           "--fp16-lm-cross-entropy --output-logit-dtype"},
          {coming,
           eight_bits,
           "--fp8-format --fp8-recipe --fp8-quantizer-factory --fp8-margin --fp8-interval "
           "--fp8-amax-history-len --fp8-amax-compute-algo --no-fp8-wgrad --disable-fp8-wgrad "
           "--fp8-output-proj --fp8-param-gather --fp4-format --fp4-recipe --fp4-quantizer-factory "
           "--fp4-param-gather --first-last-layers-bf16 --num-layers-at-start-in-bf16 "
           "--num-layers-at-end-in-bf16 --te-precision-config-file --keep-fp8-transpose-cache "
           "--reuse-grad-buf-for-mxfp8-param-ag --use-kitchen-attention "
           "--kitchen-attention-backend"},
      }};
}

flag_section memory_section() {
  return {
      "Memory",
      {
          {works,
           "",
           "--recompute-granularity --recompute-method --recompute-num-layers "
           "--recompute-activations"},
          {works,
           "core_attn and mlp; norms keep next to nothing, other modules are not here",
           "--recompute-modules"},
          {refused,
           "use --recompute-activations, or --recompute-granularity with --recompute-method",
           "--checkpoint-activations"},
          {refused,
           "what is kept is not spread over tensor ranks by itself; use --sequence-parallel",
           "--distribute-saved-activations"},
          {refused,
           "a layer is computed whole; use --recompute-granularity or a smaller --micro-batch-size",
           "--mlp-chunks-for-training"},
          {coming,
           no_gpu,
           "--cpu-offloading-num-layers --cpu-offloading-retain-pinned-cpu-buffers "
           "--fine-grained-activation-offloading --offload-modules --min-offloaded-tensor-size "
           "--delay-offload-until-cuda-graph --delta-offload-bytes-across-pp-ranks "
           "--activation-offload-fraction --fine-grained-offloading-max-inflight-offloads"},
          {coming,
           no_gpu,
           "--optimizer-cpu-offload --optimizer-offload-fraction "
           "--use-torch-optimizer-for-cpu-offload --overlap-cpu-optimizer-d2h-h2d "
           "--no-pin-cpu-grads --no-pin-cpu-params"},
          {accepted,
           "a tensor is freed when nobody needs it",
           "--no-clone-scatter-output-in-embedding --disable-clone-scatter-output-in-embedding"},
          {accepted,
           no_collector,
           "--manual-gc --manual-gc-interval X --no-manual-gc-eval --disable-manual-gc-eval "
           "--empty-unused-memory-level X"},
      }};
}

flag_section kernel_section() {
  return {"Kernels",
          {
              {accepted, one_gpt, "--use-mcore-models --transformer-impl X"},
              {accepted,
               one_attention,
               "--attention-backend X --use-flash-attn --flash-attention-version X"},
              {accepted,
               fused,
               "--no-masked-softmax-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion "
               "--no-rope-fusion --no-persist-layer-norm --no-gradient-accumulation-fusion "
               "--no-gradient-reduce-div-fusion --cross-entropy-loss-fusion "
               "--cross-entropy-fusion-impl X --fused-residual-rmsnorm "
               "--use-transformer-engine-op-fuser --use-te-activation-func --disable-jit-fuser"},
              {accepted, "one configuration gives the same bits, always", "--deterministic-mode"},
              {accepted, random_function, "--te-rng-tracker --inference-rng-tracker"},
              {coming,
               no_gpu,
               "--cuda-graph-impl --cuda-graph-modules --cuda-graph-scope "
               "--cuda-graph-warmup-steps --enable-cuda-graph --external-cuda-graph "
               "--optimizer-cuda-graph --gpu-sniff-test-interval"},
          }};
}

}  // namespace troupe::command::megatron
