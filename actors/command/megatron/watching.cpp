#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section validation_section() {
  return {"Validation",
          {
              {works, "", "--eval-iters"},
              {works,
               "the default is 1000, as it was in earlier versions; 0: never",
               "--eval-interval"},
              {refused,
               "validation has the batch sizes of training, from the first --eval-interval on; "
               "leave it out",
               "--eval-global-batch-size --eval-micro-batch-size --start-eval-at-iter"},
              {refused, "validation takes --eval-iters batches; leave it out", "--full-validation"},
              {coming, blends, "--multiple-validation-sets --validation-set-names"},
              {refused, "use `troupe eval`", "--skip-train --test-mode"},
          }};
}

flag_section log_section() {
  return {
      "Logs and profiles",
      {
          {works, "also tokens/s", "--log-interval"},
          {works,
           "of all workers together; also the share of what matrix products reach",
           "--log-throughput"},
          {works, "", "--log-params-norm --log-num-zeros-in-grad"},
          {works, "", "--tensorboard-dir --tensorboard-log-interval"},
          {accepted,
           "--tensorboard-dir always has it, written beside the training",
           "--tensorboard-queue-size X --log-timers-to-tensorboard "
           "--log-validation-ppl-to-tensorboard"},
          {refused,
           board,
           "--no-log-loss-scale-to-tensorboard --disable-log-loss-scale-to-tensorboard"},
          {refused, board, "--log-memory-to-tensorboard --log-world-size-to-tensorboard"},
          {refused,
           other_services,
           "--wandb-project --wandb-exp-name --wandb-save-dir --wandb-entity --one-logger-project "
           "--one-logger-run-name --one-logger-async --app-tag-run-name --app-tag-run-version"},
          {accepted, "nobody is told of the run", "--no-one-logger"},
          {refused,
           profiler,
           "--profile --profile-step-start --profile-step-end --profile-ranks "
           "--use-pytorch-profiler --pytorch-profiler-collect-shapes "
           "--pytorch-profiler-collect-callstack --pytorch-profiler-collect-chakra "
           "--record-memory-history --memory-snapshot-path --record-shapes --nvtx-ranges "
           "--config-logger-dir"},
          {refused,
           "use --trace FILE: it has the time of every action",
           "--timing-log-level --timing-log-option --log-straggler --straggler-ctrlr-port "
           "--straggler-minmax-count --disable-straggler-on-startup "
           "--run-workload-inspector-server --otel-enabled --otel-service-name --otel-span-groups"},
          {accepted, when_only, "--no-barrier-with-level-1-timing"},
          {refused,
           "memory of a worker is told once, at the end of a run; leave it out",
           "--log-memory-interval --log-device-memory-used"},
          {refused, "energy is not measured; leave it out", "--log-energy"},
          {refused, "use --log-file FILE: it has a line for every step", "--log-progress"},
          {refused, "there is one level of messages; leave it out", "--logging-level"},
          {refused, "use --config FILE, whose keys are the flags without --", "--yaml-cfg"},
      }};
}

flag_section failure_section() {
  return {
      "Failure",
      {
          {refused,
           "it would let NaN into the weights for good; --on-nonfinite says whether such a step "
           "ends the run or is left out",
           "--no-check-for-nan-in-loss-and-grad"},
          {refused,
           "only what is not finite counts, see --on-nonfinite; use --clip-grad against large "
           "gradients",
           "--check-for-large-grads --check-for-spiky-loss"},
          {refused,
           supervision,
           "--rerun-mode --result-rejected-tracker-filename --inprocess-restart "
           "--inprocess-max-iterations --inprocess-monitor-thread-interval "
           "--inprocess-monitor-process-interval --inprocess-progress-watchdog-interval "
           "--inprocess-heartbeat-interval --inprocess-soft-timeout --inprocess-hard-timeout "
           "--inprocess-heartbeat-timeout --inprocess-barrier-timeout "
           "--inprocess-completion-timeout --inprocess-last-call-wait "
           "--inprocess-termination-grace-time --inprocess-granularity "
           "--inprocess-active-world-size --inprocess-empty-cuda-cache --enable-ft-package "
           "--calc-ft-timeouts --ft-num-warmup-iters"},
          {refused,
           faults,
           "--error-injection-rate --error-injection-type --fault-injector-ranks "
           "--fault-injector-num-ranks --fault-injector-fault-types "
           "--fault-injector-fault-probabilities --fault-injector-fault-delay "
           "--fault-injector-delay-start-iteration --fault-injector-mtti-seconds "
           "--fault-injector-offset-seconds --fault-injector-seed"},
          {refused,
           "whoever starts the command again resumes it: --load and --save name the same folder",
           "--adlr-autoresume --adlr-autoresume-interval"},
      }};
}

}  // namespace troupe::command::megatron
