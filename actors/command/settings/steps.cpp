#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_steps(command_line& line, training_flags& to) {
  auto& s = to.steps;
  line.group("Batch and steps");
  line.value({.name = "--micro-batch-size",
              .field = "batch.micro",
              .type = "N",
              .unit = "samples",
              .help = "Samples per micro-batch, which passes the stages as a unit; memory grows "
                      "with it (required).",
              .megatron = "",
              .resume = at_resume::told},
             if_given(whole(to.job.training.batch.micro, 1)));
  line.value({.name = "--global-batch-size",
              .field = "batch.global",
              .type = "N",
              .unit = "samples",
              .default_value = "one micro-batch per replica",
              .help = "Samples per step, over all replicas.",
              .megatron = "",
              .resume = at_resume::told},
             if_given(whole(to.job.training.batch.global, 1)));
  line.values({.name = "--rampup-batch-size",
               .field = "batch.ramp",
               .type = "START INCREMENT SAMPLES",
               .unit = "samples",
               .help = "Starts with START samples per step and grows by INCREMENT, until it "
                       "reaches the global batch size after SAMPLES samples.",
               .least = 3,
               .most = 3,
               .range = whole_range{0, largest_count},
               .megatron = "",
               .resume = at_resume::told},
              [&s](const std::string& flag, const std::vector<std::string>& words) {
                s.ramp.clear();
                for (const auto& word : words)
                  s.ramp.push_back(parse_whole(flag, word, {0, largest_count}));
              });
  line.value({.name = "--step-batch-size-schedule",
              .field = "batch.steps",
              .type = "TOKENS:SIZE ...",
              .help = "Batch size by consumed tokens: from TOKENS on, a step has SIZE samples, "
                      "e.g. '0:768 250B:1536'; K, M, B and T are thousands to trillions. Needs "
                      "--train-samples; the last SIZE is the global batch size.",
              .megatron = "all sizes are checked for divisibility at the start",
              .resume = at_resume::told},
             text(s.sizes));
  line.value({.name = "--train-iters",
              .field = "train_iterations",
              .type = "N",
              .unit = "steps",
              .help = "Steps of the whole run (required, unless --train-samples is given).",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.iterations, 1, largest_count));
  line.value(
      {.name = "--train-samples",
       .field = "train_samples",
       .type = "N",
       .unit = "samples",
       .help = "Samples of the whole run. Learning rates are then counted in samples, too. A "
               "partial last batch is dropped; with --step-batch-size-schedule it is completed; "
               "within --rampup-batch-size one more step runs.",
       .megatron = "",
       .resume = at_resume::told},
      whole(s.samples, 1, largest_count));
  line.value({.name = "--exit-interval",
              .field = "exit_interval",
              .type = "N",
              .unit = "steps",
              .default_value = "the end of the run",
              .help = "Saves (with --save) and exits after a step that is a multiple of N.",
              .megatron = "with --save, saves before it exits",
              .once = true},
             whole(to.job.exit_interval, 1, largest_count));
  line.value({.name = "--exit-duration-in-mins",
              .field = "exit_minutes",
              .type = "N",
              .unit = "minutes",
              .default_value = "the end of the run",
              .help = "Saves (with --save) and exits after the first step that ends more than N "
                      "minutes after the program's start.",
              .megatron = "fractions, too; with --save, saves before it exits",
              .once = true},
             if_given(real(to.job.exit_minutes, real_range{.least = 0, .above = true})));
  line.toggle({.name = "--skip-train",
               .field = "skip_train",
               .help = "Runs no step: validates and tests the loaded state (--load, --load-hf) and "
                       "saves nothing. Ignores --save.",
               .megatron = "",
               .once = true},
              [&to] { to.job.skip_train = true; });
  line.value({.name = "--on-nonfinite",
              .field = "nonfinite",
              .type = "WHAT",
              .help = "Reaction to a loss or gradient that is NaN or infinite. stop: ends with "
                      "exit code 2, and saves the state before that step (with --save). skip: "
                      "skips the update; the learning rate waits, the data advances."},
             one_of(to.nonfinite.policy, {"stop", "skip"}));
  line.value({.name = "--max-skipped-in-a-row",
              .field = "skippable_in_a_row",
              .type = "N",
              .unit = "steps",
              .default_value = "10",
              .help = "With --on-nonfinite skip: maximum number of consecutive skipped steps."},
             whole(to.nonfinite.most_in_a_row, 1, largest_count));
}

}  // namespace troupe::command::settings
