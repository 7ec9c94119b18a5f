// Parameter specifications: shape, initialization and placement along each axis.

#pragma once

#include "runtime/layout/axis.hpp"
#include "runtime/tensor/box.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Placement of a parameter along one axis. Shoeybi et al.: "Megatron-LM", 2019.
struct parameter_placement {
  int dimension = -1;  ///< sharded dimension, in consecutive parts; -1: replicated
  /// Rows are sharded within each of these equal sections (gate, linear); of a stack the rows of
  /// its matrices.
  int sections = 1;
  /// Each rank has the whole parameter but only a partial gradient, which must be summed along the
  /// axis.
  bool partial_gradient = false;

  bool sharded() const { return dimension >= 0; }
  friend bool operator==(const parameter_placement&, const parameter_placement&) = default;
};

/// Placement of products with sharded output features, of vocabularies and of experts.
constexpr parameter_placement row_sharded(int sections = 1) {
  return {.dimension = 0, .sections = sections};
}
/// Placement of products with sharded input features.
constexpr parameter_placement column_sharded() {
  return {.dimension = 1};
}
/// Placement of parameters for which each rank sees different rows, heads or samples.
constexpr parameter_placement partial_gradient() {
  return {.partial_gradient = true};
}

/// Placement of a parameter along every axis. Default: replicated, with a gradient that is summed
/// over the replicas of its view and their sequences.
class parameter_placements {
 public:
  parameter_placements()
      : parameter_placements(std::initializer_list<std::pair<axis, parameter_placement>>()) {}
  parameter_placements(std::initializer_list<std::pair<axis, parameter_placement>> some,
                       axis_view view = axis_view::dense);

  const parameter_placement& operator[](axis a) const { return along_[a]; }
  parameter_placement& operator[](axis a) { return along_[a]; }
  axis_view view() const { return view_; }
  /// How the view uses the axis.
  axis_use use(axis a) const;
  /// Axes along which buckets sum the gradient.
  axis_set sums() const;

  friend bool operator==(const parameter_placements&, const parameter_placements&) = default;

 private:
  axis_map<parameter_placement> along_;
  axis_view view_;
};

/// Placements of expert parameters, which the axes of dense layers do not shard or sum.
parameter_placements of_experts(std::initializer_list<std::pair<axis, parameter_placement>> some);

/// Distribution of initial values. Random ones depend on (seed, name, element).
struct distribution {
  enum class kind : std::uint8_t { constant, normal, uniform, log_uniform };
  kind of = kind::constant;
  double first = 0;  ///< the constant, the lower end, or the deviation around 0
  double last = 0;   ///< the upper end

  static constexpr distribution constant(double value) { return {kind::constant, value}; }
  /// Mean 0. Without a deviation all values are 0.
  static constexpr distribution normal(double deviation) {
    return {deviation == 0 ? kind::constant : kind::normal, deviation};
  }
  /// From `first` to `last`. Rounding to f32 may give `last` itself.
  static constexpr distribution uniform(double first, double last) {
    return {kind::uniform, first, last};
  }
  /// The logarithm is uniform. 0 < first.
  static constexpr distribution log_uniform(double first, double last) {
    return {kind::log_uniform, first, last};
  }
};

/// Statistics of a step that update a parameter. Its gradient holds sums of them over all passes of
/// the step, and the optimizer's rule does not read it. Norms, clipping, zero counts and loss scale
/// leave it out; digests do not.
struct statistic {
  enum class kind : std::uint8_t {
    none,         ///< an ordinary parameter
    expert_bias,  ///< sums of counts; x = x + rate * sign(mean of all elements' sums - sum)
    quantile,     ///< sums of values; x = (1 - rate) * x + rate * sum / passes
  };
  kind of = kind::none;
  double rate = 0;

  friend bool operator==(const statistic&, const statistic&) = default;
};

/// A stack (`stacked`) is a parameter whose first extent counts matrices, such as (E, N, K) of
/// experts. STACK-1: grains, keys of digests and orthogonalization begin anew with each matrix. So
/// norms and digests do not depend on the ranks that share the matrices out.
struct parameter_spec {
  std::string name;  ///< full name, e.g. "decoder.layers.3.mlp.linear_fc1.weight"
  shape extents;     ///< unsharded, including padding rows
  distribution initial = {};
  bool decays = false;               ///< weight decay applies: two or more dimensions
  bool embedding_or_output = false;  ///< word embedding or output layer
  std::int64_t valid_rows = -1;      ///< first padding row; padding is always zero; -1: none
  std::string tied_to = {};          ///< parameter that shares the values; the gradient is separate
  bool has_copies = false;           ///< other parameters are tied to it
  bool frozen = false;     ///< keeps its values: it has no gradient and no state of the optimizer
  bool keep_f32 = false;   ///< its values are f32 in every store; the module casts them
  bool stacked = false;    ///< the first extent counts matrices; no padding rows, no ties
  statistic counted = {};  ///< STATISTIC-1: of a vector with keep_f32
  parameter_placements placements = {};
  /// Rows per kind in a group of rows (queries, keys, values); the parameter has several groups.
  /// Empty: one kind.
  std::vector<std::int64_t> row_kinds = {};
  /// Factors of the initial values of each kind; empty: 1. Only for matrices.
  std::vector<double> kind_factors = {};

  bool is_counted() const { return counted.of != statistic::kind::none; }
};

/// Parameters that are acquired, released and emitted together: a layer, the embedding, the head.
struct unit_spec {
  std::string name;
  std::vector<parameter_spec> parameters;
  /// Backward passes of this chunk, or their recomputation, read the values.
  bool read_backward = true;
};

/// Extents of a rank's shard, including padding rows. Breaks PARAMETER-1 unless each axis divides
/// the extent that it shards, and only rows have sections. Breaks STACK-2 for a stack with padding
/// rows or ties.
shape local_extents(const parameter_spec& x, const axis_ranks& ranks);

/// The rank's shard as boxes of the unsharded parameter, without padding rows. They are stored one
/// after another, and padding follows.
std::vector<box> local_boxes(const parameter_spec& x, const axis_ranks& ranks);

/// Number of the rank's shard among all shards; 0 if the parameter is not sharded. In a stack each
/// matrix has shards of its own: number of the matrix in the model * shards of a matrix + shard.
/// `matrix` counts from the rank's first one.
std::int64_t shard_index(const parameter_spec& x, const axis_ranks& ranks, std::int64_t matrix = 0);

/// The matrices of a rank's shard of a stack. Any other parameter is one matrix.
struct matrix_run {
  std::int64_t first = 0;  ///< number of the first one in the model
  std::int64_t count = 1;
  std::int64_t each = 0;  ///< elements of one, including padding rows

  /// The matrix with this element of the shard, counted from the first one.
  std::int64_t at(std::int64_t element) const { return count == 1 ? 0 : element / each; }
};
matrix_run matrices_of(const parameter_spec& x, const axis_ranks& ranks);

/// The spec of one matrix of a stack: without the first extent. Any other parameter: unchanged.
parameter_spec one_of(const parameter_spec& x);

/// The axis whose ranks hold shards of one matrix: expert_tensor for experts, else tensor.
axis axis_of_matrices(const parameter_spec& x);

/// True for the first of the ranks that hold the same shard and the same gradient without a sum:
/// only it counts the shard in norms and digests. Ranks along axes of sums all answer;
/// seats::counts selects one of them.
bool answers(const parameter_spec& x, const axis_ranks& ranks);

/// Extents of the unsharded parameter without padding rows, as used in files and messages.
shape whole_extents(const parameter_spec& x);

}  // namespace troupe::runtime
