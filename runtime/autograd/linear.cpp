#include "runtime/autograd/ops.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

kernels::activation matching(kernels::epilogue x) {
  switch (x) {
    case kernels::epilogue::gelu_erf:
      return kernels::activation::gelu_erf;
    case kernels::epilogue::squared_relu:
      return kernels::activation::squared_relu;
    case kernels::epilogue::gelu_tanh:
    case kernels::epilogue::none:
      break;
  }
  return kernels::activation::gelu_tanh;
}

struct linear_node final : node {
  tensor x;  ///< (R, K)
  tensor z;  ///< (R, N) before the activation; empty without one
  std::shared_ptr<gradient_slot> dx, dy;
  tensor dz;  ///< (R, N) between I and W
  std::int64_t R, N, K;
  int weight, bias;
  kernels::epilogue activation;

  void input_gradients(tape& on) override {
    dz = std::move(dy->sum);
    if (activation != kernels::epilogue::none) {
      // Over z, which nobody needs any more.
      const auto dh = std::exchange(dz, std::move(z));
      on.on().run(kernels::activation_backward<float>{
          dz.data<float>(), dh.data<float>(), dz.data<float>(), R, N, matching(activation)});
    }
    if (!dx)
      return;
    auto part = tensor::empty<float>(on.on(), x.extents());
    on.on().run(kernels::linear_backward_input<float>{
        part.data<float>(), dz.data<float>(), on.value(weight), R, N, K});
    on.add(*dx, std::move(part));
  }

  void weight_gradients(tape& on) override {
    on.on().run(kernels::linear_backward_weight<float>{on.gradient(weight),
                                                       bias < 0 ? nullptr : on.gradient(bias),
                                                       dz.data<float>(),
                                                       x.data<float>(),
                                                       R,
                                                       N,
                                                       K});
  }
};

struct activation_node final : node {
  tensor x;
  std::shared_ptr<gradient_slot> dx, dy;
  std::int64_t R, N;
  kernels::activation kind;

  void input_gradients(tape& on) override {
    const auto dh = std::move(dy->sum);
    auto part = std::move(x);
    on.on().run(kernels::activation_backward<float>{
        part.data<float>(), dh.data<float>(), part.data<float>(), R, N, kind});
    on.add(*dx, std::move(part));
  }
};

}  // namespace

variable linear(tape& on,
                const variable& x,
                std::int64_t features,
                int weight,
                int bias,
                kernels::epilogue activation) {
  const auto& in = x.data.extents();
  const std::int64_t K = in[in.rank() - 1], R = x.data.size() / K, N = features;
  shape out;
  for (int i = 0; i + 1 < in.rank(); ++i)
    out.push_back(in[i]);
  out.push_back(N);
  auto y = tensor::empty<float>(on.on(), out);
  const bool keep_z = on.recording() && activation != kernels::epilogue::none;
  auto z = keep_z ? tensor::empty<float>(on.on(), out) : tensor();
  on.on().run(kernels::linear_forward<float>{y.data<float>(),
                                             z.data<float>(),
                                             x.data.data<float>(),
                                             on.value(weight),
                                             bias < 0 ? nullptr : on.value(bias),
                                             R,
                                             N,
                                             K,
                                             activation});
  auto result = on.make(std::move(y));
  if (on.recording()) {
    auto n = std::make_unique<linear_node>();
    n->x = x.data;
    n->z = std::move(z);
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->N = N;
    n->K = K;
    n->weight = weight;
    n->bias = bias;
    n->activation = activation;
    on.record(std::move(n));
  }
  return result;
}

variable activation(tape& on, const variable& x, kernels::activation kind) {
  const auto& in = x.data.extents();
  const std::int64_t width = in[in.rank() - 1], N = width / kernels::fan_in(kind);
  const std::int64_t R = x.data.size() / width;
  shape out;
  for (int i = 0; i + 1 < in.rank(); ++i)
    out.push_back(in[i]);
  out.push_back(N);
  auto y = tensor::empty<float>(on.on(), out);
  on.on().run(
      kernels::activation_forward<float>{y.data<float>(), x.data.data<float>(), R, N, kind});
  auto result = on.make(std::move(y));
  if (on.recording()) {
    auto n = std::make_unique<activation_node>();
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

}  // namespace troupe::runtime
