#include "kernels/op/linear.hpp"

#include "kernels/op/activation.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct linear_node final : node {
  tensor x;  ///< (R, K); if `gather`, only this rank's rows
  std::shared_ptr<gradient_slot> dx, dy;
  tensor dz;  ///< (R, N) between I and W
  std::int64_t R, N, K;
  int weight, bias;
  bool gather;

  void input_gradients(tape& tape) override {
    dz = gradient_of_z(tape);
    if (!dx)
      return;
    auto part = tensor::empty<T>(tape.stream(), gather ? shape{R, K} : x.extents());
    tape.stream().run(kernels::linear_backward_input<T>{part.template data<T>(),
                                                        dz.data<T>(),
                                                        tape.value<T>(weight),
                                                        R,
                                                        N,
                                                        K,
                                                        dx->activation,
                                                        dx->z.template data<T>()});
    tape.add(dx->activation == kernels::epilogue::none ? dx->sum : dx->sum_of_z, std::move(part));
  }

  /// Gradient of the output before its activation, if there is one.
  tensor gradient_of_z(tape& tape) {
    auto of_y = std::move(dy->sum), of_z = std::move(dy->sum_of_z);
    if (dy->activation == kernels::epilogue::none)
      return of_y;
    auto z = std::move(dy->z);
    if (of_y) {
      // Overwrites z, which is no longer needed.
      tape.stream().run(kernels::activation_backward<T>{z.data<T>(),
                                                        of_y.template data<T>(),
                                                        z.data<T>(),
                                                        R,
                                                        N,
                                                        kernels::activation_of(dy->activation)});
      tape.add(of_z, std::move(z));
    }
    return of_z;
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({weight, bias}))
      return;
    const auto all = gather ? gathered(tape, x) : x;
    const auto of_weight = tape.place_of_gradient(weight), of_bias = tape.place_of_gradient(bias);
    tape.stream().run(kernels::linear_backward_weight<T>{of_weight.to,
                                                         of_bias.to,
                                                         dz.data<T>(),
                                                         all.template data<T>(),
                                                         R,
                                                         N,
                                                         K,
                                                         of_weight.accumulates,
                                                         of_bias.accumulates});
  }
};

template <class T>
variable run_linear(tape& tape,
                    const variable& x,
                    placement result,
                    std::int64_t N,
                    int weight,
                    int bias,
                    kernels::epilogue activation) {
  const std::int64_t K = channels_of(x.data), R = x.data.size() / K;
  const auto out = with_channels(x.data.extents(), N);
  auto y = tensor::empty<T>(tape.stream(), out);
  const bool keep_z = tape.recording() && activation != kernels::epilogue::none;
  tensor z = keep_z ? tensor::empty<T>(tape.stream(), out) : tensor();
  tape.stream().run(kernels::linear_forward<T>{y.template data<T>(),
                                               z.data<T>(),
                                               x.data.data<T>(),
                                               tape.value<T>(weight),
                                               bias < 0 ? nullptr : tape.value<T>(bias),
                                               R,
                                               N,
                                               K,
                                               activation,
                                               tape.stream().row_invariant()});
  auto made = tape.make(std::move(y), x.placements.with(axis::tensor, result));
  if (tape.recording()) {
    auto n = std::make_unique<linear_node<T>>();
    n->gather = bool(x.shard);
    n->x = n->gather ? x.shard : x.data;
    made.gradient->activation = activation;
    made.gradient->z = std::move(z);
    n->dx = x.gradient;
    n->dy = made.gradient;
    n->R = R;
    n->N = N;
    n->K = K;
    n->weight = weight;
    n->bias = bias;
    tape.record(std::move(n));
  }
  return made;
}

template <class T>
struct activation_node final : node {
  tensor x;
  std::shared_ptr<gradient_slot> dx, dy;
  std::int64_t R, N;
  kernels::activation kind;
  bool gated;

  void input_gradients(tape& tape) override {
    const auto dh = std::move(dy->sum);
    auto part = std::move(x);
    tape.stream().run(kernels::activation_backward<T>{
        part.data<T>(), dh.template data<T>(), part.data<T>(), R, N, kind, gated});
    tape.add(*dx, std::move(part));
  }
};

template <class T>
variable run_activation(tape& tape, const variable& x, kernels::activation kind, bool gated) {
  const std::int64_t width = channels_of(x.data), N = width / kernels::fan_in(gated);
  const std::int64_t R = x.data.size() / width;
  auto y = tensor::empty<T>(tape.stream(), with_channels(x.data.extents(), N));
  tape.stream().run(
      kernels::activation_forward<T>{y.template data<T>(), x.data.data<T>(), R, N, kind, gated});
  auto result = tape.make(std::move(y), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<activation_node<T>>();
    n->x = x.data;
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->N = N;
    n->kind = kind;
    n->gated = gated;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable linear(tape& tape,
                const variable& x,
                product kind,
                std::int64_t features,
                int weight,
                int bias,
                kernels::epilogue activation) {
  auto result = x.placements[axis::tensor];
  if (kind == product::whole) {
    require_residual(x, "linear");
  } else if (kind == product::column) {
    require_placement(x, placement::replicated_partial_gradient, "linear");
    result = placement::feature_sharded;
  } else {
    require_placement(x, placement::feature_sharded, "linear");
    result = placement::partial;
  }
  ensure(kind != product::row || bias < 0 || tape.group_size() == 1,
         "PLACEMENT-2: a bias is added once, after the sum over the tensor axis");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_linear<T>(tape, x, result, features, weight, bias, activation);
  });
}

variable activation(tape& tape, const variable& x, kernels::activation kind, bool gated) {
  require_placement(x, placement::feature_sharded, "activation");
  return with_element(tape.type(),
                      [&]<class T>(T) { return run_activation<T>(tape, x, kind, gated); });
}

}  // namespace troupe::runtime
