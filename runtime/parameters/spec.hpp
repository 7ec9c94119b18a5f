// What parameters there are, before there is memory for them, and how they lie along each axis.

#pragma once

#include "runtime/layout/axis.hpp"
#include "runtime/tensor/box.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// How a parameter lies along one axis. Shoeybi et al.: "Megatron-LM", 2019.
struct parameter_placement {
  int dimension = -1;  ///< that is cut, a consecutive part for each rank; -1: every rank has all
  int sections = 1;    ///< rows are cut within each of so many equal sections: gate and linear
  /// Every rank has all of it, but of its gradient a part: gradients are a sum along the axis.
  bool partial_gradient = false;

  bool sharded() const { return dimension >= 0; }
  friend bool operator==(const parameter_placement&, const parameter_placement&) = default;
};

/// Of products whose output features are sharded, of vocabularies, of experts.
constexpr parameter_placement row_sharded(int sections = 1) {
  return {.dimension = 0, .sections = sections};
}
/// Of products whose input features are sharded.
constexpr parameter_placement column_sharded() {
  return {.dimension = 1};
}
/// Each rank has seen its own rows, heads or samples.
constexpr parameter_placement partial_gradient() {
  return {.partial_gradient = true};
}

/// Which axes a parameter goes by: those of layers, or those of experts.
enum class axis_view : std::uint8_t { dense, experts };

/// How a parameter lies along every axis. Where nothing is said it is replicated, and its gradient
/// is a sum over the replicas of its view.
class parameter_placements {
 public:
  parameter_placements()
      : parameter_placements(std::initializer_list<std::pair<axis, parameter_placement>>()) {}
  parameter_placements(std::initializer_list<std::pair<axis, parameter_placement>> some,
                       axis_view view = axis_view::dense);

  const parameter_placement& operator[](axis a) const { return along_[a]; }
  parameter_placement& operator[](axis a) { return along_[a]; }
  axis_view view() const { return view_; }
  /// How its view uses the axis.
  axis_use use(axis a) const;
  /// Axes of this use along which its gradients are a sum.
  std::vector<axis> sums(axis_use use) const;

 private:
  axis_map<parameter_placement> along_;
  axis_view view_;
};

/// Of a parameter of experts: nothing is sharded or summed along the axes of dense layers.
parameter_placements of_experts(std::initializer_list<std::pair<axis, parameter_placement>> some);

struct parameter_spec {
  std::string name;          ///< full and unsharded, e.g. "decoder.layers.3.mlp.linear_fc1.weight"
  shape extents;             ///< unsharded, padding rows included
  double init_std = 0;       ///< normal numbers with this deviation ...
  double init_constant = 0;  ///< ... or, where that is 0, this value
  bool decays = false;       ///< weight decay applies: it has two dimensions or more
  bool embedding_or_output = false;  ///< of the words: the embedding, the output layer
  std::int64_t valid_rows = -1;      ///< rows from here on are padding, always zero; -1: none
  std::string tied_to = {};  ///< the parameter whose values these are; the gradient is its own
  bool has_copies = false;   ///< others are tied to it
  parameter_placements placements = {};
  /// Rows of each kind in a group of rows, of which it has several: those of queries, of keys and
  /// of values. Empty: they are all of one kind.
  std::vector<std::int64_t> row_kinds = {};
};

/// What is acquired, released and emitted together: a layer, the embedding, the head.
struct unit_spec {
  std::string name;
  std::vector<parameter_spec> parameters;
  /// Backward passes of this chunk read its values, or what they compute again does.
  bool read_backward = true;
};

/// What of a parameter lies on a rank, padding rows included. Broken promise PARAMETER-1 unless
/// each axis divides what it cuts, and sections are of rows.
shape local_extents(const parameter_spec& x, const axis_ranks& ranks);

/// The same as boxes of the unsharded parameter without padding rows, in the order in which they
/// lie, one after another from the beginning. Padding follows.
std::vector<box> local_boxes(const parameter_spec& x, const axis_ranks& ranks);

/// Number of the part that lies on a rank, among all parts; 0 where nothing is sharded.
int shard_index(const parameter_spec& x, const axis_ranks& ranks);

/// Whether this rank answers for what it holds: of ranks that hold the same the first.
bool answers(const parameter_spec& x, const axis_ranks& ranks);

/// Extents of the unsharded parameter without padding rows: what files and messages speak of.
shape whole_extents(const parameter_spec& x);

}  // namespace troupe::runtime
