// Faults that tests inject into a run.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Fault injection: delays and faults that show that results do not depend on timing. Default: off.
struct fault_settings {
  std::uint64_t seed = 0;
  int lane_delay_us = 0;     ///< maximum sleep before each work item of a lane, microseconds
  int message_delay_us = 0;  ///< maximum delay of a message, microseconds
  /// Faults, separated by commas; empty: none. "stage:0.1@3": stage 1 of replica 0 throws in step
  /// 3. "nan:0.1@3-5": one of its gradients is NaN in steps 3 to 5. "nan-once:0.1@3": the same,
  /// only the first time that step 3 runs.
  std::string fault;
  /// Deaths, separated by commas; empty: none. "lane:0.1@3:reduce": that lane dies in its reduction
  /// of step 3, once, even if the step runs again. See planted_death.hpp.
  std::string death;

  static constexpr auto fields() {
    using x = fault_settings;
    return std::tuple(
        row("seed", &x::seed),
        row("lane_delay_us", &x::lane_delay_us),
        row("message_delay_us", &x::message_delay_us),
        row("fault", &x::fault)
            .own_flag(
                {.name = "--plant-fault",
                 .type = "ACTOR@STEP...",
                 .help
                 = "Makes an actor fail in a step, e.g. stage:0.1@3: replica 0, stage 1, step 3; "
                   "stage:0.1.2 is its tensor rank 2. lane:R.P.T fails in its reduction, "
                   "wire:R.P.T in that of its communication lane. nan:R.P.T sets one gradient to "
                   "NaN, nan-once:R.P.T only when the step runs for the first time. @3-5 means "
                   "three steps. Several: ACTOR@STEP ACTOR@STEP, or the flag again.",
                 .most = 16,
                 .injects_faults = true}),
        row("death", &x::death)
            .own_flag(
                {.name = "--plant-death",
                 .type = "ACTOR@STEP:MOMENT[:HOW]...",
                 .help
                 = "Makes an actor or lane die once, at a moment of a step; it does not die again "
                   "when the step reruns. Tests --recovery on. ACTOR is as in --plant-fault. With "
                   "several processes it may also be keeper, or shard_writer if the run saves. "
                   "MOMENT: restore, forward, input-gradient, weight-gradient, redeem, reduce, "
                   "vote, decided, updated, acknowledged, snapshot, save or validate. A death "
                   "without any effect is refused. HOW, throw if it is left out:\nthrow: fails "
                   "with an error.\nhang: stops for good: a lane, stage or replica at any moment "
                   "that it reaches, a loader at forward, a checkpointer at snapshot or save, a "
                   "monitor at acknowledged, a keeper at redeem or acknowledged, a shard_writer at "
                   "save.\nwrong-bits: flips a bit. If several replicas hold the same: in a lane's "
                   "result at reduce, or in a weight at updated. With --verify-fraction 1: in a "
                   "lane's result at forward, input-gradient or weight-gradient. In a state that a "
                   "keeper receives: at redeem.\nwrong-moment, wrong-second-moment: flips a bit of "
                   "the optimizer's first or second moment, of a lane at updated.\nslow: takes 100 "
                   "ms longer each time, from that step on: a lane at forward, input-gradient, "
                   "weight-gradient or redeem, a loader at forward.\nkill, segv, abort, exit: with "
                   "several processes, ends the actor's process in this way.",
                 .most = 16,
                 .injects_faults = true}));
  }
};

/// Splits fault_settings::fault or fault_settings::death at the commas. Views into `all`.
std::vector<std::string_view> faults_in(std::string_view all);

}  // namespace troupe::runtime
