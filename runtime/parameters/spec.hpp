// What parameters there are, before there is memory for them.

#pragma once

#include "runtime/tensor/box.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// How a parameter lies on the tensor axis. Shoeybi et al.: "Megatron-LM", 2019.
enum class cut : std::uint8_t {
  none,     ///< every rank has all of it
  rows,     ///< consecutive rows: products whose output features are sharded, vocabularies
  columns,  ///< consecutive columns: products whose input features are sharded
};

/// Place of a rank on the tensor axis.
struct tensor_seat {
  int rank = 0, size = 1;

  friend bool operator==(const tensor_seat&, const tensor_seat&) = default;
};

struct parameter_spec {
  std::string name;          ///< full and unsharded, e.g. "decoder.layers.3.mlp.linear_fc1.weight"
  shape extents;             ///< unsharded, padding rows included
  double init_std = 0;       ///< normal numbers with this deviation ...
  double init_constant = 0;  ///< ... or, where that is 0, this value
  bool decays = false;       ///< weight decay applies: it has two dimensions or more
  std::int64_t valid_rows = -1;  ///< rows from here on are padding, always zero; -1: none
  std::string tied_to = {};      ///< the parameter whose values these are; the gradient is its own
  bool has_copies = false;       ///< others are tied to it

  cut along = cut::none;
  int sections = 1;  ///< rows are cut within each of so many equal sections: gate and linear
  /// Every tensor rank has all of it, but its gradient from its own rows or heads alone: the
  /// gradients are a sum along the tensor axis.
  bool partial_gradient = false;
};

/// What is acquired, released and emitted together: a layer, the embedding, the head.
struct unit_spec {
  std::string name;
  std::vector<parameter_spec> parameters;
};

/// What of a parameter lies on a rank, padding rows included. Broken promise PARAMETER-1 unless the
/// axis divides the sections.
shape local_extents(const parameter_spec& x, tensor_seat seat);

/// The same as boxes of the unsharded parameter without padding rows, in the order in which they
/// lie, one after another from the beginning. Padding follows.
std::vector<box> local_boxes(const parameter_spec& x, tensor_seat seat);

/// Extents of the unsharded parameter without padding rows: what files and messages speak of.
shape whole_extents(const parameter_spec& x);

/// Elements of the unsharded parameter that are not padding.
inline std::int64_t valid_size(const parameter_spec& x) {
  return whole_extents(x).size();
}

}  // namespace troupe::runtime
