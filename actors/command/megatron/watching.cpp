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
          {works,
           "also tokens/s, and no count of skipped or nan iterations: a step is never skipped",
           "--log-interval"},
          {works, "", "--log-throughput"},
          {refused,
           board,
           "--tensorboard-dir --tensorboard-log-interval --tensorboard-queue-size "
           "--log-timers-to-tensorboard --no-log-loss-scale-to-tensorboard "
           "--disable-log-loss-scale-to-tensorboard --log-validation-ppl-to-tensorboard "
           "--log-memory-to-tensorboard --log-world-size-to-tensorboard --wandb-project "
           "--wandb-exp-name --wandb-save-dir --wandb-entity --one-logger-project "
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
           "the norm of the parameters is not computed; leave it out",
           "--log-params-norm"},
          {refused, "zeros are not counted; leave it out", "--log-num-zeros-in-grad"},
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
           "a gradient that is not finite ends the run before it changes a weight; leave it out",
           "--no-check-for-nan-in-loss-and-grad"},
          {refused,
           "only gradients that are not finite end a run; use --clip-grad against large ones",
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
