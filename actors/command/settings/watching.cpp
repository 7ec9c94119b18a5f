#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_watching(command_line& line, training_flags& to) {
  auto& w = to.watch;
  line.group("Watching");
  line.value(
      {.name = "--log-interval",
       .field = "watch.log_interval",
       .type = "N",
       .unit = "steps",
       .help = "Steps between two lines; the first step of a run has one, too, and so has the last "
               "of one that ends in order.",
       .megatron = "also tokens/s"},
      whole(w.log_interval, 1, largest_count));
  line.toggle({.name = "--log-throughput",
               .field = "watch.log_throughput",
               .help = "Adds floating-point operations a second (of the model, as Megatron-LM "
                       "counts them) and MFU, their share of the peak rate of matrix products.",
               .megatron = "of all workers together; also the share of what matrix products reach"},
              [&w] { w.log_throughput = true; });
  line.value({.name = "--matrix-rate",
              .field = "watch.matrix_rate",
              .type = "TFLOPS",
              .unit = "TFLOP/s",
              .default_value = "measured at the start, in a fifth of a second",
              .help = "Peak rate of all workers' matrix products together."},
             real(to.matrix_rate, 1e-6, 1e9));
  line.toggle({.name = "--log-params-norm",
               .field = "watch.log_params_norm",
               .help = "Adds the norm of all parameters.",
               .megatron = ""},
              [&w] { w.log_params_norm = true; });
  line.toggle({.name = "--log-num-zeros-in-grad",
               .field = "watch.log_zero_gradients",
               .help = "Adds how many elements of the gradient are zero.",
               .megatron = ""},
              [&w] { w.log_zero_gradients = true; });
  line.value(
      {.name = "--log-file",
       .field = "watch.log_file",
       .type = "FILE",
       .default_value = "log.jsonl in the --save folder, if there is one",
       .help = "A JSON object for every step; `troupe plot` draws it. A run that resumes appends, "
               "after cutting what came after its checkpoint; any other starts the log anew."},
      text(w.log_file));
  line.value({.name = "--log-csv",
              .field = "watch.csv_file",
              .type = "FILE",
              .help = "The same as a table, a row for every step."},
             text(w.csv_file));
  line.value(
      {.name = "--tensorboard-dir",
       .field = "watch.board_dir",
       .type = "DIR",
       .help
       = "Event files for TensorBoard, with Megatron-LM's names. A run that resumes adds one.",
       .megatron = ""},
      text(w.board_dir));
  line.value({.name = "--tensorboard-log-interval",
              .field = "watch.board_interval",
              .type = "N",
              .unit = "steps",
              .help = "Steps between two that are written there.",
              .megatron = ""},
             whole(w.board_interval, 1, largest_count));
  line.value(
      {.name = "--record-schedule",
       .field = "watch.schedule_record",
       .type = "FILE",
       .help
       = "The last step that was executed, as a plan in CSV, which --pipeline-schedule and `troupe "
         "schedule` take: the plan, or what a behaviour decided on the slowest replica.",
       .once = true},
      text(w.schedule_record));
  line.value({.name = "--trace",
              .field = "watch.trace_file",
              .type = "FILE",
              .help = "Every action of every worker, for Chrome's or Perfetto's viewer.",
              .once = true},
             text(w.trace_file));
  line.value({.name = "--profile-operations",
              .field = "watch.profile_file",
              .type = "FILE",
              .help = "Times every operation, from the third step on: the longest as a table in "
                      "the end, all of them as JSON. Bits do not change.",
              .once = true},
             text(w.profile_file));
  line.value({.name = "--eval-interval",
              .field = "watch.eval_interval",
              .type = "N",
              .unit = "steps",
              .help = "Steps between two validations; 0: never.",
              .megatron = "the default is 1000, as it was in earlier versions; 0: never"},
             whole(w.eval_interval, 0, largest_count));
  line.value({.name = "--eval-iters",
              .field = "watch.eval_batches",
              .type = "N",
              .unit = "global batches",
              .help = "Global batches of one validation; 0: never.",
              .megatron = ""},
             whole(w.eval_batches, 0, largest_count));
  line.value(
      {.name = "--run",
       .field = "run.folder",
       .type = "DIR",
       .default_value = ".run in the --save folder, if there is one",
       .help = "The run's folder: who takes part, where it stands, its log, how it ended; for "
               "`troupe status`, `troupe wait` and `troupe stop`. Made for this user alone; one "
               "whose run has ended is used again.",
       .once = true},
      text(to.run_folder));
  line.toggle({.name = "--no-progress",
               .field = "watch.progress=false",
               .help = "No progress bar, not even on a terminal.",
               .once = true},
              [&w] { w.progress = false; });
  line.value({.name = "--log-format",
              .field = "watch.log_format",
              .type = "NAME",
              .help = "Lines of the console. megatron: Megatron-LM's, for programs that read them. "
                      "short: of less than 80 columns. auto: short on a terminal, else megatron."},
             one_of(w.log_format, {"auto", "megatron", "short"}));
  line.value({.name = "--log-level",
              .field = "watch.log_level",
              .type = "NAME",
              .help = "The least that the console shows. debug: more of the schedule. info: lines "
                      "of steps. warning; error.",
              .once = true},
             one_of(w.log_level, {"debug", "info", "warning", "error"}));
  line.toggle({.name = "--quiet",
               .field = "watch.quiet",
               .help = "The console shows warnings and errors alone, and no progress bar. Files of "
                       "the log are written as ever.",
               .once = true},
              [&w] { w.quiet = true; });
  line.value(
      {.name = "--straggler-ratio",
       .field = "watch.straggler_ratio",
       .type = "R",
       .help
       = "A worker that for three steps has taken more than R times as long as the same stage "
         "of other replicas, or without others as it did before, is named: as slow to "
         "compute, to get what other ranks hand on (link), or to get its batches (input). Time "
         "in which it had no core does not count, and where steps are slow by chance it takes "
         "more than three; without others, 10 s of them. Of one worker nothing is told. Costs next "
         "to nothing, changes no bit. 0: nobody is named."},
      real(w.straggler_ratio, 0, 1e6));
}

}  // namespace troupe::command::settings
