// A matrix product with its weight and bias, whole or sharded over tensor ranks. Shoeybi et al.:
// "Megatron-LM", 2019.

#pragma once

#include "runtime/model/layers/module_builder.hpp"

namespace troupe::runtime {

struct linear_spec {
  std::string name;                      ///< in its module: "linear_qkv"
  std::int64_t outputs = 0, inputs = 0;  ///< features, of all ranks
  double init_std = 0;
  bool bias = false;
  /// row_sharded (Megatron's column-parallel layer: output features are sharded), or column_sharded
  /// (its row-parallel layer: input features are).
  parameter_placement placement = row_sharded();
  std::vector<std::int64_t> row_kinds = {};  ///< as in parameter_spec
};

/// What a product is called by once its parameters are there. Which collective stands before it
/// follows from the placement of its weight.
struct linear_layer {
  product kind = product::column;
  std::int64_t features = 0;  ///< outputs on this rank
  int weight = no_parameter, bias = no_parameter;
  /// Of input features that are sharded, the bias: it is added once, to the sum over the ranks,
  /// which the caller makes. None where the product adds it.
  int late_bias = no_parameter;

  /// (.., inputs) -> (.., outputs). Of sharded outputs: x is replicated or sequence_sharded, and
  /// copied to the tensor region. Of sharded inputs: x is feature_sharded, the result partial.
  variable operator()(tape& tape,
                      const variable& x,
                      kernels::epilogue activation = kernels::epilogue::none) const;
};

/// Parameters "<name>.weight" (outputs, inputs) and, if it has one, "<name>.bias".
linear_layer add_linear(module_builder& to, const linear_spec& x);

}  // namespace troupe::runtime
