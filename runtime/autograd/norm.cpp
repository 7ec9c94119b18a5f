#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct norm_node final : node {
  tensor x;           ///< (R, C)
  tensor statistics;  ///< (2, R): mean, then 1 / deviation
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< (R, C) dy, between I and W
  std::int64_t R, C;
  norm_options how;
  int gain, bias;

  const float* mean() const { return statistics.data<float>(); }
  const float* rstd() const { return statistics.data<float>() + R; }

  void input_gradients(tape& on) override {
    grad = std::move(dy->sum);
    // What came back along the skip connection is added in the same pass.
    const auto skip = std::move(dx->sum);
    auto part = tensor::empty<T>(on.on(), x.extents());
    on.on().run(kernels::norm_backward_input<T>{part.template data<T>(),
                                                grad.data<T>(),
                                                x.data<T>(),
                                                on.value<T>(gain),
                                                mean(),
                                                rstd(),
                                                R,
                                                C,
                                                how.kind,
                                                skip.data<T>(),
                                                how.gain_offset});
    dx->sum = std::move(part);
  }

  void weight_gradients(tape& on) override {
    on.on().run(kernels::norm_backward_weight<T>{on.gradient(gain),
                                                 bias < 0 ? nullptr : on.gradient(bias),
                                                 grad.data<T>(),
                                                 x.data<T>(),
                                                 mean(),
                                                 rstd(),
                                                 R,
                                                 C,
                                                 how.kind});
  }
};

template <class T>
variable run(tape& on, const variable& x, const norm_options& how, int gain, int bias) {
  const std::int64_t C = channels_of(x.data), R = x.data.size() / C;
  auto y = tensor::empty<T>(on.on(), x.data.extents());
  auto statistics = on.recording() ? tensor::empty<float>(on.on(), {2, R}) : tensor();
  float* const mean = statistics.data<float>();
  on.on().run(kernels::norm_forward<T>{y.template data<T>(),
                                       mean,
                                       mean == nullptr ? nullptr : mean + R,
                                       x.data.data<T>(),
                                       on.value<T>(gain),
                                       bias < 0 ? nullptr : on.value<T>(bias),
                                       R,
                                       C,
                                       how.epsilon,
                                       how.kind,
                                       how.gain_offset});
  auto result = on.make(std::move(y), x.over);
  if (on.recording()) {
    auto n = std::make_unique<norm_node<T>>();
    n->x = x.data;
    n->statistics = std::move(statistics);
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->C = C;
    n->how = how;
    n->gain = gain;
    n->bias = bias;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace

variable norm(tape& on, const variable& x, const norm_options& how, int gain, int bias) {
  require_residual(x, "norm");
  return with_element(on.type(), [&]<class T>(T) { return run<T>(on, x, how, gain, bias); });
}

}  // namespace troupe::runtime
