// Merges the digests of a rank's chunks, and finds copies of a parameter that differ within the
// rank.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/optim/optimizer_state.hpp"

#include <string>

namespace troupe::runtime {

/// STEP-6 fails within one rank: two of its copies of a parameter differ.
class copies_differ : public broken_promise {
 public:
  explicit copies_differ(std::string parameter);
  const std::string& parameter() const { return parameter_; }

 private:
  std::string parameter_;
};

/// Merges the digests of a chunk into those of its rank. `answers`: this rank accounts for the
/// chunk. Throws copies_differ.
void merge_digests(state_digests& to, state_digests of_chunk, bool answers);

}  // namespace troupe::runtime
