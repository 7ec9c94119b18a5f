#include "kernels/op/dropout.hpp"

#include "kernels/op/bias.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct dropout_node final : node {
  std::shared_ptr<gradient_slot> dx, dresidual, dy;
  tensor samples;
  tensor masked;  ///< (R, C) between I and W, if there is a bias
  std::int64_t R, C, rows_of_sequence, first;
  float p, scale;
  std::uint64_t key;
  int bias;

  void input_gradients(tape& tape) override {
    auto grad = std::move(dy->sum);
    if (dresidual)
      tape.add(*dresidual, grad);
    if (p > 0 || scale != 1) {
      auto part = tensor::empty<T>(tape.stream(), grad.extents());
      tape.stream().run(kernels::dropout_backward<T>{part.template data<T>(),
                                                     grad.data<T>(),
                                                     R,
                                                     C,
                                                     rows_of_sequence,
                                                     p,
                                                     key,
                                                     samples.data<std::uint64_t>(),
                                                     first,
                                                     scale});
      grad = std::move(part);
    }
    if (bias >= 0)
      masked = grad;
    tape.add(*dx, std::move(grad));
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({bias}))
      return;
    const auto of_bias = tape.place_of_gradient(bias);
    tape.stream().run(
        kernels::bias_backward<T>{of_bias.to, masked.data<T>(), R, C, of_bias.accumulates});
  }
};

template <class T>
variable run(tape& tape,
             const variable& x,
             const variable* residual,
             float p,
             std::uint64_t key,
             const row_layout& rows,
             int bias,
             float scale) {
  const std::int64_t C = channels_of(x.data), R = x.data.size() / C;
  const auto first = first_row(tape, x);
  auto y = tensor::empty<T>(tape.stream(), x.data.extents());
  tape.stream().run(kernels::dropout_forward<T>{y.template data<T>(),
                                                x.data.data<T>(),
                                                residual ? residual->data.data<T>() : nullptr,
                                                R,
                                                C,
                                                rows.T(),
                                                p,
                                                key,
                                                rows.samples.data<std::uint64_t>(),
                                                first,
                                                bias < 0 ? nullptr : tape.value<T>(bias),
                                                scale});
  auto result = tape.make(std::move(y), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<dropout_node<T>>();
    n->dx = x.gradient;
    n->dresidual = residual ? residual->gradient : nullptr;
    n->dy = result.gradient;
    n->samples = rows.samples;
    n->R = R;
    n->C = C;
    n->rows_of_sequence = rows.T();
    n->first = first;
    n->p = p;
    n->scale = scale;
    n->key = key;
    n->bias = bias;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable dropout_add(tape& tape,
                     const variable& x,
                     const variable& residual,
                     float p,
                     std::uint64_t key,
                     const row_layout& rows,
                     int bias) {
  require_residual(residual, "dropout_add");
  require_placement(x, residual.placements[axis::tensor], "dropout_add");
  return with_element(
      tape.type(), [&]<class T>(T) { return run<T>(tape, x, &residual, p, key, rows, bias, 1); });
}

variable dropout(tape& tape,
                 const variable& x,
                 float p,
                 std::uint64_t key,
                 const row_layout& rows,
                 float scale) {
  require_residual(x, "dropout");
  if (p == 0 && scale == 1)
    return x;
  return with_element(tape.type(), [&]<class T>(T) {
    return run<T>(tape, x, nullptr, p, key, rows, no_parameter, scale);
  });
}

}  // namespace troupe::runtime
