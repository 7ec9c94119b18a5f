// Sizes of a whole model: sums over its units.

#pragma once

#include "runtime/model/model_spec.hpp"
#include "runtime/parameters/spec.hpp"
#include "runtime/telemetry/expert_load.hpp"
#include "runtime/tensor/batch_schema.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// The parameters of a unit, for one tensor rank. Builds it, without the rest of the model.
std::vector<parameter_spec> unit_parameters(const model_unit& x);

/// Parameters, tied ones once. Builds each unit: first check the size of a model that a file
/// describes.
std::int64_t parameter_count(const model_spec& model, bool with_padding_rows = false);

/// Floating-point operations of the matrix products of one training step on `samples` sequences,
/// forward and backward: module_flops. A backward pass has twice the products of its forward pass,
/// for the inputs and for the parameters; frozen units have no products for parameters. For GPTs
/// this is Megatron-LM's formula: recomputation is not counted. Each stream has the rows that the
/// schema gives it. It has the sequence length where the schema lacks its positions, which DATA-4
/// refuses.
double training_flops(const model_spec& model, const batch_schema& schema, double samples);

/// The counts of units of the model, by their names. Breaks STEP-12 for another unit.
std::vector<expert_load> loads_of(const model_spec& model,
                                  const std::vector<expert_rows>& counted,
                                  bool with_counts);

}  // namespace troupe::runtime
