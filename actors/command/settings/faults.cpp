#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_faults(command_line& line, training_flags& to) {
  auto& d = to.faults;
  constexpr int most_faults = 16;
  line.values(
      {.name = "--plant-fault",
       .field = "faults.fault",
       .type = "WHO@STEP...",
       .help = "That actor fails in that step, e.g. stage:0.1@3: replica 0, stage 1; stage:0.1.2 "
               "is its tensor rank 2. lane:R.P.T fails in its reduction, wire:R.P.T beside it. "
               "With nan:R.P.T one of its gradients is NaN, with nan-once:R.P.T only when the step "
               "runs first. @3-5 means three steps. Several: WHO@STEP WHO@STEP, or the flag again.",
       .least = 1,
       .most = most_faults,
       .injects_faults = true},
      [&d](const std::string&, const std::vector<std::string>& words) {
        d.fault = fmt::format("{}", fmt::join(words, ","));
      });
  line.values(
      {.name = "--plant-death",
       .field = "faults.death",
       .type = "WHO@STEP:MOMENT[:HOW]...",
       .help
       = "That actor or lane dies once, at that moment of that step, and not again when the "
         "step runs again: what --recovery on is tried with. WHO as of --plant-fault, and with "
         "several processes keeper, or shard_writer where they save: that of one of them. MOMENT: "
         "restore, forward, input-gradient, weight-gradient, redeem, reduce, vote, decided, "
         "updated, acknowledged, snapshot, save or validate. What nobody would notice is refused. "
         "HOW, throw if it is left out:\n"
         "throw: it fails with an error.\n"
         "hang: it does nothing more: a lane, stage or replica where it comes to that moment, a "
         "loader at forward, a checkpointer at snapshot or save, a monitor at acknowledged, a "
         "keeper at redeem or acknowledged, a shard_writer at save.\n"
         "wrong-bits: a bit is flipped: of a lane's result at reduce, or of a weight at updated, "
         "where several replicas have the same; of a lane's result at forward, input-gradient or "
         "weight-gradient with --verify-fraction 1; of a state that a keeper gets at redeem.\n"
         "wrong-moment, wrong-second-moment: a bit is flipped of what the optimizer keeps, of a "
         "lane at updated.\n"
         "slow: from that step on each takes 100 ms longer: a lane at forward, input-gradient, "
         "weight-gradient or redeem, a loader at forward.\n"
         "kill, segv, abort, exit: with several processes, the process that it is in ends so.",
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
       .help = "Random sleeps of up to LANE microseconds before work and MESSAGE before delivery. "
               "They must change no bit.",
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
