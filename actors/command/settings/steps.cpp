#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_steps(command_line& line, training_flags& to) {
  auto& s = to.steps;
  line.group("Batch and steps");
  line.value({.name = "--micro-batch-size",
              .field = "batch.micro",
              .type = "N",
              .unit = "samples",
              .help = "Samples of a micro-batch, which passes the stages as one; memory grows with "
                      "it (required).",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.micro, 1));
  line.value({.name = "--global-batch-size",
              .field = "batch.global",
              .type = "N",
              .unit = "samples",
              .default_value = "one micro-batch a replica",
              .help = "Samples of one step, over all replicas.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.global, 1));
  line.values({.name = "--rampup-batch-size",
               .field = "batch.ramp",
               .type = "START INCREMENT SAMPLES",
               .unit = "samples",
               .help = "Begins with START samples a step and grows by INCREMENT until, after "
                       "SAMPLES samples, it is the global batch size.",
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
              .help = "From so many tokens on, a step has SIZE samples: '0:768 250B:1536'; K, M, B "
                      "and T are thousands to trillions. With --train-samples; the last SIZE is "
                      "the global batch size.",
              .megatron = "every size must be divisible when the run begins",
              .resume = at_resume::told},
             text(s.sizes));
  line.value({.name = "--train-iters",
              .field = "train_iterations",
              .type = "N",
              .unit = "steps",
              .help = "Steps of the whole run (required, or --train-samples).",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.iterations, 1, largest_count));
  line.value({.name = "--train-samples",
              .field = "train_samples",
              .type = "N",
              .unit = "samples",
              .help = "The same, counted in samples. Rates are then counted in samples, too.",
              .megatron = "a partial last batch is left out",
              .resume = at_resume::told},
             whole(s.samples, 1, largest_count));
  line.value({.name = "--exit-interval",
              .field = "exit_interval",
              .type = "N",
              .unit = "steps",
              .default_value = "the end of the run",
              .help = "Saves (with --save) and exits after a step that N divides.",
              .megatron = "with --save, saves before it exits",
              .once = true},
             whole(s.exit_interval, 1, largest_count));
  line.value({.name = "--exit-duration-in-mins",
              .field = "exit_minutes",
              .type = "N",
              .unit = "minutes",
              .default_value = "the end of the run",
              .help = "Saves (with --save) and exits after the first step that ends later than so "
                      "many minutes after the program's start.",
              .megatron = "fractions, too; with --save, saves before it exits",
              .once = true},
             real(s.exit_minutes, real_range{.least = 0, .above = true}));
  line.toggle({.name = "--skip-train",
               .field = "skip_train",
               .help = "No step: validates and tests the state that it starts from (--load, "
                       "--load-hf), and saves nothing. --save is not looked at.",
               .megatron = "",
               .once = true},
              [&s] { s.skip_train = true; });
  line.value({.name = "--on-nonfinite",
              .field = "nonfinite",
              .type = "WHAT",
              .help = "When a step's loss or gradient is NaN or infinite. stop: ends with exit "
                      "code 2, and saves the state before that step (with --save). skip: skips the "
                      "step: no update, the learning rate waits, the data goes on."},
             one_of(to.nonfinite.policy, {"stop", "skip"}));
  line.value({.name = "--max-skipped-in-a-row",
              .field = "skippable_in_a_row",
              .type = "N",
              .unit = "steps",
              .default_value = "10",
              .help = "With --on-nonfinite skip: the most such steps in a row."},
             whole(to.nonfinite.most_in_a_row, 1, largest_count));
}

}  // namespace troupe::command::settings
