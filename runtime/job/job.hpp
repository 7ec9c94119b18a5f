// A training job, fully resolved: the settings of the command line with every default filled in.
//
// `validate` lists the rules that a job breaks; `identity` describes what decides its bits.

#pragma once

#include "kernels/backend/backend.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/data/data_settings.hpp"
#include "runtime/job/recipe.hpp"
#include "runtime/job/settings/checkpoints.hpp"
#include "runtime/job/settings/devices.hpp"
#include "runtime/job/settings/faults.hpp"
#include "runtime/job/settings/layout.hpp"
#include "runtime/job/settings/recovery.hpp"
#include "runtime/job/settings/reduction.hpp"
#include "runtime/job/settings/watch.hpp"
#include "runtime/model/recompute.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct training_job {
  recipe training;
  data_settings data;
  layout_settings layout;
  reduction_settings reduction;
  recompute_settings recompute;
  checkpoint_settings checkpoints;
  watch_settings watch;
  recovery_settings recovery;
  fault_settings faults;
  std::uint64_t train_iterations = 0;
  std::uint64_t exit_interval = 0;  ///< stop after an iteration that is a multiple of this; 0: off
  double exit_minutes = 0;  ///< stop after the first iteration that ends later than this; 0: off
  bool skip_train = false;  ///< only evaluates the initial state, and saves nothing
  int threads_per_worker = 1;
  kernels::backend backend = kernels::backend::cpu;
  device_settings devices;
  transports transport = transports::tickets;
  bool check_messages = false;        ///< serializes and deserializes each message before delivery
  std::string tokenizer_description;  ///< JSON: kind, files, fingerprint; stored in checkpoints

  static constexpr auto fields() {
    using x = training_job;
    return std::tuple(
        row("training", &x::training).named(""),
        row("data", &x::data),
        row("layout", &x::layout),
        row("reduction", &x::reduction),
        row("recompute", &x::recompute),
        row("checkpoints", &x::checkpoints),
        row("watch", &x::watch),
        row("recovery", &x::recovery),
        row("faults", &x::faults),
        row("train_iterations", &x::train_iterations),
        row("exit_interval", &x::exit_interval)
            .flag({.name = "--exit-interval",
                   .unit = "steps",
                   .default_value = "the end of the run",
                   .help = "Saves (with --save) and exits after a step that is a multiple of N.",
                   .megatron = "with --save, saves before it exits",
                   .range = whole_range{1, largest_count},
                   .once = true}),
        row("exit_minutes", &x::exit_minutes)
            .flag({.name = "--exit-duration-in-mins",
                   .type = "N",
                   .unit = "minutes",
                   .default_value = "the end of the run",
                   .help = "Saves (with --save) and exits after the first step that ends more than "
                           "N minutes after the program's start.",
                   .megatron = "fractions, too; with --save, saves before it exits",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true,
                   .once = true}),
        row("skip_train", &x::skip_train)
            .flag({.name = "--skip-train",
                   .help = "Runs no step: validates and tests the loaded state (--load, --load-hf) "
                           "and saves nothing. Ignores --save.",
                   .once = true}),
        row("threads_per_worker", &x::threads_per_worker)
            .own_flag({.name = "--threads-per-worker",
                       .unit = "threads",
                       .default_value = "cores of a host / its workers, at least 1; of several "
                                        "hosts the least",
                       .help
                       = "Threads that each worker computes with. Part of the run's identity: "
                         "another number may change bits. Hosts of --nodes and "
                         "--hostfile count as many cores as this one.",
                       .range = whole_range{1, 4096},
                       .only_given = true,
                       .resume = at_resume::told}),
        row("backend", &x::backend),
        row("devices", &x::devices),
        row("transport", &x::transport)
            .own_flag({.name = "--transport",
                       .type = "NAME",
                       .help
                       = "How batches, activations and gradients move between workers. tickets: by "
                         "reference, without copies. ucx: over UCX on this machine, as between "
                         "processes; the same bits, slower, to test how such a run behaves."})
            .one_of(transports::tickets, transports::ucx),
        row("check_messages", &x::check_messages)
            .own_flag({.name = "--check-messages",
                       .help
                       = "Serializes and deserializes every message before delivery, as between "
                         "processes; a message that changes ends the run."}),
        row("tokenizer_description", &x::tokenizer_description));
  }
};

/// Everything in a job that decides the bits of its states, as JSON: seed, recipe, precision, data,
/// layout, threads, instruction set, build. Stored in the checkpoint; a resuming run reports
/// differences.
std::string identity(const training_job& job);
/// The identity for checkpoints of a run whose learning rate was changed by commands. Local
/// snapshots use the identity without the changes, so that a cold start finds them.
std::string with_rate_changes(const std::string& identity, const std::vector<rate_change>& all);
/// Reads the changes from a checkpoint's identity, for a run that resumes from it. Throws
/// input_error; its text begins with `where`.
std::vector<rate_change> rate_changes_in(const std::string& identity, const std::string& where);

/// Parts of a job that the caller failed to resolve and already reported. `validate` skips the
/// rules about them.
struct unknown_parts {
  bool shape = false;      ///< the sizes of the model; they are 0
  bool tokenizer = false;  ///< also the vocabulary; its padded size is 0
  bool data = false;       ///< the training data
  bool batch = false;      ///< batch sizes, and with them the work of a schedule
  bool stages = false;     ///< layers per stage, or chunks per rank
  bool length = false;     ///< iterations, and the samples of the learning rate's rise and decay
};

/// One sentence for each broken rule, with the flag and the nearest valid value. Empty: the job can
/// run, except for its unknown parts.
std::vector<std::string> validate(const training_job& job, unknown_parts unknown = {});

}  // namespace troupe::runtime
