#include "runtime/model/layers/linear.hpp"

namespace troupe::runtime {

variable linear_layer::operator()(tape& tape,
                                  const variable& x,
                                  kernels::epilogue activation) const {
  return linear(tape,
                kind == product::column ? copy_to_tensor_region(tape, x) : x,
                kind,
                features,
                weight,
                bias,
                activation);
}

linear_layer add_linear(module_builder& to, const linear_spec& x) {
  const bool outputs_sharded = x.placement.dimension == 0;
  linear_layer out{.kind = outputs_sharded         ? product::column
                           : x.placement.sharded() ? product::row
                                                   : product::whole,
                   .features = outputs_sharded ? x.outputs / to.tensor_ranks() : x.outputs};
  out.weight = to.add({.name = x.name + ".weight",
                       .extents = {x.outputs, x.inputs},
                       .initial = distribution::normal(x.init_std),
                       .decays = true,
                       .placements = {{axis::tensor, x.placement}},
                       .row_kinds = x.row_kinds,
                       .kind_factors = x.kind_factors},
                      x.all_rows);
  if (!x.bias)
    return out;
  parameter_spec bias{.name = x.name + ".bias", .extents = {x.outputs}};
  if (outputs_sharded)  // each row of the weight has one element of the bias
    bias.placements[axis::tensor] = x.placement;
  const int added = to.add(std::move(bias), x.all_rows);
  (out.kind != product::row || to.tensor_ranks() == 1 ? out.bias : out.late_bias) = added;
  return out;
}

}  // namespace troupe::runtime
