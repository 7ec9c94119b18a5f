// What lies in a folder of checkpoints, told without reading elements.

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
  bool tracked = false;  ///< the latest checkpoint: the one to be loaded
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point saved;  ///< when its manifest was written
  std::optional<checkpoint_manifest> manifest;  ///< nothing: something is wrong
  std::string wrong;  ///< with manifest, shards' sizes or headers, or that they are not the model's
};

/// The checkpoints in `dir`, by iteration; or `dir` itself, when it is one. Hashes of elements are
/// left to checkpoint_reader::verify. Throws input_error when there is no such folder, or nothing
/// in it.
std::vector<listed_checkpoint> list_checkpoints(const std::filesystem::path& dir);

/// `dir` itself when it is a checkpoint, else the one in it that the tracker names, or the newest
/// when there is no tracker. Throws input_error when there is none.
std::filesystem::path named_checkpoint(const std::filesystem::path& dir);

}  // namespace troupe::runtime
