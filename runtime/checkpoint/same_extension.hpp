// A checkpoint holds the parameters of one function: who loads it must have the same.

#pragma once

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/model/extension.hpp"

#include <filesystem>

namespace troupe::runtime {

/// Throws input_error unless the checkpoint was saved with the extension of this name, or with none
/// where this has none.
void require_extension(const checkpoint_manifest& of,
                       const extension& own,
                       const std::filesystem::path& folder);

}  // namespace troupe::runtime
