#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section family_section() {
  return {
      "Other families of models",
      {
          {coming,
           latent,
           "--multi-latent-attention --q-lora-rank --kv-lora-rank --qk-head-dim "
           "--qk-pos-emb-head-dim --v-head-dim --cache-mla-latents --mla-down-proj-fusion"},
          {coming,
           depths,
           "--mtp-num-layers --mtp-loss-scaling-factor --mtp-use-repeated-layer "
           "--mtp-detach-heads --mtp-hsm --mtp-hybrid-override-pattern --mtp-standalone"},
          {coming,
           other_families,
           "--hybrid-layer-pattern --hybrid-override-pattern --is-hybrid-model --mamba-state-dim "
           "--mamba-head-dim --mamba-num-groups --mamba-num-heads --disable-mamba-mem-eff-path "
           "--mamba-training-ssm-states-dtype --mamba-inference-conv-states-dtype "
           "--mamba-inference-ssm-states-dtype"},
          {coming,
           other_families,
           "--experimental-attention-variant --linear-attention-freq --linear-conv-kernel-dim "
           "--linear-key-head-dim --linear-value-head-dim --linear-num-key-heads "
           "--linear-num-value-heads --gdp-num-householder --gdp-cutedsl-kernel "
           "--gdp-num-chunk-states-to-recompute"},
          {coming,
           other_families,
           "--dsa-indexer-n-heads --dsa-indexer-head-dim --dsa-indexer-topk "
           "--dsa-indexer-topk-freq --dsa-indexer-skip-topk-offset --dsa-indexer-loss-coeff "
           "--dsa-indexer-use-sparse-loss --dsa-kernel-backend --dsa-indexer-rope-interleaved "
           "--no-dsa-indexer-rotate-activation --disable-dsa-indexer-rotate-activation "
           "--no-dsa-indexer-scoring-relu --disable-dsa-indexer-scoring-relu "
           "--dsa-indexer-k-norm-epsilon --dsa-indexer-k-norm-fp32"},
          {coming,
           other_families,
           "--decoder-seq-length --vocab-extra-ids --relative-attention-num-buckets "
           "--relative-attention-max-distance"},
          {refused,
           encoders,
           "--bert-no-binary-head --mask-prob --short-seq-prob --sample-rate --bert-load "
           "--output-bert-embeddings --bert-embedder-type"},
          {refused,
           retrieval,
           "--ict-head-size --ict-load --biencoder-projection-dim "
           "--biencoder-shared-query-context-model --titles-data-path --query-in-block-prob "
           "--use-one-sent-docs --evidence-data-path --retriever-report-topk-accuracies "
           "--retriever-score-scaling --block-data-path --embedding-path --indexer-batch-size "
           "--indexer-log-interval"},
          {refused,
           vision,
           "--num-classes --img-h --img-w --num-channels --patch-dim --classes-fraction "
           "--data-per-class-fraction --no-data-sharding --head-lr-mult --vision-pretraining "
           "--vision-pretraining-type --vision-backbone-type --swin-backbone-type --mask-type "
           "--mask-factor --iter-per-epoch --dino-local-img-size --dino-local-crops-number "
           "--dino-head-hidden-size --dino-bottleneck-size --dino-freeze-last-layer "
           "--dino-norm-last-layer --dino-warmup-teacher-temp --dino-teacher-temp "
           "--dino-warmup-teacher-temp-epochs"},
      }};
}

}  // namespace troupe::command::megatron
