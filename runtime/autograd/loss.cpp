#include "runtime/autograd/ops.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

struct cross_entropy_node final : node {
  tensor logits;  ///< (R, V)
  tensor lse;     ///< (R)
  tensor targets, mask;
  std::shared_ptr<gradient_slot> dlogits;
  std::int64_t R, V, vocabulary;
  float scale;

  void input_gradients(tape& on) override {
    auto dloss = tensor::empty<float>(on.on(), {R});
    on.on().run(
        kernels::masked_loss_backward<float>{dloss.data<float>(), mask.data<float>(), scale, R});
    auto part = std::move(logits);  // its place is taken by its gradient
    on.on().run(kernels::cross_entropy_backward<float>{part.data<float>(),
                                                       part.data<float>(),
                                                       lse.data<float>(),
                                                       targets.data<std::int32_t>(),
                                                       dloss.data<float>(),
                                                       R,
                                                       V,
                                                       vocabulary});
    on.add(*dlogits, std::move(part));
  }
};

}  // namespace

loss_value cross_entropy(tape& on,
                         variable logits,
                         const tensor& targets,
                         const tensor& mask,
                         std::int64_t vocabulary,
                         float scale) {
  const auto& in = logits.data.extents();
  const std::int64_t V = in[in.rank() - 1], R = logits.data.size() / V;
  auto loss = tensor::empty<float>(on.on(), {R});
  auto lse = tensor::empty<float>(on.on(), {R});
  on.on().run(kernels::cross_entropy_forward<float>{loss.data<float>(),
                                                    lse.data<float>(),
                                                    logits.data.data<float>(),
                                                    targets.data<std::int32_t>(),
                                                    R,
                                                    V,
                                                    vocabulary});
  loss_value result;
  on.on().run(kernels::masked_loss_forward<float>{
      &result.total, &result.tokens, loss.data<float>(), mask.data<float>(), R});
  if (on.recording()) {
    auto n = std::make_unique<cross_entropy_node>();
    n->logits = std::move(logits.data);
    n->lse = std::move(lse);
    n->targets = targets;
    n->mask = mask;
    n->dlogits = std::move(logits.gradient);
    n->R = R;
    n->V = V;
    n->vocabulary = vocabulary;
    n->scale = result.tokens > 0 ? float(double(scale) / result.tokens) : 0.0F;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace troupe::runtime
