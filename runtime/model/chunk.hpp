// A chunk: layers [first, end) of a model, with the embedding or the head if they belong to it.
//
// Its program is a list of segments; a new segment starts wherever a collective may run. A chunk
// knows its position on the model's axes, but not the ranks of the mesh or the hosts.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/model/model_spec.hpp"
#include "runtime/model/segment.hpp"

#include <vector>

namespace troupe::runtime {

/// Selects a part of a model.
struct chunk_range {
  std::int64_t first = 0;  ///< first layer
  std::int64_t end = 0;
  bool embedding = false;
  bool head = false;

  friend bool operator==(const chunk_range&, const chunk_range&) = default;

  static constexpr auto fields() {
    using x = chunk_range;
    return std::tuple(row("first", &x::first),
                      row("end", &x::end),
                      row("embedding", &x::embedding),
                      row("head", &x::head));
  }
};

/// The whole model.
chunk_range all_of(const model_spec& model);

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
  const axis_ranks& axes() const { return ranks_; }
  int tensor_ranks() const { return ranks_[axis::tensor].size; }
  bool sequence_parallel() const { return sequence_parallel_; }
  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<segment>& program() const { return program_; }
  /// Attention layers in execution order; decoding keeps one cache for each.
  const std::vector<attention_spec>& attentions() const { return attentions_; }

 private:
  /// Adds a unit called `name` for `spec`. The names of its parameters start with `prefix`.
  template <class Spec>
  void add_unit(std::string name, const std::string& prefix, std::int64_t layer, const Spec& spec);

  model_spec model_;
  chunk_range range_;
  axis_ranks ranks_;
  bool sequence_parallel_;
  std::vector<attention_spec> attentions_;
  std::vector<unit_spec> units_;
  std::vector<segment> program_;
};

}  // namespace troupe::runtime
