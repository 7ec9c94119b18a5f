#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section layout_section() {
  return {
      "Layout: who holds what",
      {
          {works,
           "in one process: give the number of workers by --world-size",
           "--tensor-model-parallel-size --pipeline-model-parallel-size"},
          {works, "off, with a warning, without tensor parallelism", "--sequence-parallel"},
          {works, "1 only", "--context-parallel-size"},
          {works,
           "",
           "--use-tp-pp-dp-mapping --decoder-first-pipeline-num-layers "
           "--decoder-last-pipeline-num-layers --account-for-embedding-in-pipeline-split "
           "--account-for-loss-in-pipeline-split"},
          {works, "no m: there are no multi-token heads", "--pipeline-model-parallel-layout"},
          {works,
           "",
           "--num-layers-per-virtual-pipeline-stage --num-virtual-stages-per-pipeline-rank "
           "--microbatch-group-size-per-virtual-pipeline-stage"},
          {accepted,
           "stages never wait for what they send",
           "--overlap-p2p-communication-warmup-flush"},
          {refused, gather_with_update, "--overlap-param-gather-with-optimizer-step"},
          {refused,
           split_backward,
           "--delay-wgrad-compute --defer-embedding-wgrad-compute --wgrad-deferral-limit"},
          {coming,
           context,
           "--hierarchical-context-parallel-sizes --hybrid-context-parallel "
           "--max-seqlen-per-dp-cp-rank --cp-comm-type"},
          {coming,
           overlapped_products,
           "--tp-comm-overlap --tp-comm-overlap-cfg --tp-comm-overlap-rs-dgrad "
           "--tp-comm-bootstrap-backend --no-tp-comm-bulk-wgrad --disable-tp-comm-bulk-wgrad "
           "--no-tp-comm-bulk-dgrad --disable-tp-comm-bulk-dgrad --no-tp-comm-overlap-ag "
           "--disable-tp-comm-overlap-ag --no-tp-comm-overlap-rs --disable-tp-comm-overlap-rs "
           "--no-tp-comm-split-ag --disable-tp-comm-split-ag --no-tp-comm-split-rs "
           "--disable-tp-comm-split-rs"},
          {refused,
           "the size of an axis is given by --tensor-model-parallel-size and "
           "--pipeline-model-parallel-size",
           "--model-parallel-size"},
          {refused, "use --dry-run: it checks a layout without a worker", "--fake-process-group"},
      }};
}

flag_section sharding_section() {
  return {
      "Gradients, optimizer state and parameters over replicas",
      {
          {works, "", "--use-distributed-optimizer --overlap-grad-reduce"},
          {works,
           "refused without --use-distributed-optimizer and --overlap-grad-reduce",
           "--overlap-param-gather"},
          {works, "the default is 40000000 elements in every layout", "--ddp-bucket-size"},
          {refused,
           rank_order,
           "--ddp-num-buckets --ddp-pad-buckets-for-high-nccl-busbw --ddp-average-in-collective "
           "--ddp-reduce-scatter-with-fp32-accumulation "
           "--ddp-param-name-patterns-for-fp32-local-accumulation"},
          {refused,
           "the optimizer's state is spread over all replicas; leave it out",
           "--num-distributed-optimizer-instances"},
          {coming,
           sharded,
           "--use-megatron-fsdp --megatron-fsdp-version --use-torch-fsdp2 "
           "--torch-fsdp2-no-reshard-after-forward --data-parallel-sharding-strategy "
           "--outer-dp-sharding-strategy --enable-full-sharding-in-hsdp "
           "--suggested-communication-unit-size --fsdp-double-buffer --fsdp-manual-registration "
           "--fsdp-db-use-persist-buf-on-alloc-fail --create-all-gather-group "
           "--megatron-fsdp-main-params-dtype --megatron-fsdp-main-grads-dtype "
           "--megatron-fsdp-grad-comm-dtype --megatron-fsdp-enable-fine-grained-param-gather "
           "--megatron-fsdp-max-pool-double-buffer"},
          {coming,
           sharded,
           "--tensor-parallel-num-weight-shards --expert-tensor-parallel-num-weight-shards "
           "--gtp-remat-opt-in-modules --gtp-remat-reduce-scatter-with-fp32-accumulation "
           "--gtp-remat-nccl-ub --gtp-expert-remat-nccl-ub"},
          {accepted,
           when_only,
           "--no-align-grad-reduce --disable-align-grad-reduce --no-align-param-gather"},
          {accepted,
           "replicas compare digests of their state in every step",
           "--check-weight-hash-across-dp-replicas-interval X"},
          {refused,
           "replicas draw the same initial weights; leave it out",
           "--data-parallel-random-init"},
      }};
}

}  // namespace troupe::command::megatron
