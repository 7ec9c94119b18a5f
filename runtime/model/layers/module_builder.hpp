// Adds parameters to a unit and segments to a program: what every module of a model is built by.

#pragma once

#include "runtime/model/segment.hpp"
#include "runtime/parameters/spec.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct attention_spec;

/// The unit that is being built, and the program that it becomes part of; both outlive the builder.
struct unit_under_construction {
  unit_spec& unit;
  int number = 0;           ///< of the unit in the chunk
  std::int64_t layer = -1;  ///< -1: embedding or head
  axis_ranks ranks = {};
  bool sequence_parallel = false;
  std::vector<attention_spec>& attentions;  ///< of the chunk so far
  std::vector<segment>& program;
};

/// A part of a unit under one name, while a chunk is built.
class module_builder {
 public:
  /// Segments belong to `module` where nothing else is said.
  module_builder(unit_under_construction& in,
                 std::string name,
                 recompute_module module = recompute_module::other)
      : in_(in), name_(std::move(name)), module_(module) {}

  const std::string& name() const { return name_; }  ///< "decoder.layers.3.mlp"; may be empty
  std::int64_t layer() const { return in_.layer; }
  /// Ranks along an axis.
  int ranks(axis along) const { return in_.ranks[along].size; }
  int tensor_ranks() const { return ranks(axis::tensor); }

  /// A part of this one, called name() + "." + `name`.
  module_builder within(const std::string& name,
                        recompute_module module = recompute_module::other) const;

  /// A parameter, called name() + "." + x.name; its index, for the operations. Of one that every
  /// tensor rank has the gradient is partial where rows are sharded. Throws input_error when the
  /// unit has one of that name.
  int add(parameter_spec x);

  /// What runs next, called name() + "." + `name`, or name() where that is empty. What talks to
  /// other ranks stands first in a segment: another tape can run while ranks wait for each other.
  /// `forward` outlives the builder: it captures values. What is returned is there until the next
  /// segment is.
  runtime::segment& segment(const std::string& name, std::function<void(tape&, pass&)> forward);
  runtime::segment& segment(const std::string& name,
                            recompute_module module,
                            std::function<void(tape&, pass&)> forward);

  /// Tells the chunk of an attention; its number, which is that of its cache in decoding.
  std::size_t add_attention(const attention_spec& x);

 private:
  std::string full(const std::string& name) const;

  unit_under_construction& in_;
  std::string name_;
  recompute_module module_;
};

}  // namespace troupe::runtime
