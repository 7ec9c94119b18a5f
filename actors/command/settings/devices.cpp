#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_device(command_line& line, training_flags& to) {
  auto& d = to.device;
  line.group("Device");
  line.value({.name = "--backend",
              .field = "backend",
              .type = "NAME",
              .help = "What computes. auto: cuda where a device can be used, else cpu. cuda; cpu; "
                      "reference: plain loops with double sums, slow, which judges the others.",
              .resume = at_resume::told},
             one_of(d.backend, {"auto", "cuda", "cpu", "reference"}));
  line.value(
      {.name = "--devices",
       .field = "devices.numbers",
       .type = "N,N,...",
       .default_value = "all of them",
       .help
       = "GPUs of this machine, counted from 0, for the workers in turn: several may share one."},
      text(d.numbers));
  line.toggle({.name = "--allow-tf32",
               .field = "devices.tf32",
               .help = "Products of fp32 on a GPU may round their inputs to 10 bits of fraction: "
                       "faster, and other bits.",
               .resume = at_resume::told},
              [&d] { d.tf32 = true; });
  line.toggle({.name = "--allow-nondeterministic",
               .field = "devices.nondeterministic",
               .help = "cuDNN may sum attention's gradients in the order in which they come: "
                       "faster, by atomic additions, with memory that grows with the "
                       "sequence length and not with its square. Two runs of one "
                       "configuration are then equal only up to rounding, and what compares bits "
                       "cannot be asked for: --recovery on, --verify-fraction, "
                       "--strict-identity. Off: one configuration has the same bits, always.",
               .resume = at_resume::told},
              [&d] { d.nondeterministic = true; });
  line.value({.name = "--product-choices",
              .field = "devices.product_choices",
              .type = "FILE",
              .default_value = "~/.cache/troupe/products.json",
              .help = "Where the algorithms of matrix products on a GPU are kept, each measured "
                      "once, so that every later run has the same bits; beside the checkpoints "
                      "too. none: nothing is measured, the library's first guess is taken.",
              .resume = at_resume::told},
             text(d.product_choices));
  line.value(
      {.name = "--collectives",
       .field = "devices.exchange",
       .type = "NAME",
       .help = "How workers on GPUs sum and exchange. local: they read each other's memory. nccl: "
               "NCCL moves, sums are taken in rank order: the same bits. nccl-fast: NCCL sums in "
               "an order of its own: other bits, the same again in every run on such machines.",
       .resume = at_resume::told},
      one_of(d.collectives, {"local", "nccl", "nccl-fast"}));
  line.value({.name = "--transport",
              .field = "transport",
              .type = "NAME",
              .help = "How batches, activations and gradients go from worker to worker. tickets: "
                      "they change hands, nothing is copied. ucx: by UCX on this machine, as "
                      "between processes: the same bits, slower; to try what such a run will do."},
             one_of(d.transport, {"tickets", "ucx"}));
}

void declare_testing(command_line& line, training_flags& to) {
  auto& d = to.faults;
  line.group("Testing");
  line.toggle({.name = "--check-messages",
               .field = "check_messages",
               .help = "Every message goes through bytes before it is delivered, as between "
                       "processes; one that does not come back equal ends the run."},
              [&to] { to.check_messages = true; });
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
       .most = most_faults},
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
       .most = most_faults},
      [&d](const std::string&, const std::vector<std::string>& words) {
        d.death = fmt::format("{}", fmt::join(words, ","));
      });
  line.value(
      {.name = "--plant-delays",
       .field = "faults.delays",
       .type = "SEED,LANE,MESSAGE",
       .help = "Random sleeps of up to LANE microseconds before work and MESSAGE before delivery. "
               "They must change no bit."},
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
