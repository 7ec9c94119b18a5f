// Where a run starts: at iteration 0, or from a checkpoint.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/trainer/job.hpp"

#include <string>

namespace troupe::actors {

/// The checkpoint that --load names: that folder, when it is one checkpoint, else the latest in it.
/// Throws input_error when there is none, unless it is the folder of --save, where the run's own
/// checkpoints will be; and when --save has checkpoints that the run does not go on from.
runtime::found_checkpoint find_start(const runtime::training_job& job);

/// Throws input_error, naming what differs, unless the job's model has the parameters and the
/// function of the checkpoint's. Dropout, initial values, padding and the length of samples may
/// differ.
void check_model(const runtime::checkpoint_reader& from, const runtime::training_job& job);

/// What differs between two JSON objects: "model/hidden: 32 there, 64 here", a line each.
std::string differences(const std::string& there, const std::string& here);

/// Cuts a log back to what the first `iteration` iterations wrote, so that a run which goes on
/// appends to it as if it had never been stopped: drops later records, and a last line without its
/// end. Throws input_error and io_error.
void cut_log(const std::filesystem::path& log, std::uint64_t iteration);

}  // namespace troupe::actors
