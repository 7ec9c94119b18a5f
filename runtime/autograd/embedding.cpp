#include "runtime/autograd/ops.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

struct embedding_node final : node {
  tensor tokens, positions;
  std::shared_ptr<gradient_slot> dy;
  tensor grad;  ///< (R, C) between I and W
  int table, position_table;

  void input_gradients(tape&) override { grad = std::move(dy->sum); }

  void weight_gradients(tape& on) override {
    const auto& in = grad.extents();
    on.on().run(kernels::embedding_backward<float>{
        on.gradient(table),
        tokens.data<std::int32_t>(),
        position_table < 0 ? nullptr : on.gradient(position_table),
        positions.data<std::int32_t>(),
        grad.data<float>(),
        tokens.size(),
        in[in.rank() - 1]});
  }
};

}  // namespace

variable embedding(tape& on,
                   const tensor& tokens,
                   const row_layout& rows,
                   std::int64_t channels,
                   int table,
                   int position_table) {
  const auto& in = tokens.extents();
  auto y = tensor::empty<float>(on.on(), {in[0], in[1], channels});
  on.on().run(
      kernels::embedding_forward<float>{y.data<float>(),
                                        on.value(table),
                                        tokens.data<std::int32_t>(),
                                        position_table < 0 ? nullptr : on.value(position_table),
                                        rows.positions.data<std::int32_t>(),
                                        tokens.size(),
                                        channels});
  auto result = on.make(std::move(y));
  if (on.recording()) {
    auto n = std::make_unique<embedding_node>();
    n->tokens = tokens;
    n->positions = rows.positions;
    n->dy = result.gradient;
    n->table = table;
    n->position_table = position_table;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace troupe::runtime
