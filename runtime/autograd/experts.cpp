#include "runtime/autograd/experts.hpp"

#include "kernels/op/activation.hpp"
#include "kernels/op/grouped_linear.hpp"
#include "kernels/op/permute.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

std::int64_t slots_of(const row_slots& x) {
  return x.slot.extents()[1];
}

std::int64_t rows_of(const variable& x) {
  return x.data.size() / channels_of(x.data);
}

template <class T>
struct unpermute_node final : node {
  row_slots slots;
  tensor x, weights;  ///< empty without weights
  std::shared_ptr<gradient_slot> dx, dweights, dy;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    if (dweights) {
      auto part = tensor::empty<float>(tape.stream(), weights.extents());
      tape.stream().run(
          kernels::unpermute_backward_weight<T>{.dweight = part.template data<float>(),
                                                .dy = grad.template data<T>(),
                                                .x = x.data<T>(),
                                                .slot = slots.slot.data<std::int32_t>(),
                                                .R = slots.slot.extents()[0],
                                                .C = channels_of(grad),
                                                .slots = slots_of(slots)});
      tape.add(*dweights, std::move(part));
    }
    if (dx)
      tape.add(*dx, permuted(tape, grad, slots, weights));
    x = {};
    weights = {};
    slots = {};
  }
};

template <class T>
variable run_unpermute(tape& tape,
                       const variable& x,
                       const row_slots& slots,
                       const variable& weights) {
  ensure_entries(slots.place.size() == rows_of(x)
                 && (!weights.data || weights.data.extents() == slots.slot.extents()));
  auto y = tape.make(unpermuted(tape, x.data, slots, weights.data), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<unpermute_node<T>>();
    n->slots = slots;
    n->weights = weights.data;
    n->dweights = weights.gradient;
    if (n->dweights)
      n->x = x.data;
    n->dx = x.gradient;
    n->dy = y.gradient;
    tape.record(std::move(n));
  }
  return y;
}

/// Breaks GROUP-1 unless the groups cover `rows` in order, each with one of the experts and
/// sources.
void check(const expert_groups& x, std::int64_t rows, std::int64_t experts, int sources) {
  const auto is_expert = [=](std::int32_t e) { return e >= 0 && e < experts; };
  const auto is_source = [=](std::int32_t s) { return s >= 0 && s < sources; };
  ensure(
      x.offsets.size() == x.experts.size() + 1 && x.offsets.front() == 0 && x.offsets.back() == rows
          && std::is_sorted(x.offsets.begin(), x.offsets.end())
          && std::all_of(x.experts.begin(), x.experts.end(), is_expert)
          && (sources == 1
              || (x.sources.size() == x.experts.size()
                  && std::all_of(x.sources.begin(), x.sources.end(), is_source))),
      "GROUP-1: the groups of a grouped product cover its rows in order, each with an expert and "
      "a source");
}

/// Groups [first, end).
kernels::row_groups on_host(const expert_groups& x, std::size_t first, std::size_t end) {
  return {x.offsets.data() + first, x.experts.data() + first, std::int64_t(end - first)};
}
kernels::row_groups on_host(const expert_groups& x) {
  return on_host(x, 0, x.experts.size());
}

template <class T>
struct grouped_linear_node final : node {
  tensor x;  ///< (R, K)
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< (R, N) between I and W
  std::shared_ptr<const expert_groups> groups;
  std::int64_t R, E, N, K;
  int weight, bias;

  void input_gradients(tape& tape) override {
    grad = std::move(dy->sum);
    if (!dx)
      return;
    auto part = tensor::empty<T>(tape.stream(), x.extents());
    tape.stream().run(kernels::grouped_linear_backward_input<T>{.dx = part.template data<T>(),
                                                                .dy = grad.data<T>(),
                                                                .weight = tape.value<T>(weight),
                                                                .groups = on_host(*groups),
                                                                .R = R,
                                                                .E = E,
                                                                .N = N,
                                                                .K = K});
    tape.add(*dx, std::move(part));
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({weight, bias}))
      return;
    if (tape.sources(weight) == 1)
      return add_groups(tape, 0, groups->experts.size(), 0);
    const auto& sources = groups->sources;
    for (std::size_t first = 0, end = 0; first < sources.size(); first = end) {
      while (end < sources.size() && sources[end] == sources[first])
        ++end;
      add_groups(tape, first, end, sources[first]);
    }
  }

  void add_groups(tape& tape, std::size_t first, std::size_t end, int source) {
    const auto of_weight = tape.place_of_gradient(weight, source),
               of_bias = tape.place_of_gradient(bias, source);
    const auto some = on_host(*groups, first, end);
    tape.stream().run(
        kernels::grouped_linear_backward_weight<T>{.dweight = of_weight.to,
                                                   .dbias = of_bias.to,
                                                   .dy = grad.data<T>(),
                                                   .x = x.data<T>(),
                                                   .groups = some,
                                                   .R = some.offsets[some.G] - some.offsets[0],
                                                   .E = E,
                                                   .N = N,
                                                   .K = K,
                                                   .accumulates = of_weight.accumulates,
                                                   .bias_accumulates = of_bias.accumulates});
  }
};

template <class T>
variable run_grouped(tape& tape,
                     const variable& x,
                     placement result,
                     std::shared_ptr<const expert_groups> groups,
                     std::int64_t E,
                     std::int64_t N,
                     int weight,
                     int bias,
                     bool computes) {
  const std::int64_t K = channels_of(x.data), R = rows_of(x);
  check(*groups, R, E, tape.sources(weight));
  auto y = tensor::empty<T>(tape.stream(), with_channels(x.data.extents(), N));
  if (computes)
    tape.stream().run(
        kernels::grouped_linear_forward<T>{.y = y.template data<T>(),
                                           .x = x.data.data<T>(),
                                           .weight = tape.value<T>(weight),
                                           .bias = bias < 0 ? nullptr : tape.value<T>(bias),
                                           .groups = on_host(*groups),
                                           .R = R,
                                           .E = E,
                                           .N = N,
                                           .K = K,
                                           .row_invariant = tape.stream().row_invariant()});
  auto made = tape.make(std::move(y), x.placements.with(axis::expert_tensor, result));
  if (tape.recording()) {
    auto n = std::make_unique<grouped_linear_node<T>>();
    n->x = x.data;
    n->dx = x.gradient;
    n->dy = made.gradient;
    n->groups = std::move(groups);
    n->R = R;
    n->E = E;
    n->N = N;
    n->K = K;
    n->weight = weight;
    n->bias = bias;
    tape.record(std::move(n));
  }
  return made;
}

template <class T>
struct weighted_activation_node final : node {
  tensor x, weights;
  std::shared_ptr<gradient_slot> dx, dweights, dy;
  kernels::activation kind;
  bool gated;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    auto part = std::move(x);  // its gradient overwrites it
    auto of_weights = tensor::empty<float>(tape.stream(), weights.extents());
    tape.stream().run(
        kernels::activation_backward<T>{.dx = part.data<T>(),
                                        .dy = grad.template data<T>(),
                                        .x = part.data<T>(),
                                        .R = weights.size(),
                                        .N = channels_of(grad),
                                        .kind = kind,
                                        .gated = gated,
                                        .weight = weights.data<float>(),
                                        .dweight = of_weights.template data<float>()});
    weights = {};
    if (dx)
      tape.add(*dx, std::move(part));
    if (dweights)
      tape.add(*dweights, std::move(of_weights));
  }
};

template <class T>
variable run_weighted(
    tape& tape, const variable& x, const variable& weights, kernels::activation kind, bool gated) {
  ensure_entries(weights.data.size() == rows_of(x));
  const auto N = channels_of(x.data) / kernels::fan_in(gated);
  auto y = tensor::empty<T>(tape.stream(), with_channels(x.data.extents(), N));
  tape.stream().run(kernels::activation_forward<T>{.y = y.template data<T>(),
                                                   .x = x.data.data<T>(),
                                                   .R = weights.data.size(),
                                                   .N = N,
                                                   .kind = kind,
                                                   .gated = gated,
                                                   .weight = weights.data.data<float>()});
  auto result = tape.make(std::move(y), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<weighted_activation_node<T>>();
    n->x = x.data;
    n->weights = weights.data;
    n->dx = x.gradient;
    n->dweights = weights.gradient;
    n->dy = result.gradient;
    n->kind = kind;
    n->gated = gated;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

tensor permuted(tape& tape, const tensor& x, const row_slots& slots, const tensor& weights) {
  const auto C = channels_of(x);
  return with_element(x.type(), [&]<class T>(T) {
    auto y = tensor::empty<T>(tape.stream(), {slots.place.size(), C});
    tape.stream().run(kernels::permute<T>{.y = y.template data<T>(),
                                          .x = x.data<T>(),
                                          .place = slots.place.data<std::int32_t>(),
                                          .weight = weights.data<float>(),
                                          .S = slots.place.size(),
                                          .C = C,
                                          .slots = slots_of(slots)});
    return y;
  });
}

tensor unpermuted(tape& tape, const tensor& x, const row_slots& slots, const tensor& weights) {
  const auto C = channels_of(x), R = slots.slot.extents()[0];
  return with_element(x.type(), [&]<class T>(T) {
    auto y = tensor::empty<T>(tape.stream(), {R, C});
    tape.stream().run(kernels::unpermute<T>{.y = y.template data<T>(),
                                            .x = x.data<T>(),
                                            .slot = slots.slot.data<std::int32_t>(),
                                            .weight = weights.data<float>(),
                                            .R = R,
                                            .C = C,
                                            .slots = slots_of(slots)});
    return y;
  });
}

variable permute(tape& tape, const variable& x, const row_slots& slots) {
  ensure_entries(slots.slot.extents()[0] == rows_of(x));
  auto y = tape.make(permuted(tape, x.data, slots), x.placements);
  if (x.gradient)
    tape.record([dx = x.gradient, dy = y.gradient, slots](auto& on) {
      const auto grad = std::move(dy->sum);
      on.add(*dx, unpermuted(on, grad, slots));
    });
  return y;
}

variable unpermute(tape& tape, const variable& x, const row_slots& slots) {
  return with_element(x.data.type(),
                      [&]<class T>(T) { return run_unpermute<T>(tape, x, slots, {}); });
}

variable unpermute(tape& tape, const variable& x, const row_slots& slots, const variable& weights) {
  require_placement(x, placement::replicated, "unpermute", axis::expert_tensor);
  require_placement(weights, placement::replicated, "unpermute", axis::expert_tensor);
  return with_element(x.data.type(),
                      [&]<class T>(T) { return run_unpermute<T>(tape, x, slots, weights); });
}

variable grouped_linear(tape& tape,
                        const variable& x,
                        product kind,
                        std::shared_ptr<const expert_groups> groups,
                        std::int64_t experts,
                        std::int64_t features,
                        int weight,
                        int bias,
                        bool computes) {
  const bool column = kind == product::column;
  require_placement(x,
                    column ? placement::replicated_partial_gradient : placement::feature_sharded,
                    "grouped_linear",
                    axis::expert_tensor);
  ensure(column || bias < 0 || tape.group_size(axis::expert_tensor) == 1,
         "PLACEMENT-2: a bias is added once, after the sum over the expert tensor axis");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_grouped<T>(tape,
                          x,
                          column ? placement::feature_sharded : placement::partial,
                          std::move(groups),
                          experts,
                          features,
                          weight,
                          bias,
                          computes);
  });
}

variable weighted_activation(
    tape& tape, const variable& x, const variable& weights, kernels::activation kind, bool gated) {
  require_placement(x, placement::feature_sharded, "weighted_activation", axis::expert_tensor);
  require_placement(
      weights, placement::replicated_partial_gradient, "weighted_activation", axis::expert_tensor);
  return with_element(tape.type(),
                      [&]<class T>(T) { return run_weighted<T>(tape, x, weights, kind, gated); });
}

}  // namespace troupe::runtime
