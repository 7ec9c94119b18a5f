#include "runtime/autograd/ops.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

struct dropout_node final : node {
  std::shared_ptr<gradient_slot> dx, dresidual, dy;
  tensor samples;
  std::int64_t R, C, T;
  float p;
  std::uint64_t key;

  void input_gradients(tape& on) override {
    const auto grad = std::move(dy->sum);
    if (dresidual)
      on.add(*dresidual, grad);
    if (p == 0) {
      on.add(*dx, grad);
      return;
    }
    auto part = tensor::empty<float>(on.on(), grad.extents());
    on.on().run(kernels::dropout_backward<float>{
        part.data<float>(), grad.data<float>(), R, C, T, p, key, samples.data<std::uint64_t>()});
    on.add(*dx, std::move(part));
  }
};

variable run(tape& on,
             const variable& x,
             const variable* residual,
             float p,
             std::uint64_t key,
             const row_layout& rows) {
  const auto& in = x.data.extents();
  const std::int64_t C = in[in.rank() - 1], R = x.data.size() / C;
  const std::int64_t T = R / rows.samples.size();
  auto y = tensor::empty<float>(on.on(), in);
  on.on().run(kernels::dropout_forward<float>{y.data<float>(),
                                              x.data.data<float>(),
                                              residual ? residual->data.data<float>() : nullptr,
                                              R,
                                              C,
                                              T,
                                              p,
                                              key,
                                              rows.samples.data<std::uint64_t>()});
  auto result = on.make(std::move(y));
  if (on.recording()) {
    auto n = std::make_unique<dropout_node>();
    n->dx = x.gradient;
    n->dresidual = residual ? residual->gradient : nullptr;
    n->dy = result.gradient;
    n->samples = rows.samples;
    n->R = R;
    n->C = C;
    n->T = T;
    n->p = p;
    n->key = key;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace

variable dropout_add(tape& on,
                     const variable& x,
                     const variable& residual,
                     float p,
                     std::uint64_t key,
                     const row_layout& rows) {
  return run(on, x, &residual, p, key, rows);
}

variable dropout(tape& on, const variable& x, float p, std::uint64_t key, const row_layout& rows) {
  return p == 0 ? x : run(on, x, nullptr, p, key, rows);
}

}  // namespace troupe::runtime
