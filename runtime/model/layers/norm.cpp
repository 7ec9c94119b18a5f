#include "runtime/model/layers/norm.hpp"

namespace troupe::runtime {

norm_layer add_norm(module_builder& to, const norm_spec& x, std::int64_t size, bool of_heads) {
  const auto add = [&](const char* what, double constant) {
    parameter_spec p{
        .name = x.name + what, .extents = {size}, .initial = distribution::constant(constant)};
    p.placements[axis::tensor].partial_gradient = of_heads && to.tensor_ranks() > 1;
    return to.add(std::move(p));
  };
  norm_layer out{.options = x.options};
  out.gain = add(".weight", 1 - double(x.options.gain_offset));
  if (x.options.kind == kernels::normalization::layer)
    out.bias = add(".bias", 0);
  return out;
}

void add(module_builder& to, const stream_norm& x) {
  const auto run_norm = add_norm(to, x.norm, x.width);
  const auto run = [run_norm, rate = x.dropout, name = to.name() + ".dropout"](auto& tape,
                                                                               pass& p) {
    p.hidden = dropout(tape, run_norm(tape, p), p.dropout_rate(rate), p.dropout_key(name), p.rows);
  };
  to.segment(x.norm.name, run).adds = true;
}

module_traits traits_of(const stream_norm& x) {
  return {.width = x.width};
}

}  // namespace troupe::runtime
