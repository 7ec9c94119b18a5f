#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_watching(command_line& line, training_flags& to) {
  auto& w = to.job.watch;
  line.group("Logging and monitoring");
  line.value({.name = "--log-interval",
              .field = "watch.log_interval",
              .type = "N",
              .unit = "steps",
              .help = "Steps between two log lines; the first step of a run and the last one of an "
                      "orderly end are always logged.",
              .megatron = "also tokens/s"},
             whole(w.log_interval, 1, largest_count));
  line.toggle(
      {.name = "--log-throughput",
       .field = "watch.log_throughput",
       .help = "Adds floating-point operations per second (of the model, as Megatron-LM counts "
               "them) and MFU, their fraction of the peak rate of matrix products.",
       .megatron
       = "of all workers together; also MFU, the fraction of the peak rate of matrix products"},
      [&w] { w.log_throughput = true; });
  line.value({.name = "--matrix-rate",
              .field = "watch.matrix_rate",
              .type = "TFLOPS",
              .unit = "TFLOP/s",
              .default_value = "measured at the start, in 0.2 s",
              .help = "Peak rate of the matrix products of all workers together."},
             real(to.matrix_rate, 1e-6, 1e9));
  line.toggle({.name = "--log-params-norm",
               .field = "watch.log_params_norm",
               .help = "Adds the norm of all parameters to log lines.",
               .megatron = ""},
              [&w] { w.log_params_norm = true; });
  line.toggle({.name = "--log-num-zeros-in-grad",
               .field = "watch.log_zero_gradients",
               .help = "Adds the number of zero elements of the gradient to log lines.",
               .megatron = ""},
              [&w] { w.log_zero_gradients = true; });
  line.value(
      {.name = "--log-file",
       .field = "watch.log_file",
       .type = "FILE",
       .default_value = "log.jsonl in the --save folder, if given",
       .help
       = "Log with a JSON object per step; `troupe plot` draws it. A run that resumes removes the "
         "entries after its checkpoint and appends; any other run starts a new log."},
      text(w.log_file));
  line.value({.name = "--log-csv",
              .field = "watch.csv_file",
              .type = "FILE",
              .help = "The same log as a table in CSV, with a row per step."},
             text(w.csv_file));
  line.value({.name = "--tensorboard-dir",
              .field = "watch.board_dir",
              .type = "DIR",
              .help = "Folder for event files of TensorBoard, with Megatron-LM's names. A run that "
                      "resumes adds a file.",
              .megatron = ""},
             text(w.board_dir));
  line.value({.name = "--tensorboard-log-interval",
              .field = "watch.board_interval",
              .type = "N",
              .unit = "steps",
              .help = "Steps between two entries in TensorBoard.",
              .megatron = ""},
             whole(w.board_interval, 1, largest_count));
  line.value(
      {.name = "--record-schedule",
       .field = "watch.schedule_record",
       .type = "FILE",
       .help
       = "Plan in CSV of the last executed step, for --pipeline-schedule and `troupe schedule`. "
         "With a behaviour, the plan contains its decisions on the slowest replica.",
       .once = true},
      text(w.schedule_record));
  line.value(
      {.name = "--trace",
       .field = "watch.trace_file",
       .type = "FILE",
       .help = "Trace of every action of every worker, for Chrome's trace viewer or Perfetto.",
       .once = true},
      text(w.trace_file));
  line.value({.name = "--profile-operations",
              .field = "watch.profile_file",
              .type = "FILE",
              .help = "Times every operation from the third step on. Prints a table of the longest "
                      "at the end and writes all of them as JSON. Bits do not change.",
              .once = true},
             text(w.profile_file));
  line.value({.name = "--eval-interval",
              .field = "watch.eval_interval",
              .type = "N",
              .unit = "steps",
              .help = "Steps between two validations; 0: never.",
              .megatron = "the default is 1000, as in earlier versions; 0: never"},
             whole(w.eval_interval, 0, largest_count));
  line.value({.name = "--eval-iters",
              .field = "watch.eval_batches",
              .type = "N",
              .unit = "global batches",
              .help = "Global batches per validation; 0: never.",
              .megatron = ""},
             whole(w.eval_batches, 0, largest_count));
  line.value(
      {.name = "--run",
       .field = "run.folder",
       .type = "DIR",
       .default_value = ".run in the --save folder, if given",
       .help
       = "Folder of the run for `troupe status`, `troupe wait` and `troupe stop`: its processes, "
         "progress, log and end. Accessible only to this user; reused once its run has ended.",
       .once = true},
      text(to.run_folder));
  line.toggle({.name = "--no-progress",
               .field = "watch.progress=false",
               .help = "No progress bar, even on a terminal.",
               .once = true},
              [&w] { w.progress = false; });
  line.value(
      {.name = "--log-format",
       .field = "watch.log_format",
       .type = "NAME",
       .help = "Format of console lines. megatron: Megatron-LM's, for programs that parse them. "
               "short: less than 80 columns. auto: short on a terminal, else megatron."},
      one_of(w.log_format, {"auto", "megatron", "short"}));
  line.value({.name = "--log-level",
              .field = "watch.log_level",
              .type = "NAME",
              .help = "Minimum severity shown on the console. debug: also details of the schedule. "
                      "info: also the lines of steps. warning; error.",
              .once = true},
             one_of(w.log_level, {"debug", "info", "warning", "error"}));
  line.toggle({.name = "--quiet",
               .field = "watch.quiet",
               .help = "Shows only warnings and errors on the console, and no progress bar. Log "
                       "files are still written.",
               .once = true},
              [&w] { w.quiet = true; });
  line.value(
      {.name = "--straggler-ratio",
       .field = "watch.straggler_ratio",
       .type = "R",
       .help
       = "Reports a worker that for three steps takes more than R times as long as the same stage "
         "of other replicas, or as its own earlier steps if there are no others. The report names "
         "the cause: slow computation, transfers from other ranks (link) or batches (input). Time "
         "in which the worker has no core does not count. If step times vary, more than three "
         "steps are needed; without other replicas, 10 s of steps. A run of one worker reports "
         "nothing. Costs almost nothing and changes no bit. 0: off."},
      real(w.straggler_ratio, 0, 1e6));
  line.value(
      {.name = "--monitor-address",
       .field = "watch.hub",
       .type = "HOST:PORT",
       .default_value = "none: `troupe monitor DIR` on the supervisor's host needs no port",
       .help = "Port of the supervisor's host where `troupe monitor HOST:PORT`, browsers and "
               "Prometheus watch the run. Viewers need the token in the file `read.token` of "
               "the run's folder. An address that other hosts reach needs --monitor-certificate. "
               "Port 0: a free port, which the log names.",
       .once = true},
      text(w.hub));
  line.value({.name = "--monitor-certificate",
              .field = "watch.hub_certificate",
              .type = "FILE",
              .default_value = "no TLS (loopback addresses only)",
              .help = "PEM file with the certificate of --monitor-address, its chain and its "
                      "private key. The port then uses TLS.",
              .once = true},
             text(w.hub_certificate));
}

}  // namespace troupe::command::settings
