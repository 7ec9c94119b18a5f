// The parts of `resolve`: each fills in its part of the job and adds a sentence for whatever is
// wrong.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/core/error.hpp"

#include <string>
#include <vector>

namespace troupe::command {

using runtime::collect;
using sentences = std::vector<std::string>;

using runtime::unknown_parts;

/// The shape of a model that is made new, or of one that is there already; all sizes are 0 where
/// one is missing. resolve_shape.cpp
runtime::gpt_config shape_from_flags(const training_flags& flags, sentences& wrong);
runtime::gpt_config shape_from_hub(const training_flags& flags, sentences& wrong);

/// Layout, stages, reduction, precision, threads and batch; the model's layers are known, or else
/// its shape is not. resolve_layout.cpp
void resolve_layout(const training_flags& flags,
                    runtime::training_job& job,
                    unknown_parts& unknown,
                    sentences& wrong);
/// Of the batch, whose replicas are known. resolve_steps.cpp
void resolve_batch(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong);
/// Optimizer and seed; then the length of the run, the rates and what grows with them.
void resolve_optimizer(const training_flags& flags, runtime::training_job& job);
void resolve_steps(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong);

/// resolve_layout.cpp
void resolve_recompute(const training_flags& flags, runtime::training_job& job, sentences& wrong);

}  // namespace troupe::command
