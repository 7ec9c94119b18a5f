// A chunk: units [first, end) of a model.
//
// Its program is a list of segments; a new segment starts wherever a collective may run. A chunk
// knows its position on the model's axes, but not the ranks of the mesh or the hosts.

#pragma once

#include "runtime/model/liveness.hpp"
#include "runtime/model/segment.hpp"

#include <vector>

namespace troupe::runtime {

class chunk {
 public:
  /// Builds this rank's shard of each tensor that an axis splits. Sequence parallelism (Korthikanti
  /// et al., 2022) shards rows of the residual stream over tensor ranks. Breaks MODEL-1 or MODEL-2
  /// if parts of the model do not fit together.
  chunk(model_spec model,
        const chunk_range& range,
        const axis_ranks& ranks = {},
        bool sequence_parallel = false);
  chunk(const chunk&) = delete;  // passes refer to it
  chunk& operator=(const chunk&) = delete;

  const model_spec& model() const { return model_; }
  const chunk_range& range() const { return range_; }
  const chunk_flow& flow() const { return flow_; }
  const axis_ranks& axes() const { return ranks_; }
  int tensor_ranks() const { return ranks_[axis::tensor].size; }
  bool sequence_parallel() const { return sequence_parallel_; }
  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<segment>& program() const { return program_; }
  /// What decoding keeps of each token, in execution order: the extents of an entry of each cache.
  const std::vector<shape>& caches() const { return caches_; }
  /// The unit that a cache belongs to.
  int unit_of_cache(std::size_t cache) const { return cache_units_.at(cache); }

  /// The stream that a unit works on.
  const std::string& stream_of(int unit) const { return of_model(unit).stream; }
  /// Streams that no unit after this one needs, in this chunk or a later one.
  const std::vector<std::string>& ended_by(int unit) const { return ended_[std::size_t(unit)]; }
  /// The unit whose I is the last to read this unit's values: its own number for one that ends its
  /// stream, that of the first tied unit for a table. no_unit: they are in use until `emit`, or the
  /// forward pass reads them last (unit_spec::read_backward).
  int read_until(int unit) const { return read_until_[std::size_t(unit)]; }
  static constexpr int no_unit = -1;

 private:
  const model_unit& of_model(int unit) const {
    return model_.units[std::size_t(range_.first) + std::size_t(unit)];
  }
  void add_unit(const model_unit& x);
  void note_ties();  ///< breaks MODEL-1 if the extents differ
  void note_last_reads();

  model_spec model_;
  chunk_range range_;
  chunk_flow flow_;
  axis_ranks ranks_;
  bool sequence_parallel_;
  std::vector<shape> caches_;
  std::vector<int> cache_units_;
  std::vector<unit_spec> units_;
  std::vector<segment> program_;
  std::vector<std::vector<std::string>> ended_;
  std::vector<int> read_until_;
};

}  // namespace troupe::runtime
