#include "runtime/model/layers/layer.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Adds to the residual stream: sum of pass::x over tensor ranks, late bias, dropout. Without bias
/// and dropout, a norm that follows does the addition.
void add_residual(module_builder& to, double rate, int bias) {
  to.segment("residual",
             recompute_module::other,
             [rate, bias, name = to.name() + ".dropout"](tape& tape, pass& p) {
               auto sum = reduce_from_tensor_region(tape, std::exchange(p.x, {}));
               if (p.next_adds && p.dropout_rate(rate) == 0 && bias < 0)
                 p.addend = std::move(sum);
               else
                 p.hidden = dropout_add(
                     tape, sum, p.hidden, p.dropout_rate(rate), p.dropout_key(name), p.rows, bias);
             });
}

void add_sublayer(module_builder& layer, const residual_sublayer& x) {
  auto to = layer.within(x.name, x.module());
  if (x.norm_before) {
    const auto before = add_norm(layer, *x.norm_before, x.hidden());
    to.segment("norm", [before](tape& tape, pass& p) { p.x = before(tape, p); }).adds = true;
  } else {
    to.segment("input", [](tape&, pass& p) { p.x = p.hidden; });
  }
  const int late_bias = std::visit([&](const auto& body) { return add(to, body); }, x.body);
  add_residual(to, x.dropout, late_bias);
  if (x.norm_after) {
    const auto after = add_norm(layer, *x.norm_after, x.hidden());
    const auto run = [after](tape& tape, pass& p) { p.hidden = after(tape, p); };
    to.segment("norm_after", recompute_module::other, run).adds = true;
  }
}

void add_sublayer(module_builder& layer, const own_sublayer& x) {
  auto to = layer.within(x.name, recompute_module::feed_forward);
  x.build(to);
}

}  // namespace

std::int64_t residual_sublayer::hidden() const {
  return std::visit([](const auto& of) { return of.hidden; }, body);
}

recompute_module residual_sublayer::module() const {
  return std::holds_alternative<feed_forward_spec>(body) ? recompute_module::feed_forward
                                                         : recompute_module::other;
}

void add(module_builder& to, const layer_spec& x) {
  for (const auto& sublayer : x.sublayers)
    std::visit([&](const auto& kind) { add_sublayer(to, kind); }, sublayer);
}

}  // namespace troupe::runtime
