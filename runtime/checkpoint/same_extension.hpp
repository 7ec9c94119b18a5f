// Checks that a run has the extension with which a checkpoint was saved.

#pragma once

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/model/extension.hpp"

#include <filesystem>

namespace troupe::runtime {

/// Throws input_error unless the checkpoint and this run have the same extension name, or both have
/// none.
void require_extension(const checkpoint_manifest& of,
                       const extension& own,
                       const std::filesystem::path& folder);

}  // namespace troupe::runtime
