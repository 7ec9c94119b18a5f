// Checks the tensors of a checkpoint against the model in its manifest.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/model/extension.hpp"

#include <string_view>

namespace troupe::runtime {

/// Throws input_error unless names and extents of the parameters equal those of the checkpoint's
/// model. `own`: the extension that the model was trained with. Allocates no memory for missing
/// tensors.
void require_parameters(const checkpoint_reader& of, const extension& own = {});

/// Same check for programs without the extension: skips models that have one.
void require_known_parameters(const checkpoint_reader& of);

/// Throws input_error unless the checkpoint has the tensor with these extents: the model in the
/// manifest does not prove them.
void require_extents(const checkpoint_reader& of, std::string_view name, const shape& wanted);

}  // namespace troupe::runtime
