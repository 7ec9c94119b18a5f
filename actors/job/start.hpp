// Where a run starts: at iteration 0, or from a checkpoint.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/trainer/job.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// The checkpoint that `checkpoints.load` names: that folder, when it is one checkpoint, else the
/// latest in it. Throws input_error when there is none, unless it is the folder of
/// `checkpoints.save`, where the run's own checkpoints will be; and when `checkpoints.save` has
/// checkpoints that the run does not go on from, which with `checkpoints.finetune` are all. Throws
/// `cancelled` when `stop` is, as plan_start does.
runtime::found_checkpoint find_start(const runtime::training_job& job,
                                     const runtime::cancel_token& stop = {});

/// Throws input_error, naming what differs, unless the job's model has the parameters and the
/// function of the checkpoint's. Dropout, initial values, padding and the length of samples may
/// differ.
void check_model(const runtime::checkpoint_reader& from, const runtime::training_job& job);

/// Where a run starts, and what it takes along from there.
struct start_point {
  /// Null: no checkpoint, iteration 0 with initial values or those of `checkpoints.load_hub`.
  std::shared_ptr<const runtime::checkpoint_reader> from = {};
  bool with_moments = false;  ///< of the checkpoint; else they begin at zero
  std::uint64_t iteration = 0;
  std::uint64_t consumed = 0;
  runtime::skipped_steps skipped = {};
  runtime::loss_scale scale = {};  ///< not used: it begins anew, in fp16
  std::vector<std::string> warnings;
  std::string text;  ///< "from iteration 100 of 500 ('run/iter_0000100')", or that no step is left
};

/// Finds, verifies and compares the checkpoint of `checkpoints.load`, and decides what is taken
/// from it as Megatron-LM does for finetuning, for moments that are not loaded and for the two
/// schedulers. Sets what of the job the checkpoint decides: its learning rate and weight decay,
/// where that flag says so, and when its moments began. Throws input_error as find_start and
/// check_model, when the learning rate follows another schedule and no flag says which holds, and
/// when `checkpoints.strict_identity` is given and anything else differs.
start_point plan_start(runtime::training_job& job, const runtime::cancel_token& stop = {});

/// It goes on from the newest of the checkpoints that it saves: neither from one that is named, nor
/// as another training.
bool goes_on_from_its_saves(const runtime::checkpoint_settings& where);

/// What differs between two JSON objects: "model/hidden: checkpoint 32, this run 64", a line
/// each.
std::string differences(const std::string& there,
                        const std::string& here,
                        const char* whose = "checkpoint",
                        const char* ours = "this run");

/// Cuts the logs (`watch.log_file`, `watch.csv_file`) back to what the first `iteration` iterations
/// wrote, so that a run which goes on appends to them as if it had never been stopped: drops later
/// records, and a last line without its end. Throws input_error and io_error.
void cut_logs(const runtime::watch_settings& watch, std::uint64_t iteration);

}  // namespace troupe::actors
