#include "runtime/model/layers/experts.hpp"

#include "runtime/autograd/parts.hpp"
#include "runtime/autograd/route.hpp"
#include "runtime/core/error.hpp"
#include "runtime/model/layers/feed_forward.hpp"
#include "runtime/model/layers/linear.hpp"
#include "runtime/tensor/moves.hpp"

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// Content of pass::own: the exchange of the rows of one micro-batch.
struct exchange_of_pass {
  shape rows;                              ///< extents of the module's input
  expert_choice choice;                    ///< until `counts`
  std::shared_ptr<const row_exchange> by;  ///< from `counts` on
};

const exchange_of_pass& exchange_in(const pass& p) {
  return *std::static_pointer_cast<const exchange_of_pass>(p.own);
}

/// The same elements with other extents.
variable viewed(variable x, const shape& extents) {
  x.data = x.data.view(extents);
  return x;
}

/// A product of experts with registered parameters.
struct expert_product {
  product kind = product::column;
  std::int64_t experts = 0, features = 0;  ///< on this rank
  int weight = no_parameter;

  variable operator()(tape& tape, const pass& p, const variable& x) const {
    return grouped_linear(tape,
                          x,
                          kind,
                          exchange_in(p).by->groups,
                          experts,
                          features,
                          weight,
                          no_parameter,
                          !p.unread);
  }
};

/// (E, outputs, inputs). Along the expert tensor axis outputs are sharded in `sections` parts, or
/// inputs with 0 sections.
expert_product add_product(module_builder& to,
                           const char* name,
                           const experts_spec& x,
                           std::int64_t outputs,
                           std::int64_t inputs,
                           double init_std,
                           std::int64_t sections) {
  const bool by_outputs = sections > 0;
  return {.kind = by_outputs ? product::column : product::row,
          .experts = x.router.experts / to.ranks(axis::expert),
          .features = by_outputs ? outputs / to.ranks(axis::expert_tensor) : outputs,
          .weight = to.add(
              {.name = std::string("experts.") + name + ".weight",
               .extents = {x.router.experts, outputs, inputs},
               .initial = distribution::normal(init_std),
               .decays = true,
               .stacked = true,
               .placements = of_experts(
                   {{axis::expert, row_sharded()},
                    {axis::expert_tensor,
                     by_outputs ? parameter_placement{.dimension = 1, .sections = int(sections)}
                                : parameter_placement{.dimension = 2}}})})};
}

linear_layer add_projection(module_builder& to,
                            const char* name,
                            const experts_spec& x,
                            std::int64_t outputs,
                            std::int64_t inputs,
                            double init_std) {
  if (x.latent == 0)
    return {};
  return add_linear(
      to,
      {.name = name, .outputs = outputs, .inputs = inputs, .init_std = init_std, .placement = {}});
}

/// Multiplies the rows of x by sigmoid(input weight^T): the weight of a single expert.
variable gated(tape& tape, const pass& p, const variable& x, const variable& input, int weight) {
  const auto C = channels_of(x.data), R = x.data.size() / C;
  const auto logits = gate(tape, input, p.rows, 1, weight);
  const auto found = route(
      tape, logits, p.rows, {.rules = {.E = 1, .k = 1, .score = kernels::route_score::sigmoid}});
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(R));
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto each = uploaded(tape.stream(), numbers, {R});
  const auto column = shape{R, 1};
  return viewed(unpermute(tape, x, {each, each.view(column)}, viewed(found.weights, column)),
                x.data.extents());
}

/// The segments after `combine`: pass::x is the input of the module, local "routed" the output of
/// its experts.
void add_shared(module_builder to, const experts_spec& x) {
  add(to,
      feed_forward_spec{.hidden = x.hidden,
                        .ffn = x.shared_ffn,
                        .activation = x.activation,
                        .gated = x.gated,
                        .init_std = x.init_std,
                        .output_init_std = x.output_init_std});
  const int weight = x.shared_gate ? to.add({.name = "gate_weight",
                                             .extents = {1, x.hidden},
                                             .initial = distribution::normal(x.init_std),
                                             .decays = true,
                                             .keep_f32 = true})
                                   : no_parameter;
  to.segment("sum", [weight](tape& tape, pass& p) {
    auto shared = reduce_from_tensor_region(tape, std::exchange(p.x, {}));
    if (weight >= 0)
      shared = gated(tape, p, shared, p.take("input"), weight);
    p.x = dropout_add(tape, shared, p.take("routed"), 0, 0, p.rows);
  });
}

void require_ranks(const module_builder& to, const experts_spec& x) {
  const auto expert = to.ranks(axis::expert), tensor = to.ranks(axis::expert_tensor);
  if (x.router.experts % expert != 0)
    throw input_error("{} expert ranks cannot share {} experts evenly", expert, x.router.experts);
  if (x.ffn % tensor != 0)
    throw input_error(
        "{} expert tensor ranks cannot share experts of width {} evenly", tensor, x.ffn);
}

}  // namespace

int add(module_builder& to, const experts_spec& x) {
  require_ranks(to, x);
  const auto width = x.latent == 0 ? x.hidden : x.latent;
  const auto sections = kernels::fan_in(x.gated);
  const auto router = add_router(to.within("router"), x.router, x.hidden, x.init_std);
  const auto down = add_projection(to, "fc1_latent_proj", x, x.latent, x.hidden, x.init_std);
  const auto fc1 = add_product(to, "linear_fc1", x, sections * x.ffn, width, x.init_std, sections);
  const auto fc2 = add_product(to, "linear_fc2", x, width, x.ffn, x.output_init_std, 0);
  const auto up = add_projection(to, "fc2_latent_proj", x, x.hidden, x.latent, x.output_init_std);
  const bool latent = x.latent > 0, shared = x.shared_ffn > 0;
  to.segment("router", [=](tape& tape, pass& p) {
    const auto input = std::exchange(p.x, {});
    auto found = router(tape, p, input);
    p.locals["weights"] = std::move(found.weights);
    p.own = std::make_shared<const exchange_of_pass>(
        exchange_of_pass{input.data.extents(), std::move(found.choice), nullptr});
    if (shared)
      p.locals["input"] = input;
    p.x = latent ? down(tape, input) : input;
  });
  to.segment("counts", [](tape& tape, pass& p) {
    const auto& now = exchange_in(p);
    p.own = std::make_shared<const exchange_of_pass>(exchange_of_pass{
        now.rows,
        {},
        rows_of_experts(tape, now.choice, {p.settings.gathers_rows, p.settings.expert_load})});
  });
  to.segment("dispatch", [](tape& tape, pass& p) {
    auto there = dispatch(tape, p.x, p.take("weights"), exchange_in(p).by);
    p.x = std::move(there.rows);
    p.locals["weights"] = std::move(there.weights);
  });
  to.segment("gather", [](tape& tape, pass& p) {
    const auto& by = exchange_in(p).by;
    p.x = gather_rows(tape, p.x, by);
    p.locals["weights"] = gather_rows(tape, p.take("weights"), by);
  });
  to.segment("fc1", [fc1](tape& tape, pass& p) { p.x = fc1(tape, p, p.x); });
  // The second product too: it keeps the output of the activation.
  constexpr auto part = recompute_module::expert_activation;
  to.segment("act", part, [kind = x.activation, gated = x.gated](tape& tape, pass& p) {
    p.x = weighted_activation(tape, p.x, p.take("weights"), kind, gated);
  });
  to.segment("fc2", part, [fc2](tape& tape, pass& p) { p.x = fc2(tape, p, p.x); });
  to.segment("scatter",
             [](tape& tape, pass& p) { p.x = scatter_rows(tape, p.x, exchange_in(p).by); });
  to.segment("combine", [=, has_gate = x.shared_gate](tape& tape, pass& p) {
    const auto rows = exchange_in(p).rows;
    p.x = combine(tape, p.x, exchange_in(p).by);
    p.own = nullptr;
    p.x = viewed(latent ? up(tape, p.x) : p.x, rows);
    if (!shared)
      return;
    p.locals["routed"] = std::exchange(p.x, {});
    p.x = has_gate ? p.locals.at("input") : p.take("input");
  });
  if (shared)
    add_shared(to.within("shared_experts", recompute_module::shared_experts), x);
  return no_parameter;
}

module_traits traits_of(const experts_spec& x) {
  return {.width = x.hidden,
          .kind = recompute_module::experts,
          .reads
          = x.router.reads_tokens ? std::vector<std::string>{"tokens"} : std::vector<std::string>(),
          .losses = losses_of(x.router, x.layers)};
}

module_flops forward_flops(const experts_spec& x, std::int64_t T) {
  const auto rows = double(T), C = double(x.hidden), latent = double(x.latent);
  const auto width = x.latent == 0 ? C : latent;
  const auto products = double(kernels::fan_in(x.gated) + 1);
  const auto of_row = double(x.router.chosen) * width * double(x.ffn) * products
                      + double(x.shared_ffn) * C * products + 2 * C * latent;
  return {.parameters = 2 * rows * of_row};
}

}  // namespace troupe::runtime
