// A GPT index kept on disk, so that it is built once per data set, split and seed and not once per
// process. The files are those of Megatron (.npy, readable by numpy); docs/formats/
// gpt_index_cache.md.

#pragma once

#include "runtime/data/gpt_index.hpp"

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Everything that the index depends on, as JSON: equal descriptions, equal indices. The sequences
/// enter by a digest of their lengths, so a data set may move, and one that changes is noticed.
std::string describe(const token_source& source, const gpt_index_request& request, data_split part);

/// Maps the cached index, or builds and saves it when it is absent, from something else, or damaged
/// in any byte (then it says so in the log). Threads and processes that ask at once wait for the
/// one that builds (a lock file beside it). When the index cannot be saved, that is told in the log
/// and it is kept in memory. Throws `cancelled` when `stop` is.
gpt_index load_or_build_gpt_index(const token_source& source,
                                  const gpt_index_request& request,
                                  const gpt_index_plan& plan,
                                  data_split part,
                                  const std::filesystem::path& folder,
                                  const cancel_token& stop = {});

}  // namespace troupe::runtime
