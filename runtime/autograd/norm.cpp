#include "runtime/autograd/ops.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

struct norm_node final : node {
  tensor x;           ///< (R, C)
  tensor statistics;  ///< (2, R): mean, then 1 / deviation
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< (R, C) dy, between I and W
  std::int64_t R, C;
  kernels::normalization kind;
  int gain, bias;

  const float* mean() const { return statistics.data<float>(); }
  const float* rstd() const { return statistics.data<float>() + R; }

  void input_gradients(tape& on) override {
    grad = std::move(dy->sum);
    // What came back along the skip connection is added in the same pass.
    const auto skip = std::move(dx->sum);
    auto part = tensor::empty<float>(on.on(), x.extents());
    on.on().run(kernels::norm_backward_input<float>{part.data<float>(),
                                                    grad.data<float>(),
                                                    x.data<float>(),
                                                    on.value(gain),
                                                    mean(),
                                                    rstd(),
                                                    R,
                                                    C,
                                                    kind,
                                                    skip.data<float>()});
    dx->sum = std::move(part);
  }

  void weight_gradients(tape& on) override {
    on.on().run(kernels::norm_backward_weight<float>{on.gradient(gain),
                                                     bias < 0 ? nullptr : on.gradient(bias),
                                                     grad.data<float>(),
                                                     x.data<float>(),
                                                     mean(),
                                                     rstd(),
                                                     R,
                                                     C,
                                                     kind});
  }
};

}  // namespace

variable norm(
    tape& on, const variable& x, kernels::normalization kind, int gain, int bias, float epsilon) {
  const auto& in = x.data.extents();
  const std::int64_t C = in[in.rank() - 1], R = x.data.size() / C;
  auto y = tensor::empty<float>(on.on(), in);
  auto statistics = on.recording() ? tensor::empty<float>(on.on(), {2, R}) : tensor();
  float* const mean = statistics.data<float>();
  on.on().run(kernels::norm_forward<float>{y.data<float>(),
                                           mean,
                                           mean == nullptr ? nullptr : mean + R,
                                           x.data.data<float>(),
                                           on.value(gain),
                                           bias < 0 ? nullptr : on.value(bias),
                                           R,
                                           C,
                                           epsilon,
                                           kind});
  auto result = on.make(std::move(y));
  if (on.recording()) {
    auto n = std::make_unique<norm_node>();
    n->x = x.data;
    n->statistics = std::move(statistics);
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->C = C;
    n->kind = kind;
    n->gain = gain;
    n->bias = bias;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace troupe::runtime
