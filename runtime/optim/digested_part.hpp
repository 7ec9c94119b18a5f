// Describes which arrays a state digest covers. A process that holds only the arrays can recompute
// the digests with it (runtime/state/state_check.hpp).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A range of a parameter together with the optimizer state of that range.
struct digested_part {
  std::string parameter = {};
  bool repeated = false;   ///< another rank counts it in its digests; see chunk_digests::copies
  std::int64_t shard = 0;  ///< the shard that contains the range; see shard_index
  std::int64_t begin = 0, end = 0;    ///< element range within the shard
  std::vector<std::int64_t> at = {};  ///< first element of each optimizer array

  friend bool operator==(const digested_part&, const digested_part&) = default;
};

/// The parts of one chunk, in the order of its weights.
struct digested_chunk {
  std::int64_t grain = 0;  ///< elements
  bool answers = true;     ///< the rank's digests cover its part of the chunk
  std::vector<digested_part> parts = {};

  friend bool operator==(const digested_chunk&, const digested_chunk&) = default;
};

}  // namespace troupe::runtime
