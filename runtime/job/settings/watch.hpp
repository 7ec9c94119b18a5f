// Logs, validation and monitoring of a job.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::runtime {

struct watch_settings {
  std::uint64_t log_interval = 100;
  std::filesystem::path log_file;         ///< one JSON object per line; empty: none
  std::filesystem::path csv_file;         ///< the same records as a table; empty: none
  std::filesystem::path board_dir;        ///< TensorBoard event files; empty: none
  std::uint64_t board_interval = 1;       ///< steps between two records
  std::filesystem::path trace_file;       ///< empty: none
  std::filesystem::path profile_file;     ///< JSON; empty: none
  std::filesystem::path schedule_record;  ///< CSV; empty: none
  std::uint64_t eval_interval = 0;        ///< 0: never
  std::int64_t eval_batches = 0;          ///< global batches of one evaluation
  bool log_throughput = false;
  double matrix_rate = 0;  ///< FLOP per second; 0: measured at the start
  bool log_params_norm = false;
  bool log_zero_gradients = false;
  bool progress = true;
  /// Format of console lines: "megatron", "short", or "auto" (short on a terminal).
  std::string log_format = "auto";
  std::string log_level = "info";  ///< minimum severity shown on the console: "debug" to "error"
  bool quiet = false;  ///< the console shows only warnings and errors, and no progress bar
  /// Reports a worker that takes this many times as long as the others, or as it took before; 0:
  /// off.
  double straggler_ratio = 1.5;
  /// HOST:PORT where viewers of other hosts reach the run; empty: only the socket of its folder.
  std::string hub;
  /// PEM file with the certificate chain and the private key of that port; empty: no TLS.
  std::filesystem::path hub_certificate;
  bool expert_layers = false;       ///< logs show each layer with experts, not only the extremes
  std::uint64_t expert_counts = 0;  ///< steps between two records with all counts; 0: none

  /// True if the console shows the step of a run that begins after iteration `first`. The first
  /// step always has a line, so that the initial loss is visible however long the interval is.
  bool has_line(std::uint64_t step, std::uint64_t first, std::uint64_t last) const {
    return log_interval > 0 && (step % log_interval == 0 || step == first + 1 || step == last);
  }
  /// True if records of the step have the rows of each expert.
  bool lists_experts(std::uint64_t step) const {
    return expert_counts > 0 && step % expert_counts == 0;
  }

  static constexpr auto fields() {
    using x = watch_settings;
    return std::tuple(
        row("log_interval", &x::log_interval)
            .flag({.name = "--log-interval",
                   .unit = "steps",
                   .help = "Steps between two log lines; the first step of a run and the last one "
                           "of an orderly end are always logged.",
                   .megatron = "also tokens/s",
                   .range = whole_range{1, largest_count}}),
        row("log_throughput", &x::log_throughput)
            .flag({.name = "--log-throughput",
                   .help
                   = "Adds floating-point operations per second (of the model, as Megatron-LM "
                     "counts them) and MFU, their fraction of the peak rate of matrix products.",
                   .megatron = "of all workers together; also MFU, the fraction of the peak rate "
                               "of matrix products"}),
        row("matrix_rate", &x::matrix_rate),
        row("log_params_norm", &x::log_params_norm)
            .flag({.name = "--log-params-norm",
                   .help = "Adds the norm of all parameters to log lines."}),
        row("log_zero_gradients", &x::log_zero_gradients)
            .flag({.name = "--log-num-zeros-in-grad",
                   .help = "Adds the number of zero elements of the gradient to log lines."}),
        row("log_file", &x::log_file)
            .own_flag({.name = "--log-file",
                       .type = "FILE",
                       .default_value = "log.jsonl in the --save folder, if given",
                       .help
                       = "Log with a JSON object per step; `troupe plot` draws it. A run that "
                         "resumes removes the entries after its checkpoint and appends; any "
                         "other run starts a new log."}),
        row("csv_file", &x::csv_file)
            .own_flag({.name = "--log-csv",
                       .type = "FILE",
                       .help = "The same log as a table in CSV, with a row per step."}),
        row("board_dir", &x::board_dir)
            .flag({.name = "--tensorboard-dir",
                   .type = "DIR",
                   .help = "Folder for event files of TensorBoard, with Megatron-LM's names. A run "
                           "that resumes adds a file."}),
        row("board_interval", &x::board_interval)
            .flag({.name = "--tensorboard-log-interval",
                   .unit = "steps",
                   .help = "Steps between two entries in TensorBoard.",
                   .range = whole_range{1, largest_count}}),
        row("schedule_record", &x::schedule_record)
            .own_flag({.name = "--record-schedule",
                       .type = "FILE",
                       .help
                       = "Plan in CSV of the last executed step, for --pipeline-schedule and "
                         "`troupe schedule`. With a behaviour, the plan contains its decisions "
                         "on the slowest replica.",
                       .once = true}),
        row("trace_file", &x::trace_file)
            .own_flag(
                {.name = "--trace",
                 .type = "FILE",
                 .help
                 = "Trace of every action of every worker, for Chrome's trace viewer or Perfetto.",
                 .once = true}),
        row("profile_file", &x::profile_file)
            .own_flag({.name = "--profile-operations",
                       .type = "FILE",
                       .help
                       = "Times every operation from the third step on. Prints a table of the "
                         "longest at the end and writes all of them as JSON. Bits do not change.",
                       .once = true}),
        row("eval_interval", &x::eval_interval)
            .flag({.name = "--eval-interval",
                   .unit = "steps",
                   .help = "Steps between two validations; 0: never.",
                   .megatron = "the default is 1000, as in earlier versions; 0: never",
                   .range = whole_range{0, largest_count}}),
        row("eval_batches", &x::eval_batches)
            .flag({.name = "--eval-iters",
                   .unit = "global batches",
                   .help = "Global batches per validation; 0: never.",
                   .range = whole_range{0, largest_count}}),
        row("progress", &x::progress)
            .own_flag({.name = "--no-progress",
                       .help = "No progress bar, even on a terminal.",
                       .value = "false",
                       .once = true}),
        row("log_format", &x::log_format)
            .own_flag(
                {.name = "--log-format",
                 .type = "NAME",
                 .help
                 = "Format of console lines. megatron: Megatron-LM's, for programs that parse "
                   "them. short: less than 80 columns. auto: short on a terminal, else megatron.",
                 .choices = "auto megatron short"}),
        row("log_level", &x::log_level)
            .own_flag({.name = "--log-level",
                       .type = "NAME",
                       .help = "Minimum severity shown on the console. debug: also details of the "
                               "schedule. info: also the lines of steps. warning; error.",
                       .choices = "debug info warning error",
                       .once = true}),
        row("quiet", &x::quiet)
            .own_flag({.name = "--quiet",
                       .help
                       = "Shows only warnings and errors on the console, and no progress bar. "
                         "Log files are still written.",
                       .once = true}),
        row("straggler_ratio", &x::straggler_ratio)
            .own_flag({.name = "--straggler-ratio",
                       .type = "R",
                       .help
                       = "Reports a worker that for three steps takes more than R times as long as "
                         "the same stage of other replicas, or as its own earlier steps if there "
                         "are no others. The report names the cause: slow computation, transfers "
                         "from other ranks (link) or batches (input). Time in which the worker has "
                         "no core does not count. If step times vary, more than three steps are "
                         "needed; without other replicas, 10 s of steps. A run of one worker "
                         "reports nothing. Costs almost nothing and changes no bit. 0: off.",
                       .range = real_range{0, 1e6}}),
        row("hub", &x::hub)
            .own_flag({.name = "--monitor-address",
                       .type = "HOST:PORT",
                       .default_value
                       = "none: `troupe monitor DIR` on the supervisor's host needs no port",
                       .help
                       = "Port of the supervisor's host where `troupe monitor HOST:PORT`, browsers "
                         "and Prometheus watch the run. Viewers need the token in the file "
                         "`read.token` of the run's folder. An address that other hosts reach "
                         "needs --monitor-certificate. Port 0: a free port, which the log names.",
                       .once = true}),
        row("hub_certificate", &x::hub_certificate)
            .own_flag({.name = "--monitor-certificate",
                       .type = "FILE",
                       .default_value = "no TLS (loopback addresses only)",
                       .help
                       = "PEM file with the certificate of --monitor-address, its chain and its "
                         "private key. The port then uses TLS.",
                       .once = true}),
        row("expert_layers", &x::expert_layers)
            .flag({.name = "--moe-per-layer-logging",
                   .help = "Logs show the rows of experts for each layer, not only the extremes."}),
        row("expert_counts", &x::expert_counts)
            .flag({.name = "--save-tokens-per-expert-interval",
                   .unit = "steps",
                   .default_value = "0",
                   .help = "Steps between two entries of the JSON log with the rows of each "
                           "expert; 0: never.",
                   .megatron = "in the log, not in files of their own; 0: never",
                   .range = whole_range{0, largest_count},
                   .only_given = true}));
  }
};

}  // namespace troupe::runtime
