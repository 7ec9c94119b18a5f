#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section shape_section() {
  return {
      "Model: its shape",
      {
          {works,
           "",
           "--num-layers --hidden-size --num-attention-heads --ffn-hidden-size --kv-channels "
           "--group-query-attention --seq-length --make-vocab-size-divisible-by"},
          {works, "refused without --group-query-attention, not ignored", "--num-query-groups"},
          {works, "need not be given: the default is --seq-length", "--max-position-embeddings"},
          {refused,
           "one stack of layers, and one length; use --num-layers and --seq-length",
           "--encoder-num-layers --decoder-num-layers --encoder-seq-length"},
          {refused,
           "the shape is given by flags, or read from a folder by --load-hf",
           "--heterogeneous-layers-config-path --heterogeneous-layers-config-encoded-json --spec "
           "--enable-experimental"},
          {refused,
           "an embedding's rows are counted here; leave it out",
           "--padded-vocab-size --no-pad-vocab-size --disable-pad-vocab-size"},
          {works,
           "same distribution, other numbers: drawn from (seed, name, element), so that the "
           "layout does not matter",
           "--init-method-std"},
          {refused,
           "initial weights are normal, of --init-method-std; leave it out",
           "--embedding-init-method-std --init-method-xavier-uniform"},
          {refused, "parameters are always drawn or loaded; leave it out", "--no-initialization"},
          {accepted,
           "weights are drawn on the host, each worker only those that it holds",
           "--use-cpu-initialization --init-model-with-meta-device"},
          {refused,
           "learning rates and deviations are not scaled by width; leave it out",
           "--use-mup --mup-width-mult --mup-base-hidden-size --mup-embedding-mult "
           "--mup-output-mult --mup-base-head-dim --mup-attn-scale-power"},
      }};
}

flag_section layer_section() {
  return {
      "Model: its layers",
      {
          {works,
           "learned_absolute, rope, yarn and none; mrope and relative are refused",
           "--position-embedding-type"},
          {works, "", "--use-rotary-position-embeddings --no-position-embedding"},
          {works,
           "",
           "--rotary-base --rotary-percent --rotary-interleaved "
           "--rotary-seq-len-interpolation-factor --use-rope-scaling"},
          {works, "refused without --use-rope-scaling, not ignored", "--rope-scaling-factor"},
          {works,
           "with --position-embedding-type yarn, of any GPT",
           "--rotary-scaling-factor --yarn-original-max-position-embeddings --yarn-beta-fast "
           "--yarn-beta-slow --yarn-correction-range-round-to-int "
           "--no-yarn-correction-range-round-to-int --mscale --mscale-all-dim"},
          {refused, "it belongs to latent attention; use --position-embedding-type", "--rope-type"},
          {refused, "positions turn in every layer; leave it out", "--no-rope-freq"},
          {refused,
           "there are no pictures with two-dimensional positions; leave it out",
           "--mrope-section"},
          {works,
           "",
           "--normalization --norm-epsilon --apply-layernorm-1p --qk-layernorm --swiglu "
           "--squared-relu --disable-bias-linear --add-qkv-bias "
           "--untie-embeddings-and-output-weights"},
          {works, "LEFT,0: nothing is seen to the right", "--window-size"},
          {refused,
           "all layers see through the same window; leave it out",
           "--window-attn-skip-freq"},
          {works,
           "exact GELU, by erf, in place of the tanh formula of the fused kernel",
           "--no-bias-gelu-fusion"},
          {works,
           "other numbers for the same seed: see --seed",
           "--hidden-dropout --attention-dropout"},
          {refused,
           "it is the tanh formula, which is the default here; leave it out",
           "--openai-gelu"},
          {refused,
           "activations are GELU, --squared-relu and --swiglu; leave it out",
           "--quick-geglu --glu-linear-offset --activation-func-clamp-value --onnx-safe"},
          {refused,
           "queries and keys are normalised with gains, by --qk-layernorm",
           "--qk-l2-norm"},
          {refused,
           "logits of attention are not bounded; leave it out, or use --qk-layernorm",
           "--qk-clip --qk-clip-alpha --qk-clip-threshold --log-max-attention-logit"},
          {refused,
           "attention has the plain softmax, and no gate at its output; leave it out",
           "--softmax-type --attention-output-gate"},
          {refused,
           "it guards against overflow of scores in fp16, which are fp32 here; leave it out",
           "--apply-query-key-layer-scaling"},
          {refused,
           "norms stand before attention and feed-forward layer; leave it out",
           "--apply-residual-connection-post-layernorm"},
          {refused,
           "the residual stream has the type of the activations; leave it out",
           "--fp32-residual-connection"},
          {refused,
           "a layer has one residual stream; leave it out",
           "--enable-mhc-connections --mhc-num-residual-streams --mhc-sinkhorn-iterations "
           "--mhc-init-gating-factor --mhc-recompute-layer-num"},
      }};
}

}  // namespace troupe::command::megatron
