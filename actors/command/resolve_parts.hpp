// The parts of `resolve`. Each fills in its part of the job and adds a sentence for each error.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/core/error.hpp"

#include <string>
#include <vector>

namespace troupe::command {

using runtime::collect;
using sentences = std::vector<std::string>;

using runtime::unknown_parts;

/// The shape of a new model, and that of an existing Hugging Face model. All sizes are 0 if one is
/// missing. In resolve_shape.cpp.
runtime::gpt_config shape_from_flags(const training_flags& flags, sentences& wrong);
runtime::gpt_config shape_from_hub(const training_flags& flags, sentences& wrong);

/// Layout, stages, reduction, precision, threads and batch. Requires the model's layers, unless its
/// whole shape is unknown. In resolve_layout.cpp.
void resolve_layout(const training_flags& flags,
                    runtime::training_job& job,
                    unknown_parts& unknown,
                    sentences& wrong);
/// The batch. Requires the number of replicas. In resolve_steps.cpp.
void resolve_batch(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong);
/// The length of the run, learning rates and weight decay.
void resolve_steps(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong);

/// In resolve_layout.cpp.
void resolve_recompute(const training_flags& flags, runtime::training_job& job, sentences& wrong);

}  // namespace troupe::command
