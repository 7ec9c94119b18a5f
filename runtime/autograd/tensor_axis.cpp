#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// (rows, channels) with rows * `factor` / `divisor`.
shape scaled_rows(const tensor& x, std::int64_t factor, std::int64_t divisor) {
  const auto channels = x.extents()[x.extents().rank() - 1];
  return {x.size() / channels * factor / divisor, channels};
}

tensor like(tape& on, shape extents) {
  return with_element(on.type(), [&]<class T>(T) { return tensor::empty<T>(on.on(), extents); });
}

tensor summed(tape& on, const tensor& x) {
  auto out = like(on, x.extents());
  const void* const part = x.raw();
  on.axis().all_reduce_sum(on.on(), on.type(), {&part, 1}, out.raw(), x.size());
  return out;
}

/// This rank's rows of the sum.
tensor scattered(tape& on, const tensor& x) {
  auto out = like(on, scaled_rows(x, 1, on.ranks()));
  const void* const part = x.raw();
  const auto ends = equal_ends(x.size(), on.ranks());
  on.axis().reduce_scatter_sum(on.on(), on.type(), {&part, 1}, out.raw(), ends);
  return out;
}

struct enter_node final : node {
  std::shared_ptr<gradient_slot> dx, dy;
  bool gathered = false;

  void input_gradients(tape& on) override {
    const auto grad = std::move(dy->sum);
    on.add(*dx, gathered ? scattered(on, grad) : summed(on, grad));
  }
};

struct leave_node final : node {
  std::shared_ptr<gradient_slot> dx, dy;
  bool scattered = false;

  void input_gradients(tape& on) override {
    auto grad = std::move(dy->sum);
    on.add(*dx, scattered ? gathered(on, grad) : std::move(grad));
  }
};

}  // namespace

tensor gathered(tape& on, const tensor& rows) {
  auto out = like(on, scaled_rows(rows, on.ranks(), 1));
  const auto ends = equal_ends(std::int64_t(out.bytes()), on.ranks());
  on.axis().all_gather(on.on(), rows.raw(), out.raw(), ends);
  return out;
}

variable enter(tape& on, const variable& x) {
  if (x.over != spread::rows)
    require_spread(x, spread::whole, "enter");
  if (on.ranks() == 1) {
    auto y = x;
    y.over = spread::entered;
    return y;
  }
  const bool gather = x.over == spread::rows;
  auto y = on.make(gather ? gathered(on, x.data) : x.data, spread::entered);
  if (gather)
    y.shard = x.data;
  if (on.recording()) {
    auto n = std::make_unique<enter_node>();
    n->dx = x.gradient;
    n->dy = y.gradient;
    n->gathered = gather;
    on.record(std::move(n));
  }
  return y;
}

variable leave(tape& on, const variable& x) {
  require_spread(x, spread::partial, "leave");
  const bool scatter = on.sequence_parallel();
  if (on.ranks() == 1) {
    auto y = x;
    y.over = spread::whole;
    return y;
  }
  auto y = scatter ? on.make(scattered(on, x.data), spread::rows)
                   : on.make(summed(on, x.data), spread::whole);
  if (on.recording()) {
    auto n = std::make_unique<leave_node>();
    n->dx = x.gradient;
    n->dy = y.gradient;
    n->scattered = scatter;
    on.record(std::move(n));
  }
  return y;
}

}  // namespace troupe::runtime
