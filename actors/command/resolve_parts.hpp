// The parts of `resolve`. Each fills in its part of the job and adds a sentence for each error.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/core/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

using runtime::collect;
using sentences = std::vector<std::string>;

using runtime::unknown_parts;

/// The model without its vocabulary: a new one, or that of a Hugging Face folder. Nothing if a
/// setting is missing. In resolve_shape.cpp.
std::optional<runtime::model_description> shape_of(const training_flags& flags, sentences& wrong);

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
/// Turns epochs of files that the model's settings name into steps, and plans an evaluation of all
/// validation samples after each. Throws usage_error for a run without a length, and
/// input_error for files that cannot be read.
void resolve_epochs(training_flags& flags,
                    runtime::training_job& job,
                    const unknown_parts& unknown);
/// The length of the run, learning rates and weight decay.
void resolve_steps(const training_flags& flags,
                   runtime::training_job& job,
                   unknown_parts& unknown,
                   sentences& wrong);

/// In resolve_layout.cpp.
void resolve_recompute(const training_flags& flags, runtime::training_job& job, sentences& wrong);

}  // namespace troupe::command
