// Which of a state's arrays a digest is of, as a value: who has the arrays alone takes the digests
// of the state from them (runtime/trainer/state_check.hpp).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A range of a parameter, and what the optimizer's rule keeps of it.
struct digested_part {
  std::string parameter = {};
  bool repeated = false;              ///< another rank answers for it: state_digests::copies
  std::int64_t shard = 0;             ///< of the parameter, that the range is in
  std::int64_t begin = 0, end = 0;    ///< of the shard's elements
  std::vector<std::int64_t> at = {};  ///< where each array of the rule begins, in elements

  friend bool operator==(const digested_part&, const digested_part&) = default;
};

/// Of one chunk, in the order of its own weights.
struct digested_chunk {
  std::int64_t grain = 0;  ///< elements
  bool answers = true;     ///< the rank answers for what it has of the chunk
  std::vector<digested_part> parts = {};

  friend bool operator==(const digested_chunk&, const digested_chunk&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, digested_part& x) {
  return f(x.parameter, x.repeated, x.shard, x.begin, x.end, x.at);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, digested_chunk& x) {
  return f(x.grain, x.answers, x.parts);
}

}  // namespace troupe::runtime
