// A linear layer, whole or sharded over tensor ranks. Shoeybi et al.: "Megatron-LM", 2019.

#pragma once

#include "runtime/model/layers/module_builder.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct linear_spec {
  std::string name;                      ///< name within its module: "linear_qkv"
  std::int64_t outputs = 0, inputs = 0;  ///< features over all ranks
  double init_std = 0;
  bool bias = false;
  /// row_sharded shards output features (Megatron's column-parallel layer); column_sharded shards
  /// input features (its row-parallel layer); otherwise every rank has the whole layer.
  parameter_placement placement = row_sharded();
  std::vector<std::int64_t> row_kinds = {};  ///< see parameter_spec
  std::vector<double> kind_factors = {};     ///< see parameter_spec
  bool all_rows = false;  ///< of a whole layer: each tensor rank has all of its rows
};

/// A layer with a bias that reads one row of each text. Each tensor rank has all of it.
inline linear_spec linear_of_texts(std::string name,
                                   std::int64_t outputs,
                                   std::int64_t inputs,
                                   double init_std) {
  return {.name = std::move(name),
          .outputs = outputs,
          .inputs = inputs,
          .init_std = init_std,
          .bias = true,
          .placement = {},
          .all_rows = true};
}

/// A linear layer with registered parameters. The placement of the weight determines the collective
/// before the product.
struct linear_layer {
  product kind = product::column;
  std::int64_t features = 0;  ///< outputs on this rank
  int weight = no_parameter, bias = no_parameter;
  /// Bias of a layer with sharded inputs. The caller adds it once, after the sum over ranks.
  /// no_parameter if the product adds the bias.
  int late_bias = no_parameter;

  /// (.., inputs) -> (.., outputs).
  ///
  /// sharded outputs: x is replicated or sequence_sharded, and is copied to the tensor region
  /// sharded inputs:  x is feature_sharded, and the result is partial
  /// a whole layer:   x is replicated or sequence_sharded, as the result; with all_rows replicated
  variable operator()(tape& tape,
                      const variable& x,
                      kernels::epilogue activation = kernels::epilogue::none) const;
};

/// Adds parameters "<name>.weight" (outputs, inputs) and, with a bias, "<name>.bias".
linear_layer add_linear(module_builder& to, const linear_spec& x);

}  // namespace troupe::runtime
