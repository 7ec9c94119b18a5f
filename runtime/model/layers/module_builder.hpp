// Builds modules: adds their parameters to a unit and their segments to a chunk's program.

#pragma once

#include "runtime/model/segment.hpp"
#include "runtime/parameters/spec.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// The unit under construction and its chunk's program; both outlive the builder.
struct unit_under_construction {
  unit_spec& unit;
  int number = 0;           ///< index of the unit in its chunk
  std::int64_t layer = -1;  ///< -1: no layer
  axis_ranks ranks = {};
  bool sequence_parallel = false;
  std::vector<shape>& caches;  ///< of the chunk so far: see module_builder::add_cache
  std::vector<segment>& program;
};

/// Builds the part of a unit with a common name prefix.
class module_builder {
 public:
  /// `module` is the default module of its segments.
  module_builder(unit_under_construction& in,
                 std::string name,
                 recompute_module module = recompute_module::other)
      : in_(in), name_(std::move(name)), module_(module) {}

  const std::string& name() const { return name_; }  ///< "decoder.layers.3.mlp"; may be empty
  std::int64_t layer() const { return in_.layer; }
  /// Number of ranks along an axis.
  int ranks(axis along) const { return in_.ranks[along].size; }
  int tensor_ranks() const { return ranks(axis::tensor); }

  /// A builder for a part, called name() + "." + `name`.
  module_builder within(const std::string& name,
                        recompute_module module = recompute_module::other) const;

  /// Adds a parameter called name() + "." + x.name and returns its index. With sequence
  /// parallelism, the gradient of a parameter that all tensor ranks share becomes partial, unless
  /// each rank uses it for `all_rows`. Throws input_error for a duplicate name.
  int add(parameter_spec x, bool all_rows = false);

  /// Appends a segment called name() + "." + `name`, or name() if `name` is empty. A collective
  /// must come first in its segment, so that another tape can run while ranks wait for each other;
  /// only that of a loss follows its product. `forward` outlives the builder: capture by value. The
  /// returned reference is valid until the next call.
  runtime::segment& segment(const std::string& name, std::function<void(tape&, pass&)> forward);
  runtime::segment& segment(const std::string& name,
                            recompute_module module,
                            std::function<void(tape&, pass&)> forward);

  /// Names what decoding keeps of the module: the extents of one token's entry on this rank. An
  /// entry of no elements: the module fills the cache itself, in the first pass. Returns the index
  /// in pass::caches.
  std::size_t add_cache(const shape& entry);

 private:
  std::string full(const std::string& name) const;

  unit_under_construction& in_;
  std::string name_;
  recompute_module module_;
};

}  // namespace troupe::runtime
