#include "runtime/forecast/layer_costs.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr double backward_attention = 2.5;

/// Bytes of kernels of the loss for an element of the logits. One kernel reads them in each pass,
/// and writes their gradient. Separate kernels copy them to f32 (6), take the maximum (4), subtract
/// it (8), exponentiate (8), sum (4) and divide (8); backward they scale (8) and round (6).
struct logit_bytes {
  double forward, backward;
};
constexpr logit_bytes of_one_kernel = {4, 6}, of_separate_kernels = {38, 14};

/// Passes over the scores outside of products. Forward: softmax reads and writes, and so does
/// dropout. Backward: softmax reads two arrays and writes one.
constexpr double score_passes_forward = 2, score_passes_backward = 3, passes_of_dropout = 2.5;

/// Ranks that divide a matrix.
double parts_of(const product_outline& x, const rank_share& share) {
  if (x.is_of_experts())
    return share.expert_tensor;
  return x.split == product_split::none ? 1 : share.tensor;
}

}  // namespace

step_parts& step_parts::operator+=(const step_parts& x) {
  products += x.products;
  attention += x.attention;
  kernels += x.kernels;
  tensor += x.tensor;
  experts += x.experts;
  context += x.context;
  handoffs += x.handoffs;
  return *this;
}

step_parts operator*(step_parts x, double factor) {
  for (auto* part :
       {&x.products, &x.attention, &x.kernels, &x.tensor, &x.experts, &x.context, &x.handoffs})
    *part *= factor;
  return x;
}

pass_costs& pass_costs::operator+=(const pass_costs& x) {
  forward += x.forward;
  inputs += x.inputs;
  parameters += x.parameters;
  return *this;
}

layer_costs::layer_costs(const model_outline& model,
                         const rank_share& share,
                         const cluster_outline& on,
                         const forecast_assumptions& by)
    : model_(model),
      share_(share),
      costs_(on, by.link_share),
      by_(by),
      product_rate_(share.peak * by.product_share),
      attention_rate_(share.peak * by.attention_share),
      memory_rate_(on.device.bandwidth * by.memory_share) {}

void layer_costs::add_product(pass_costs& to,
                              double rows,
                              double inputs,
                              double outputs,
                              double matrices,
                              bool is_of_layer) const {
  const bool narrow = is_of_layer && share_.fp8_peak > 0;
  const double rate = narrow ? share_.fp8_peak * by_.product_share : product_rate_;
  const double operations = 2 * rows * inputs * outputs / rate + by_.kernel_seconds;
  const double weights = inputs * outputs * matrices, read = rows * inputs, made = rows * outputs;
  const double wide = share_.element, each = narrow ? 1 : wide;
  const double rounded = narrow ? 2 * wide + 2 : 0;  // bytes of the kernel that rounds an element
  to.forward.products += operations + memory(each * (read + weights) + wide * made);
  to.inputs.products += operations + memory(each * (made + weights) + wide * read);
  to.parameters.products
      += operations + memory(each * (read + made) + 2 * share_.gradient * weights);
  to.forward.kernels += memory(rounded * read);
  to.inputs.kernels += memory(rounded * made);
}

void layer_costs::add_attention(pass_costs& to, const layer_outline& x) const {
  const double width = x.score_width / share_.tensor, rows = share_.rows;
  if (share_.fused_attention) {
    const double operations = 2 * rows * x.keys * width;
    to.forward.attention += operations / attention_rate_ + by_.kernel_seconds;
    to.inputs.attention += backward_attention * operations / attention_rate_ + by_.kernel_seconds;
    return;
  }
  const double scores = rows * model_.sequence * x.heads / share_.tensor;
  const double products = 2 * rows * model_.sequence * width / product_rate_;
  const double dropout = model_.drops ? passes_of_dropout : 0;
  const auto passes = [&](double n) { return memory(n * share_.element * scores); };
  to.forward.attention += products + passes(2 + score_passes_forward + dropout);
  to.inputs.attention += 2 * products + passes(4 + score_passes_backward + dropout);
}

void layer_costs::add_traffic(pass_costs& to,
                              traffic_outline x,
                              double divisor,
                              int kernels) const {
  const double each = share_.rows * share_.element / divisor;
  to.forward.kernels += memory(x.forward * each) + kernels * by_.kernel_seconds;
  to.inputs.kernels += memory(x.backward * each) + kernels * by_.kernel_seconds;
}

void layer_costs::add_context(pass_costs& to, const layer_outline& x) const {
  const double n = share_.context;
  const double ring
      = (n - 1)
        * costs_.transfer(share_.rows * x.keys_and_values / share_.tensor * share_.element,
                          share_.context_ranks.hosts > 1);
  const auto visible = [n](double seconds, double beside) {
    return std::max(0.0, seconds - beside * (n - 1) / n);
  };
  to.forward.context += visible(ring, to.forward.attention);
  to.inputs.context += visible(2 * ring, to.inputs.attention);
}

void layer_costs::add_collectives(pass_costs& to, const layer_outline& x) const {
  const double stream = share_.rows * model_.hidden * share_.element;
  if (share_.sequence_parallel) {
    const double half = costs_.all_gather(stream, share_.tensor_ranks);
    to.forward.tensor += 2 * x.tensor_blocks * half;
    to.inputs.tensor += (share_.overlap_tensor ? 1 : 2) * x.tensor_blocks * half;
    to.parameters.tensor += share_.overlap_tensor ? 0 : x.tensor_blocks * half;
  } else {
    const double sum = costs_.all_reduce(stream, share_.tensor_ranks);
    to.forward.tensor += x.tensor_blocks * sum;
    to.inputs.tensor += x.tensor_blocks * sum;
  }
  if (x.dispatched == 0)
    return;
  const double sent = share_.rows / share_.tensor * x.dispatched * share_.element;
  const double both
      = 2
        * (costs_.all_to_all(sent, share_.expert_ranks)
           + costs_.all_gather(sent * share_.expert_tensor, share_.expert_tensor_ranks));
  to.forward.experts += both;
  to.inputs.experts += both;
}

pass_costs layer_costs::of_layer(const layer_outline& x) const {
  pass_costs out;
  for (const auto& p : x.products) {
    // Rows of all tensor ranks meet at an expert.
    const double rows
        = share_.rows * p.rows * (p.is_of_experts() ? share_.expert_tensor / share_.tensor : 1);
    const double parts = parts_of(p, share_);
    add_product(out,
                rows,
                p.divides_inputs() ? p.inputs / parts : p.inputs,
                p.divides_inputs() ? p.outputs : p.outputs / parts,
                p.is_of_experts() ? p.matrices / share_.expert : 1,
                true);
  }
  if (x.keys > 0) {
    add_attention(out, x);
    if (share_.context > 1)
      add_context(out, x);
  }
  add_traffic(out, x.stream, share_.sequence_parallel ? share_.tensor : 1, 4);
  add_traffic(out, x.inside, share_.tensor, 3);
  if (x.routed.forward > 0)
    add_traffic(out, x.routed, share_.tensor, 6);
  add_collectives(out, x);
  return out;
}

pass_costs layer_costs::of_embedding() const {
  pass_costs out;
  const double stream = share_.rows * model_.hidden * share_.element;
  const double dropout = model_.drops ? 1 : 0;
  out.forward.kernels = memory((2 + 2 * dropout) * stream) + 2 * by_.kernel_seconds;
  out.parameters.kernels
      = memory((1 + 2 * dropout) * stream + 2 * share_.rows * model_.hidden * share_.gradient)
        + 2 * by_.kernel_seconds;
  out.forward.tensor = costs_.all_reduce(stream, share_.tensor_ranks);
  return out;
}

pass_costs layer_costs::of_head() const {
  pass_costs out;
  const double columns = model_.vocabulary / share_.tensor;
  add_product(out, share_.rows, model_.hidden, columns, 1, false);
  const auto loss = share_.fused_loss ? of_one_kernel : of_separate_kernels;
  out.forward.kernels += memory(loss.forward * share_.rows * columns) + 3 * by_.kernel_seconds;
  out.inputs.kernels += memory(loss.backward * share_.rows * columns) + 2 * by_.kernel_seconds;
  add_traffic(out, {2 * model_.hidden, 3 * model_.hidden}, 1, 1);
  const double stream = share_.rows * model_.hidden * share_.element;
  out.inputs.tensor = costs_.all_reduce(stream, share_.tensor_ranks);
  return out;
}

parameter_share parameters_of(const layer_outline& x, const rank_share& share) {
  parameter_share out{.dense = x.vectors};
  for (const auto& p : x.products) {
    const double each = p.inputs * p.outputs / parts_of(p, share);
    if (p.is_of_experts())
      out.experts += each * p.matrices / share.expert;
    else
      out.dense += each;
  }
  return out;
}

}  // namespace troupe::runtime
