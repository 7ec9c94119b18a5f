// The digests of a rank's state, merged from those of its chunks.

#pragma once

#include "runtime/optim/optimizer_state.hpp"

#include <map>
#include <string>

namespace troupe::runtime {

/// Digests of a rank by parameter; see chunk_digests.
struct state_digests {
  std::map<std::string, digest> own;
  /// A parameter has several if the chunks of a rank hold different shares of it: two copies of the
  /// model with a tied parameter and a distributed optimizer. Equal ones are listed once.
  std::multimap<std::string, digest> copies;

  friend bool operator==(const state_digests&, const state_digests&) = default;
};

/// Adds the digests of a chunk to those of its rank. `answers`: this rank accounts for the chunk.
void merge_digests(state_digests& to, chunk_digests of_chunk, bool answers);

}  // namespace troupe::runtime
