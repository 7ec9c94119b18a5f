#include "runtime/layout/axis.hpp"

namespace troupe::runtime {

const std::array<axis_row, axes>& axis_table() {
  using enum axis_use;
  static constexpr std::array<axis_row, axes> table = {{
      {axis::tensor, "tp", "tp", model, none},
      {axis::context, "cp", "cp", model, none},
      {axis::expert, "ep", "ep", none, model},
      {axis::expert_tensor, "etp", "tp", none, model},
      {axis::data, "dp", "dp", data, none},
      {axis::expert_data, "edp", "dp", none, data},
      {axis::pipeline, "pp", "pp", none, none},
      {axis::copy, "copy", "", none, none},
  }};
  return table;
}

}  // namespace troupe::runtime
