#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_recovery(command_line& line, training_flags& to) {
  auto& r = to.job.recovery;
  line.group("Recovery");
  line.value(
      {.name = "--recovery",
       .field = "recovery.on",
       .type = "WHAT",
       .default_value = "on with several --processes, else off",
       .help = "Recovery from deaths. on: an actor, a lane or a process that dies is replaced and "
               "its step runs again; the final weights have the same bits. Each update keeps the "
               "previous state too: 12 bytes more for each parameter that a worker updates. With "
               "several processes, each also keeps the newest states of another one. off: a death "
               "ends the run, and the next run resumes from the last checkpoint."},
      one_of(to.recovery, {"on", "off"}));
  line.value({.name = "--max-restarts",
              .field = "recovery.max_restarts",
              .type = "N",
              .help = "With --recovery on: ends the run with the first cause after more than N "
                      "restarts within --restart-window."},
             whole(r.max_restarts, 0, 1'000'000));
  line.value({.name = "--restart-window",
              .field = "recovery.window",
              .type = "S",
              .unit = "seconds",
              .help = "Time in which restarts are counted; older ones do not count."},
             real(r.window, real_range{.least = 0, .above = true}));
  line.value({.name = "--suspicion-seconds",
              .field = "recovery.suspicion",
              .type = "S",
              .unit = "seconds",
              .help = "Timeout of the failure detector: an actor or process without progress for "
                      "this long is declared dead and replaced. Choose it longer than your slowest "
                      "single operation. Every other timeout of recovery derives from it."},
             real(r.suspicion, real_range{.least = 0, .above = true}));
  line.value(
      {.name = "--verify-fraction",
       .field = "recovery.verify_fraction",
       .type = "F",
       .help
       = "Fraction of the forward and backward passes of each step that the same stage of another "
         "replica recomputes before the step is decided. Outputs, input gradients and accumulated "
         "weight gradients are compared bit for bit. Changes no bit. The worker with the wrong "
         "result is named, and with --recovery on the step runs again. The verdict is transient if "
         "the second run is right, persistent if the same place is wrong again, irreproducible if "
         "no replica repeats the first result. With one replica the same stage recomputes, which "
         "finds only transient errors. Costs the same fraction of time, and memory that the "
         "forecast includes. On a device, each of these passes also reads all gradients of a chunk "
         "(fp32) to the host, twice. Independently of this flag, values that three or more "
         "replicas share are compared, and the minority is outvoted."},
      real(r.verify_fraction, 0, 1));
}

}  // namespace troupe::command::settings
