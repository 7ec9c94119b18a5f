// The cached index of a GPT data set. Format: docs/formats/gpt_index_cache.md.

#pragma once

#include "runtime/data/gpt_index.hpp"

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Everything that the index depends on, as JSON: equal descriptions mean equal indices. Contains a
/// digest of the lengths of the sequences, so a data set may move, and changes are detected.
std::string describe(const token_source& source, const gpt_index_request& request, data_split part);

/// Maps the cached index, or builds and saves it (index_cache.hpp). Throws `cancelled`.
gpt_index load_or_build_gpt_index(const token_source& source,
                                  const gpt_index_request& request,
                                  const gpt_index_plan& plan,
                                  data_split part,
                                  const std::filesystem::path& folder,
                                  const cancel_token& stop = {});

}  // namespace troupe::runtime
