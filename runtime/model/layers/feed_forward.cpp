#include "runtime/model/layers/feed_forward.hpp"

#include "runtime/model/layers/linear.hpp"

namespace troupe::runtime {

int add(module_builder& to, const feed_forward_spec& x) {
  const auto sections = kernels::fan_in(x.gated);
  const auto fc1 = add_linear(to,
                              {.name = "linear_fc1",
                               .outputs = x.ffn * sections,
                               .inputs = x.hidden,
                               .init_std = x.init_std,
                               .bias = x.bias,
                               .placement = row_sharded(int(sections))});
  const auto fc2 = add_linear(to,
                              {.name = "linear_fc2",
                               .outputs = x.hidden,
                               .inputs = x.ffn,
                               .init_std = x.output_init_std,
                               .bias = x.bias,
                               .placement = column_sharded()});
  to.segment("fc1", [fc1, kind = x.activation, gated = x.gated](tape& tape, pass& p) {
    p.x = fc1(tape, p.x, kernels::epilogue_of(kind, gated));
    if (gated)
      p.x = activation(tape, p.x, kind, gated);
  });
  to.segment("fc2", [fc2](tape& tape, pass& p) { p.x = fc2(tape, p.x); });
  return fc2.late_bias;
}

module_traits traits_of(const feed_forward_spec& x) {
  return {.width = x.hidden, .kind = recompute_module::feed_forward};
}

module_flops forward_flops(const feed_forward_spec& x, std::int64_t T) {
  return {.parameters = 2 * double(T) * double(x.hidden) * double(x.ffn)
                        * double(kernels::fan_in(x.gated) + 1)};
}

}  // namespace troupe::runtime
