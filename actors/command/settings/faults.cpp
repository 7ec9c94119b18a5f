#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_faults(command_line& line, training_flags& to) {
  auto& d = to.job.faults;
  constexpr int most_faults = 16;
  line.values({.name = "--plant-fault",
               .field = "faults.fault",
               .type = "ACTOR@STEP...",
               .help = "Makes an actor fail in a step, e.g. stage:0.1@3: replica 0, stage 1, step "
                       "3; stage:0.1.2 is its tensor rank 2. lane:R.P.T fails in its reduction, "
                       "wire:R.P.T in that of its communication lane. nan:R.P.T sets one gradient "
                       "to NaN, nan-once:R.P.T only when the step runs for the first time. @3-5 "
                       "means three steps. Several: ACTOR@STEP ACTOR@STEP, or the flag again.",
               .least = 1,
               .most = most_faults,
               .injects_faults = true},
              [&d](const std::string&, const std::vector<std::string>& words) {
                d.fault = fmt::format("{}", fmt::join(words, ","));
              });
  line.values(
      {.name = "--plant-death",
       .field = "faults.death",
       .type = "ACTOR@STEP:MOMENT[:HOW]...",
       .help
       = "Makes an actor or lane die once, at a moment of a step; it does not die again when the "
         "step reruns. Tests --recovery on. ACTOR is as in --plant-fault. With several processes "
         "it may also be keeper, or shard_writer if the run saves. MOMENT: restore, "
         "forward, input-gradient, weight-gradient, redeem, reduce, vote, decided, updated, "
         "acknowledged, snapshot, save or validate. A death without any effect is refused. HOW, "
         "throw if it is left out:\n"
         "throw: fails with an error.\n"
         "hang: stops for good: a lane, stage or replica at any moment that it reaches, a loader "
         "at forward, a checkpointer at snapshot or save, a monitor at acknowledged, a keeper at "
         "redeem or acknowledged, a shard_writer at save.\n"
         "wrong-bits: flips a bit. If several replicas hold the same: in a lane's result at "
         "reduce, or in a weight at updated. With --verify-fraction 1: in a lane's result at "
         "forward, input-gradient or weight-gradient. In a state that a keeper receives: at "
         "redeem.\n"
         "wrong-moment, wrong-second-moment: flips a bit of the optimizer's first or second "
         "moment, of a lane at updated.\n"
         "slow: takes 100 ms longer each time, from that step on: a lane at forward, "
         "input-gradient, weight-gradient or redeem, a loader at forward.\n"
         "kill, segv, abort, exit: with several processes, ends the actor's process in this way.",
       .least = 1,
       .most = most_faults,
       .injects_faults = true},
      [&d](const std::string&, const std::vector<std::string>& words) {
        d.death = fmt::format("{}", fmt::join(words, ","));
      });
  line.value(
      {.name = "--plant-delays",
       .field = "faults.delays",
       .type = "SEED,LANE,MESSAGE",
       .help = "Random delays of up to LANE microseconds before work and MESSAGE before delivery. "
               "They must not change any bit.",
       .injects_faults = true},
      [&d](const std::string& flag, const std::string& word) {
        const auto first = word.find(','), last = word.rfind(',');
        if (first == std::string::npos || first == last)
          throw usage_error("{} '{}': give three numbers, SEED,LANE_US,MESSAGE_US", flag, word);
        constexpr std::int64_t longest_us = 10'000'000;
        d.seed = std::uint64_t(parse_whole(flag, word.substr(0, first), {0, largest_count}));
        d.lane_delay_us
            = int(parse_whole(flag, word.substr(first + 1, last - first - 1), {0, longest_us}));
        d.message_delay_us = int(parse_whole(flag, word.substr(last + 1), {0, longest_us}));
      });
}

}  // namespace troupe::command::settings
