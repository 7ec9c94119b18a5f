#include "runtime/layout/axis.hpp"

namespace troupe::runtime {

const std::array<axis_row, axes>& axis_table() {
  using enum axis_use;
  static constexpr std::array<axis_row, axes> table = {{
      {axis::tensor, "tp", "tp", "tensor", model, none},
      {axis::context, "cp", "cp", "context", sequence, none},
      {axis::expert, "ep", "ep", "expert", none, model},
      {axis::expert_tensor, "etp", "tp", "expert tensor", none, model},
      {axis::data, "dp", "dp", "data", data, none},
      {axis::expert_data, "edp", "dp", "expert data", none, data},
      {axis::pipeline, "pp", "pp", "pipeline", none, none},
      {axis::copy, "copy", "", "copy", none, none},
  }};
  return table;
}

std::string short_name(const axis_set& x) {
  std::string out;
  for (const auto& row : axis_table())
    if (x.has(row.id))
      out.append(out.empty() ? "" : "-").append(row.name);
  return out;
}

}  // namespace troupe::runtime
