// What the manifest of a checkpoint says of its model, held to the tensors that are there.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/model/extension.hpp"

namespace troupe::runtime {

/// Throws input_error unless the parameters of the checkpoint are exactly those of its model, by
/// name and extents. `own`: the extension that the model was trained with. No memory is taken for
/// what is not there.
void require_parameters(const checkpoint_reader& of, const extension& own = {});

/// The same for who has no extension: of a model with one nothing is required.
void require_known_parameters(const checkpoint_reader& of);

}  // namespace troupe::runtime
