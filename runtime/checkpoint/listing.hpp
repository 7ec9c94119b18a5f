// Lists the checkpoints in a folder without reading tensor data.

#pragma once

#include "runtime/checkpoint/manifest.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct listed_checkpoint {
  std::filesystem::path folder;
  std::int64_t iteration = 0;
  bool tracked = false;  ///< the latest checkpoint, which a run loads
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point saved;  ///< write time of its manifest
  std::optional<checkpoint_manifest> manifest;  ///< nothing if the checkpoint is invalid
  std::string wrong;  ///< fault in the manifest, in sizes or headers of shards, or a mismatch with
                      ///< the model
};

/// Lists the checkpoints in `dir` by iteration, or `dir` itself if it is a checkpoint. Does not
/// check the hashes of elements; checkpoint_reader::verify does. Throws input_error if the folder
/// does not exist or has no checkpoint.
std::vector<listed_checkpoint> list_checkpoints(const std::filesystem::path& dir);

/// Returns `dir` if it is a checkpoint, else the checkpoint that its tracker names, or the newest
/// one without a tracker. Throws input_error if there is none.
std::filesystem::path named_checkpoint(const std::filesystem::path& dir);

}  // namespace troupe::runtime
