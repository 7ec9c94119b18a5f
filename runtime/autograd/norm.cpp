#include "kernels/op/norm.hpp"

#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct norm_node final : node {
  tensor x;           ///< (R, C)
  tensor statistics;  ///< (2, R): mean, then 1 / standard deviation
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< (R, C) dy, between I and W
  std::int64_t R, C;
  norm_options options;
  int gain, bias;

  const float* mean() const { return statistics.data<float>(); }
  const float* rstd() const { return statistics.data<float>() + R; }

  void input_gradients(tape& tape) override {
    grad = std::move(dy->sum);
    // Adds the gradient of the skip connection in the same pass.
    const auto skip = std::move(dx->sum);
    auto part = tensor::empty<T>(tape.stream(), x.extents());
    tape.stream().run(kernels::norm_backward_input<T>{part.template data<T>(),
                                                      grad.data<T>(),
                                                      x.data<T>(),
                                                      tape.value<T>(gain),
                                                      mean(),
                                                      rstd(),
                                                      R,
                                                      C,
                                                      options.kind,
                                                      skip.data<T>(),
                                                      options.gain_offset});
    dx->sum = std::move(part);
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({gain, bias}))
      return;
    const auto of_gain = tape.place_of_gradient(gain), of_bias = tape.place_of_gradient(bias);
    tape.stream().run(kernels::norm_backward_weight<T>{of_gain.to,
                                                       of_bias.to,
                                                       grad.data<T>(),
                                                       x.data<T>(),
                                                       mean(),
                                                       rstd(),
                                                       R,
                                                       C,
                                                       options.kind,
                                                       of_gain.accumulates,
                                                       of_bias.accumulates});
  }
};

/// The input is the sum of these two tensors; empty: the input exists already.
struct summands {
  tensor x = {}, residual = {};
};

template <class T>
variable run(tape& tape,
             variable x,
             const norm_options& options,
             int gain,
             int bias,
             const summands& of = {}) {
  const std::int64_t C = channels_of(x.data), R = x.data.size() / C;
  auto y = tensor::empty<T>(tape.stream(), x.data.extents());
  auto statistics = tape.recording() ? tensor::empty<float>(tape.stream(), {2, R}) : tensor();
  float* const mean = statistics.data<float>();
  tape.stream().run(kernels::norm_forward<T>{y.template data<T>(),
                                             mean,
                                             mean == nullptr ? nullptr : mean + R,
                                             of.x ? of.x.data<T>() : x.data.data<T>(),
                                             tape.value<T>(gain),
                                             bias < 0 ? nullptr : tape.value<T>(bias),
                                             R,
                                             C,
                                             options.epsilon,
                                             options.kind,
                                             options.gain_offset,
                                             of.residual.data<T>(),
                                             of.x ? x.data.data<T>() : nullptr});
  auto result = tape.make(std::move(y), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<norm_node<T>>();
    n->x = x.data;
    n->statistics = std::move(statistics);
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->R = R;
    n->C = C;
    n->options = options;
    n->gain = gain;
    n->bias = bias;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable norm(tape& tape, const variable& x, const norm_options& options, int gain, int bias) {
  require_residual(x, "norm");
  return with_element(tape.type(),
                      [&]<class T>(T) { return run<T>(tape, x, options, gain, bias); });
}

variable residual_norm(tape& tape,
                       const variable& x,
                       variable& residual,
                       const norm_options& options,
                       int gain,
                       int bias) {
  require_residual(residual, "residual_norm");
  require_placement(x, residual.placements[axis::tensor], "residual_norm");
  return with_element(tape.type(), [&]<class T>(T) {
    const bool alone = !x.kept && x.data.block().use_count() == 1;
    auto sum = tape.make(alone ? x.data : tensor::empty<T>(tape.stream(), x.data.extents()),
                         residual.placements);
    tape.record([dx = x.gradient, dresidual = residual.gradient, dsum = sum.gradient](auto& on) {
      auto grad = std::move(dsum->sum);
      on.add(*dresidual, grad);
      on.add(*dx, std::move(grad));
    });
    auto y = run<T>(tape, sum, options, gain, bias, {x.data, residual.data});
    residual = std::move(sum);
    return y;
  });
}

}  // namespace troupe::runtime
