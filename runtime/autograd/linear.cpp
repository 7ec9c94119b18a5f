#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct linear_node final : node {
  tensor x;  ///< (R, K); this rank's rows of it where `gather` is set
  std::shared_ptr<gradient_slot> dx, dy;
  tensor dz;  ///< (R, N) between I and W
  std::int64_t R, N, K;
  int weight, bias;
  bool gather;

  void input_gradients(tape& on) override {
    dz = gradient_of_z(on);
    if (!dx)
      return;
    auto part = tensor::empty<T>(on.on(), gather ? shape{R, K} : x.extents());
    on.on().run(kernels::linear_backward_input<T>{part.template data<T>(),
                                                  dz.data<T>(),
                                                  on.value<T>(weight),
                                                  R,
                                                  N,
                                                  K,
                                                  dx->activation,
                                                  dx->z.template data<T>()});
    on.add(dx->activation == kernels::epilogue::none ? dx->sum : dx->sum_of_z, std::move(part));
  }

  /// Of the output before its activation, if there is one.
  tensor gradient_of_z(tape& on) {
    auto of_y = std::move(dy->sum), of_z = std::move(dy->sum_of_z);
    if (dy->activation == kernels::epilogue::none)
      return of_y;
    auto z = std::move(dy->z);
    if (of_y) {
      // Over z, which nobody needs any more.
      on.on().run(kernels::activation_backward<T>{z.data<T>(),
                                                  of_y.template data<T>(),
                                                  z.data<T>(),
                                                  R,
                                                  N,
                                                  kernels::activation_of(dy->activation)});
      on.add(of_z, std::move(z));
    }
    return of_z;
  }

  void weight_gradients(tape& on) override {
    const auto all = gather ? gathered(on, x) : x;
    on.on().run(kernels::linear_backward_weight<T>{on.gradient(weight),
                                                   bias < 0 ? nullptr : on.gradient(bias),
                                                   dz.data<T>(),
                                                   all.template data<T>(),
                                                   R,
                                                   N,
                                                   K});
  }
};

template <class T>
variable run_linear(tape& on,
                    const variable& x,
                    spread result,
                    std::int64_t N,
                    int weight,
                    int bias,
                    kernels::epilogue activation) {
  const std::int64_t K = channels_of(x.data), R = x.data.size() / K;
  const auto out = with_channels(x.data.extents(), N);
  auto y = tensor::empty<T>(on.on(), out);
  const bool keep_z = on.recording() && activation != kernels::epilogue::none;
  tensor z = keep_z ? tensor::empty<T>(on.on(), out) : tensor();
  on.on().run(kernels::linear_forward<T>{y.template data<T>(),
                                         z.data<T>(),
                                         x.data.data<T>(),
                                         on.value<T>(weight),
                                         bias < 0 ? nullptr : on.value<T>(bias),
                                         R,
                                         N,
                                         K,
                                         activation});
  auto made = on.make(std::move(y), result);
  if (on.recording()) {
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
    on.record(std::move(n));
  }
  return made;
}

template <class T>
struct activation_node final : node {
  tensor x;
  std::shared_ptr<gradient_slot> dx, dy;
  std::int64_t R, N;
  kernels::activation kind;

  void input_gradients(tape& on) override {
    const auto dh = std::move(dy->sum);
    auto part = std::move(x);
    on.on().run(kernels::activation_backward<T>{
        part.data<T>(), dh.template data<T>(), part.data<T>(), R, N, kind});
    on.add(*dx, std::move(part));
  }
};

template <class T>
variable run_activation(tape& on, const variable& x, kernels::activation kind) {
  const std::int64_t width = channels_of(x.data), N = width / kernels::fan_in(kind);
  const std::int64_t R = x.data.size() / width;
  auto y = tensor::empty<T>(on.on(), with_channels(x.data.extents(), N));
  on.on().run(kernels::activation_forward<T>{y.template data<T>(), x.data.data<T>(), R, N, kind});
  auto result = on.make(std::move(y), spread::features);
  if (on.recording()) {
    auto n = std::make_unique<activation_node<T>>();
    n->x = x.data;
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->N = N;
    n->kind = kind;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace

variable linear(tape& on,
                const variable& x,
                product kind,
                std::int64_t features,
                int weight,
                int bias,
                kernels::epilogue activation) {
  const bool column = kind == product::column;
  require_spread(x, column ? spread::entered : spread::features, "linear");
  ensure(column || bias < 0 || on.ranks() == 1,
         "SPREAD-2: a bias is added once, after the sum over the tensor axis");
  return with_element(on.type(), [&]<class T>(T) {
    return run_linear<T>(
        on, x, column ? spread::features : spread::partial, features, weight, bias, activation);
  });
}

variable activation(tape& on, const variable& x, kernels::activation kind) {
  require_spread(x, spread::features, "activation");
  return with_element(on.type(), [&]<class T>(T) { return run_activation<T>(on, x, kind); });
}

}  // namespace troupe::runtime
