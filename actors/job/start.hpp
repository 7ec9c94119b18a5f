// The start of a run: from iteration 0 or from a checkpoint.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/job/job.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// The checkpoint of `checkpoints.load`: the folder itself when it is a checkpoint, else the latest
/// in it. Throws input_error when there is none, except when it is the folder of
/// `checkpoints.save`. Throws input_error when `checkpoints.save` has checkpoints that the run does
/// not continue from; with `checkpoints.finetune` or `checkpoints.upcycle` these are all. Throws
/// `cancelled` after `stop`, as plan_start does.
runtime::found_checkpoint find_start(const runtime::training_job& job,
                                     const runtime::cancel_token& stop = {});

/// Throws input_error with the differences unless the job's model has the parameters and the
/// function of the checkpoint. Dropout, initial values, padding and sample length may differ.
void check_model(const runtime::checkpoint_reader& from, const runtime::training_job& job);

/// The start of a run, and what it takes from the checkpoint.
struct start_point {
  /// Null: no checkpoint; iteration 0 with initial values or those of `checkpoints.load_hub`.
  std::shared_ptr<const runtime::checkpoint_reader> from = {};
  bool with_moments = false;  ///< from the checkpoint; else moments start at zero
  std::uint64_t iteration = 0;
  std::uint64_t consumed = 0;
  runtime::skipped_steps skipped = {};
  runtime::loss_scale scale = {};  ///< unused: starts anew, in fp16
  std::vector<std::string> warnings;
  std::string text;  ///< "from iteration 100 of 500 ('run/iter_0000100')", or that no step is left
};

/// Finds, verifies and compares the checkpoint of `checkpoints.load`. Decides what is loaded from
/// it as Megatron-LM does for finetuning, for moments that are not loaded and for the two scheduler
/// flags. Sets the job's values that the checkpoint determines: learning rate and weight decay with
/// the flag for that, and when its moments began. Throws input_error as find_start and check_model.
/// Also throws when the learning rate schedules differ and no flag chooses one, and when anything
/// else differs under `checkpoints.strict_identity`.
start_point plan_start(runtime::training_job& job, const runtime::cancel_token& stop = {});

/// True if the job continues from the newest of its own checkpoints; false for a named one and for
/// a finetuning run.
bool goes_on_from_its_saves(const runtime::checkpoint_settings& where);

/// Differences of two JSON objects, one per line: "model/hidden: checkpoint 32, this run 64".
std::string differences(const std::string& there,
                        const std::string& here,
                        const char* whose = "checkpoint",
                        const char* ours = "this run");

/// Cuts the logs (`watch.log_file`, `watch.csv_file`) back to the first `iteration` iterations:
/// drops later records and an incomplete last line. A resumed run then appends as if it had never
/// stopped. Throws input_error and io_error.
void cut_logs(const runtime::watch_settings& watch, std::uint64_t iteration);

}  // namespace troupe::actors
