// A module with local variables: several results of a segment that later segments read.
//
//   norm                       experts
//   begin    x -> x, skip      experts             two names of one variable
//   fc1                        experts
//   act      x -> x, twin      expert_activation   two names of one variable
//   fc2      x -> x, b, c      experts             three products of it
//   combine  skip + x + b + c  experts             the sum stays in "routed"
//   shared   skip -> x         shared_experts      a feed-forward layer
//   add      x + routed        shared_experts      complete along the tensor axis

#pragma once

#include "runtime/model/layers/linear.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <memory>
#include <stdexcept>
#include <utility>

namespace troupe::tests {

struct several_variables {
  std::int64_t hidden = 0, ffn = 0;
};

inline void add(runtime::module_builder& to, const several_variables& x) {
  using runtime::pass, runtime::tape, runtime::variable;
  using kind = runtime::recompute_module;
  const auto product = [&](const char* name, bool outputs_sharded) {
    return add_linear(
        to,
        {.name = name,
         .outputs = outputs_sharded ? x.ffn : x.hidden,
         .inputs = outputs_sharded ? x.hidden : x.ffn,
         .init_std = 0.02,
         .placement = outputs_sharded ? runtime::row_sharded() : runtime::column_sharded()});
  };
  const auto fc1 = product("fc1", true), shared1 = product("shared1", true);
  const auto fc2 = product("fc2", false), fc2_b = product("fc2_b", false),
             fc2_c = product("fc2_c", false), shared2 = product("shared2", false);
  constexpr auto gelu = kernels::activation::gelu_tanh;
  const auto sum = [](tape& on, const pass& p, const variable& a, const variable& b) {
    return dropout_add(on, a, b, 0, 0, p.rows);
  };
  const auto check_own = [](const pass& p) {
    if (p.own == nullptr || *std::static_pointer_cast<const int>(p.own) != 17)
      throw std::logic_error("a segment lacks the own data of its module");
  };
  to.segment("begin", [](tape&, pass& p) {
    p.own = std::make_shared<const int>(17);
    p.locals["skip"] = p.x;
  });
  to.segment("fc1", [=](tape& on, pass& p) { p.x = fc1(on, p.x); });
  to.segment("act", kind::expert_activation, [=](tape& on, pass& p) {
    check_own(p);
    p.x = activation(on, p.x, gelu);
    p.locals["twin"] = p.x;
  });
  // Readers of both names in turn: the order of their gradients' sum shows in its bits.
  to.segment("fc2", [=](tape& on, pass& p) {
    p.locals["b"] = fc2_b(on, p.locals.at("twin"));
    p.x = fc2(on, p.x);
    p.locals["c"] = fc2_c(on, p.take("twin"));
  });
  to.segment("combine", [=](tape& on, pass& p) {
    check_own(p);
    p.own = nullptr;
    const auto a = reduce_from_tensor_region(on, std::exchange(p.x, {}));
    const auto b = reduce_from_tensor_region(on, p.take("b"));
    const auto c = reduce_from_tensor_region(on, p.take("c"));
    p.x = p.take("skip");
    p.locals["routed"] = sum(on, p, c, sum(on, p, b, sum(on, p, a, p.x)));
  });
  to.segment("shared", kind::shared_experts, [=](tape& on, pass& p) {
    p.x = shared2(on, shared1(on, p.x, kernels::epilogue_of(gelu)));
  });
  to.segment("add", kind::shared_experts, [=](tape& on, pass& p) {
    const auto shared = reduce_from_tensor_region(on, std::exchange(p.x, {}));
    p.x = sum(on, p, shared, p.take("routed"));
  });
}

inline runtime::module_traits traits_of(const several_variables& x) {
  return {.width = x.hidden, .kind = runtime::recompute_module::experts};
}

/// The model of a configuration with this module as the second sublayer of each layer.
inline runtime::model_spec with_several_variables(const runtime::gpt_config& c) {
  auto out = runtime::gpt_spec(c);
  for (std::size_t l = 0; l < std::size_t(c.layers); ++l)
    out.part<runtime::layer_spec>(l).sublayers.at(1).get_if<runtime::residual_sublayer>()->body
        = several_variables{c.hidden, c.ffn};
  return out;
}

/// Recomputes a mixture of experts, or parts of it.
inline runtime::recompute_settings recomputed_experts(bool experts, bool activation, bool shared) {
  return {.granularity = runtime::recompute_granularity::selective,
          .core_attention = false,
          .experts = experts,
          .expert_activation = activation,
          .shared_experts = shared};
}

}  // namespace troupe::tests
