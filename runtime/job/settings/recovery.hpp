// Recovery from deaths within a run.

#pragma once

#include "runtime/core/setting.hpp"

namespace troupe::runtime {

/// Recovery from the death of an actor or a lane. No field changes bits.
struct recovery_settings {
  bool on = false;  ///< restart what died and repeat the step; off: the run ends
  /// Maximum number of restarts within `window` seconds; one more ends the run.
  int max_restarts = 10;
  double window = 3600;
  double suspicion = 10;  ///< timeout of the failure detector, seconds
  /// Share of a step's passes that are computed again and compared bit by bit, in another replica
  /// where possible (verification.hpp).
  double verify_fraction = 0;

  static constexpr auto fields() {
    using x = recovery_settings;
    return std::tuple(
        row("on", &x::on)
            .own_flag({.name = "--recovery",
                       .type = "WHAT",
                       .default_value = "on with several --processes, else off",
                       .help
                       = "Recovery from deaths. on: an actor, a lane or a process that dies is "
                         "replaced and its step runs again; the final weights have the same "
                         "bits. Each update keeps the previous state too: 12 bytes more for each "
                         "parameter that a worker updates. With several processes, each also "
                         "keeps the newest states of another one. off: a death ends the run, and "
                         "the next run resumes from the last checkpoint.",
                       .only_given = true}),
        row("max_restarts", &x::max_restarts)
            .own_flag({.name = "--max-restarts",
                       .help
                       = "With --recovery on: ends the run with the first cause after more than "
                         "N restarts within --restart-window.",
                       .range = whole_range{0, 1'000'000}}),
        row("window", &x::window)
            .own_flag({.name = "--restart-window",
                       .type = "S",
                       .unit = "seconds",
                       .help = "Time in which restarts are counted; older ones do not count.",
                       .range = real_range{.least = 0, .above = true}}),
        row("suspicion", &x::suspicion)
            .own_flag(
                {.name = "--suspicion-seconds",
                 .type = "S",
                 .unit = "seconds",
                 .help
                 = "Timeout of the failure detector: an actor or process without progress for "
                   "this long is declared dead and replaced. Choose it longer than your slowest "
                   "single operation. Every other timeout of recovery derives from it.",
                 .range = real_range{.least = 0, .above = true}}),
        row("verify_fraction", &x::verify_fraction)
            .own_flag({.name = "--verify-fraction",
                       .type = "F",
                       .help
                       = "Fraction of the forward and backward passes of each step that the same "
                         "stage of another replica recomputes before the step is decided. Outputs, "
                         "input gradients and accumulated weight gradients are compared bit for "
                         "bit. Changes no bit. The worker with the wrong result is named, and with "
                         "--recovery on the step runs again. The verdict is transient if the "
                         "second run is right, persistent if the same place is wrong again, "
                         "irreproducible if no replica repeats the first result. With one replica "
                         "the same stage recomputes, which finds only transient errors. Costs the "
                         "same fraction of time, and memory that the forecast includes. On a "
                         "device, each of these passes also reads all gradients of a chunk (fp32) "
                         "to the host, twice. Independently of this flag, values that three or "
                         "more replicas share are compared, and the minority is outvoted.",
                       .range = real_range{0, 1}}));
  }
};

}  // namespace troupe::runtime
