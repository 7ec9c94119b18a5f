#include "kernels/op/embedding.hpp"

#include "kernels/op/sum.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct embedding_node final : node {
  tensor tokens, positions;
  std::shared_ptr<gradient_slot> dy;
  tensor grad;  ///< (R, C) between I and W
  std::int64_t first, words;
  int table, position_table;

  void input_gradients(tape&) override { grad = std::move(dy->sum); }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({table, position_table}))
      return;
    const auto of_table = tape.place_of_gradient(table);
    tape.stream().run(kernels::embedding_backward<T>{
        .dtable = of_table.to,
        .id = tokens.data<std::int32_t>(),
        .dposition_table = position_table < 0 ? nullptr : tape.gradient(position_table),
        .position = positions.data<std::int32_t>(),
        .dy = grad.data<T>(),
        .R = tokens.size(),
        .C = channels_of(grad),
        .first = std::int32_t(first),
        .rows = std::int32_t(words),
        .accumulates = of_table.accumulates});
  }
};

template <class T>
variable run_embedding(tape& tape,
                       const tensor& tokens,
                       const row_layout& rows,
                       std::int64_t channels,
                       std::int64_t words,
                       int table,
                       int position_table) {
  const auto& in = tokens.extents();
  const auto first = tape.rank() * words;
  auto y = tensor::empty<T>(tape.stream(), {in[0], in[1], channels});
  tape.stream().run(kernels::embedding_forward<T>{
      .y = y.template data<T>(),
      .table = tape.value<T>(table),
      .id = tokens.data<std::int32_t>(),
      .position_table = position_table < 0 ? nullptr : tape.value<T>(position_table),
      .position = rows.positions.data<std::int32_t>(),
      .R = tokens.size(),
      .C = channels,
      .first = std::int32_t(first),
      .rows = std::int32_t(words)});
  auto result = tape.make(std::move(y), placement::partial);
  if (tape.recording()) {
    auto n = std::make_unique<embedding_node<T>>();
    n->tokens = tokens;
    n->positions = rows.positions;
    n->dy = result.gradient;
    n->first = first;
    n->words = words;
    n->table = table;
    n->position_table = position_table;
    tape.record(std::move(n));
  }
  return result;
}

template <class T>
struct positions_node final : node {
  tensor positions;
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< (R, C) between I and W
  std::int64_t first;
  int table;

  void input_gradients(tape& tape) override {
    grad = std::move(dy->sum);
    tape.add(*dx, grad);
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({table}))
      return;
    const auto C = channels_of(grad);
    tape.stream().run(kernels::embedding_backward<T>{.dtable = tape.gradient(table),
                                                     .id = positions.data<std::int32_t>() + first,
                                                     .dposition_table = nullptr,
                                                     .position = nullptr,
                                                     .dy = grad.data<T>(),
                                                     .R = grad.size() / C,
                                                     .C = C});
  }
};

template <class T>
variable run_positions(tape& tape, const variable& x, const row_layout& rows, int table) {
  const std::int64_t C = channels_of(x.data), first = first_row(tape, x);
  auto y = tensor::empty<T>(tape.stream(), x.data.extents());
  T* const to = y.template data<T>();
  tape.stream().run(kernels::embedding_forward<T>{.y = to,
                                                  .table = tape.value<T>(table),
                                                  .id = rows.positions.data<std::int32_t>() + first,
                                                  .position_table = nullptr,
                                                  .position = nullptr,
                                                  .R = x.data.size() / C,
                                                  .C = C});
  tape.stream().run(kernels::add<T>{to, x.data.data<T>(), to, x.data.size()});
  auto result = tape.make(std::move(y), x.placements);
  if (tape.recording()) {
    auto n = std::make_unique<positions_node<T>>();
    n->positions = rows.positions;
    n->dx = x.gradient;
    n->dy = result.gradient;
    n->first = first;
    n->table = table;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable embedding(tape& tape,
                   const tensor& tokens,
                   const row_layout& rows,
                   std::int64_t channels,
                   std::int64_t words,
                   int table,
                   int position_table) {
  ensure(position_table < 0 || tape.group_size() == 1,
         "PLACEMENT-3: positions are added once, after the sum over the tensor axis");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_embedding<T>(tape, tokens, rows, channels, words, table, position_table);
  });
}

variable add_positions(tape& tape, const variable& x, const row_layout& rows, int table) {
  require_residual(x, "add_positions");
  return with_element(tape.type(),
                      [&]<class T>(T) { return run_positions<T>(tape, x, rows, table); });
}

}  // namespace troupe::runtime
