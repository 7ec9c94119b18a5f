#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// (rows, channels) with rows * factor / divisor rows. Breaks TAPE-6 unless they are whole.
shape scaled_rows(const tensor& x, std::int64_t factor, std::int64_t divisor) {
  const auto channels = x.extents()[x.extents().rank() - 1];
  const auto rows = x.size() / channels * factor;
  ensure(rows % divisor == 0, "TAPE-6: tensor ranks share whole rows");
  return {rows / divisor, channels};
}

tensor like(tape& tape, shape extents) {
  return with_element(tape.type(),
                      [&]<class T>(T) { return tensor::empty<T>(tape.stream(), extents); });
}

/// Reduce-scatter: this rank's rows of the sum.
tensor scattered(tape& tape, const tensor& x) {
  auto out = like(tape, scaled_rows(x, 1, tape.group_size()));
  const void* const part = x.raw();
  const auto ends = equal_ends(x.size(), tape.group_size());
  tape.group(axis::tensor)
      .reduce_scatter_sum(tape.stream(), tape.type(), {&part, 1}, out.raw(), ends);
  return out;
}

struct copy_to_node final : node {
  std::shared_ptr<gradient_slot> dx, dy;
  bool gathered = false;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    tape.add(*dx, gathered ? scattered(tape, grad) : summed(tape, grad));
  }
};

struct reduce_from_node final : node {
  std::shared_ptr<gradient_slot> dx, dy;
  bool scattered = false;

  void input_gradients(tape& tape) override {
    auto grad = std::move(dy->sum);
    tape.add(*dx, scattered ? gathered(tape, grad) : std::move(grad));
  }
};

}  // namespace

tensor summed(tape& tape, const tensor& x) {
  auto out = like(tape, x.extents());
  const void* const part = x.raw();
  tape.group(axis::tensor)
      .all_reduce_sum(tape.stream(), tape.type(), {&part, 1}, out.raw(), x.size());
  return out;
}

tensor gathered(tape& tape, const tensor& rows) {
  auto out = like(tape, scaled_rows(rows, tape.group_size(), 1));
  const auto ends = equal_ends(std::int64_t(out.bytes()), tape.group_size());
  tape.group(axis::tensor).all_gather(tape.stream(), rows.raw(), out.raw(), ends);
  return out;
}

variable copy_to_tensor_region(tape& tape, const variable& x) {
  if (x.placements[axis::tensor] != placement::sequence_sharded)
    require_placement(x, placement::replicated, "copy_to_tensor_region");
  if (tape.group_size() == 1) {
    auto y = x;
    y.placements[axis::tensor] = placement::replicated_partial_gradient;
    return y;
  }
  const bool gather = x.placements[axis::tensor] == placement::sequence_sharded;
  auto y = tape.make(gather ? gathered(tape, x.data) : x.data,
                     x.placements.with(axis::tensor, placement::replicated_partial_gradient));
  if (gather)
    y.shard = x.data;
  if (tape.recording()) {
    auto n = std::make_unique<copy_to_node>();
    n->dx = x.gradient;
    n->dy = y.gradient;
    n->gathered = gather;
    tape.record(std::move(n));
  }
  return y;
}

variable reduce_from_tensor_region(tape& tape, const variable& x) {
  require_placement(x, placement::partial, "reduce_from_tensor_region");
  const bool scatter = tape.sequence_parallel();
  if (tape.group_size() == 1) {
    auto y = x;
    y.placements[axis::tensor] = placement::replicated;
    return y;
  }
  auto y
      = tape.make(scatter ? scattered(tape, x.data) : summed(tape, x.data),
                  x.placements.with(axis::tensor,
                                    scatter ? placement::sequence_sharded : placement::replicated));
  if (tape.recording()) {
    auto n = std::make_unique<reduce_from_node>();
    n->dx = x.gradient;
    n->dy = y.gradient;
    n->scattered = scatter;
    tape.record(std::move(n));
  }
  return y;
}

}  // namespace troupe::runtime
