#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_recovery(command_line& line, training_flags& to) {
  auto& r = to.recovery;
  line.group("Recovery");
  line.value(
      {.name = "--recovery",
       .field = "recovery.on",
       .type = "WHAT",
       .default_value = "on with several --processes, else off",
       .help = "on: an actor, a lane or a process that dies is replaced and its step runs again; "
               "the weights at the end are the same bits. The update then writes each state beside "
               "the one before it: 12 bytes more for each parameter that a worker updates. Of "
               "several processes each keeps the newest states of another one, too. off: the run "
               "ends, and the next one goes on from the last checkpoint."},
      one_of(to.recovery_choice, {"on", "off"}));
  line.value({.name = "--max-restarts",
              .field = "recovery.max_restarts",
              .type = "N",
              .help = "With --recovery on: more restarts than these within --restart-window end "
                      "the run, with the first cause."},
             whole(r.max_restarts, 0, 1'000'000));
  line.value({.name = "--restart-window",
              .field = "recovery.window",
              .type = "S",
              .unit = "seconds",
              .help = "Restarts that are longer ago do not count."},
             real(r.window, real_range{.least = 0, .above = true}));
  line.value({.name = "--suspicion-seconds",
              .field = "recovery.suspicion",
              .type = "S",
              .unit = "seconds",
              .help = "Who has shown no progress for so long is taken for dead and replaced. A "
                      "single operation may take this long, so give more than your slowest one "
                      "takes; every other time limit of the recovery follows from this one."},
             real(r.suspicion, real_range{.least = 0, .above = true}));
  line.value(
      {.name = "--verify-fraction",
       .field = "recovery.verify_fraction",
       .type = "F",
       .help
       = "This share of the forward and backward passes of each step is computed again by the "
         "same stage of another replica, before the step is decided, and compared to the bit: "
         "outputs, input gradients, and the weight gradients that they add to. Costs as large a "
         "share of the time, and memory, which the forecast tells; on a device also the time in "
         "which all gradients of a chunk (fp32) are read to the host, for each of these passes "
         "twice; changes no bit. Who computed "
         "wrong is named, and with --recovery on the step runs again: transient, if it comes out "
         "right; persistent, if the same place is wrong again; irreproducible, if nobody has what "
         "it had before. (What three or more replicas hold alike is compared in any case: "
         "outvoted is who has something else than most.) With one replica the same stage computes "
         "again, which finds what is "
         "wrong only once."},
      real(r.verify_fraction, 0, 1));
}

}  // namespace troupe::command::settings
