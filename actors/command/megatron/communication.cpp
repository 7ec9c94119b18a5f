#include "actors/command/megatron/reasons.hpp"
#include "actors/command/megatron/table.hpp"

namespace troupe::command::megatron {

using enum standing;

flag_section communication_section() {
  return {
      "Processes and communication",
      {
          {accepted,
           one_memory,
           "--distributed-backend X --pipeline-model-parallel-comm-backend X "
           "--disable-gloo-process-groups --use-ring-exchange-p2p"},
          {accepted,
           "a dead or failed worker is seen, not waited for",
           "--distributed-timeout-minutes X --distributed-timeout-seconds-after-init X"},
          {accepted, "stages never wait for what they send", "--no-overlap-p2p-communication"},
          {refused,
           "no launcher starts this program: one process runs all workers, see --world-size",
           "--local-rank --lazy-mpu-init"},
          {coming,
           machines,
           "--nccl-communicator-config-path --use-sharp --sharp-enabled-group "
           "--high-priority-stream-groups --use-nccl-ub --disable-symmetric-registration"},
          {refused,
           "no packets are recorded; use --trace FILE",
           "--flight-recorder-dump-path --flight-recorder-trace-buffer-size "
           "--no-flight-recorder-dump-on-timeout --disable-flight-recorder-dump-on-timeout "
           "--flight-recorder-include-stack-trace --no-flight-recorder-include-only-active "
           "--disable-flight-recorder-include-only-active --no-flight-recorder-extra-dump-on-exec "
           "--disable-flight-recorder-extra-dump-on-exec"},
      }};
}

}  // namespace troupe::command::megatron
