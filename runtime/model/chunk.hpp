// A chunk: layers [first, end) of a model, with the embedding or the head where they belong.
//
// Its program is a list of segments, cut wherever a collective may stand. It knows its places on
// the axes of the model; ranks of the mesh and machines it does not know.

#pragma once

#include "runtime/model/model_spec.hpp"
#include "runtime/model/segment.hpp"

#include <vector>

namespace troupe::runtime {

/// Which part of the model.
struct chunk_range {
  std::int64_t first = 0;  ///< layer
  std::int64_t end = 0;
  bool embedding = false;
  bool head = false;

  friend bool operator==(const chunk_range&, const chunk_range&) = default;
};

/// All of a model.
chunk_range all_of(const model_spec& model);

class chunk {
 public:
  /// Of what axes cut, the part of the rank that is so on each. With sequence parallelism
  /// (Korthikanti et al., 2022) rows of the residual stream are sharded over tensor ranks.
  /// Broken promise MODEL-1 or MODEL-2 where parts of the model do not fit each other.
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
  /// What attends, in the order in which it runs: decoding keeps a cache for each.
  const std::vector<attention_spec>& attentions() const { return attentions_; }

 private:
  /// A unit of what `spec` describes, called `name`; its parts are called `prefix` and more.
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
