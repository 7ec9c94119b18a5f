#include "runtime/model/layers/layer.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Adds to the residual stream: pass::x, summed over tensor ranks if it is partial; late bias;
/// dropout. Without bias and dropout, a norm that follows does the addition.
void add_residual(module_builder& to, double rate, int bias) {
  to.segment("residual",
             recompute_module::other,
             [rate, bias, name = to.name() + ".dropout"](tape& tape, pass& p) {
               auto sum = std::exchange(p.x, {});
               if (sum.placements[axis::tensor] == placement::partial)
                 sum = reduce_from_tensor_region(tape, sum);
               if (p.next_adds && p.dropout_rate(rate) == 0 && bias < 0)
                 p.addend = std::move(sum);
               else
                 p.hidden = dropout_add(
                     tape, sum, p.hidden, p.dropout_rate(rate), p.dropout_key(name), p.rows, bias);
             });
}

}  // namespace

void add(module_builder& layer, const residual_sublayer& x) {
  const auto of = x.body.traits();
  auto to = layer.within(x.name, of.kind);
  if (x.norm_before) {
    const auto before = add_norm(layer, *x.norm_before, of.width);
    to.segment("norm", [before](tape& tape, pass& p) { p.x = before(tape, p); }).adds = true;
  } else {
    to.segment("input", [](tape&, pass& p) { p.x = p.hidden; });
  }
  add_residual(to, x.dropout, x.body.add_to(to));
  if (x.norm_after) {
    const auto after = add_norm(layer, *x.norm_after, of.width);
    const auto run = [after](tape& tape, pass& p) { p.hidden = after(tape, p); };
    to.segment("norm_after", recompute_module::other, run).adds = true;
  }
}

module_traits traits_of(const residual_sublayer& x) {
  return x.body.traits();
}

module_flops forward_flops(const residual_sublayer& x, std::int64_t T) {
  return x.body.flops(T);
}

void add(module_builder& layer, const own_sublayer& x) {
  auto to = layer.within(x.name, recompute_module::feed_forward);
  x.build(to);
}

module_traits traits_of(const own_sublayer& x) {
  return {.reads = x.reads, .tied_to = x.tied_to, .losses = x.losses, .host_only = x.host_only};
}

module_flops forward_flops(const own_sublayer& x, std::int64_t T) {
  return x.flops ? x.flops(T) : module_flops();
}

void add(module_builder& to, const layer_spec& x) {
  for (const auto& sublayer : x.sublayers)
    sublayer.add_to(to);
}

module_traits traits_of(const layer_spec& x) {
  module_traits out;
  for (const auto& sublayer : x.sublayers) {
    const auto of = sublayer.traits();
    ensure(out.width == 0 || of.width == 0 || of.width == out.width,
           "MODEL-2: every unit and sublayer has the width of its stream");
    out.width = std::max(out.width, of.width);
    out.reads.insert(out.reads.end(), of.reads.begin(), of.reads.end());
    out.tied_to.insert(out.tied_to.end(), of.tied_to.begin(), of.tied_to.end());
    out.losses.insert(out.losses.end(), of.losses.begin(), of.losses.end());
    out.host_only |= of.host_only;
  }
  return out;
}

module_flops forward_flops(const layer_spec& x, std::int64_t T) {
  module_flops out;
  for (const auto& sublayer : x.sublayers)
    out += sublayer.flops(T);
  return out;
}

}  // namespace troupe::runtime
