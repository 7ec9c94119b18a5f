#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section step_section() {
  return {
      "Batch and steps",
      {
          {works, "", "--micro-batch-size --global-batch-size --rampup-batch-size --train-iters"},
          {works, "a partial last batch is left out", "--train-samples"},
          {works, "with --save, saves before it exits", "--exit-interval"},
          {works,
           "of weights, dropout and samples; the order of samples is that of Megatron-LM, weights "
           "and dropout are drawn otherwise",
           "--seed"},
          {refused,
           "batches grow by --rampup-batch-size only; use that",
           "--step-batch-size-schedule"},
          {refused,
           "use --replicas-per-worker: fewer workers, the same batch and bits",
           "--decrease-batch-size-if-needed"},
          {refused, "no step is left out; leave it out", "--iterations-to-skip"},
          {refused,
           "the clock ends no run here; use `timeout 60m troupe train gpt ...`, whose SIGTERM "
           "finishes the step, saves and exits",
           "--exit-duration-in-mins"},
          {accepted,
           "SIGTERM, SIGINT and SIGHUP always finish the step, save, and exit",
           "--exit-signal-handler --exit-signal-handler-for-dataloader "
           "--exit-signal-handler-for-training"},
          {refused,
           "SIGTERM, SIGINT and SIGHUP finish the step, save, and exit; send one of them",
           "--exit-signal"},
          {accepted, "a step ends when all workers have updated", "--train-sync-interval X"},
          {refused, "use --micro-batch-size and --global-batch-size", "--batch-size"},
          {refused, "all parameters are trained; leave it out", "--freeze-all-layers"},
      }};
}

flag_section optimizer_section() {
  return {"Optimizer",
          {
              {works, "adam only", "--optimizer"},
              {works, "", "--adam-beta1 --adam-beta2 --adam-eps --weight-decay --clip-grad"},
              {refused,
               optimizers,
               "--sgd-momentum --lion-beta1 --lion-beta2 --muon-momentum --muon-no-split-qkv "
               "--muon-nesterov --muon-scale-mode --muon-fp32-matmul-prec --muon-coefficient-type "
               "--muon-num-ns-steps --muon-tp-mode --muon-use-syrk --muon-extra-scale-factor "
               "--muon-scalar-optimizer --no-use-layer-wise-param-layout"},
              {refused,
               "gains do not decay; leave it out",
               "--apply-wd-to-qk-layernorm --no-weight-decay-cond-type"},
              {refused,
               "weight decay is constant here; use --weight-decay",
               "--start-weight-decay --end-weight-decay --weight-decay-incr-style"},
              {refused,
               "the optimizer's state is fp32; leave it out",
               "--use-precision-aware-optimizer --main-grads-dtype --main-params-dtype "
               "--exp-avg-dtype --exp-avg-sq-dtype"},
              {refused,
               "`troupe checkpoint show` lists parameters and moments",
               "--dump-param-to-param-group-map"},
          }};
}

flag_section rate_section() {
  return {
      "Learning rate",
      {
          {works,
           "",
           "--lr --min-lr --lr-decay-iters --lr-decay-samples --lr-warmup-fraction "
           "--lr-warmup-iters --lr-warmup-samples --lr-warmup-init"},
          {works,
           "constant, linear and cosine; inverse-square-root and WSD are refused",
           "--lr-decay-style"},
          {refused,
           "--lr-decay-style WSD is not here; use cosine or linear",
           "--lr-wsd-decay-style --lr-wsd-decay-iters --lr-wsd-decay-samples"},
          {refused,
           "one learning rate holds for all parameters; leave it out",
           "--decoupled-lr --decoupled-min-lr"},
          {works,
           "without one of the two, a rate that differs from the checkpoint's is refused at resume",
           "--override-opt_param-scheduler --override-opt-param-scheduler "
           "--use-checkpoint-opt_param-scheduler --use-checkpoint-opt-param-scheduler"},
          {refused, "use --lr-warmup-fraction", "--warmup"},
      }};
}

}  // namespace troupe::command::megatron
