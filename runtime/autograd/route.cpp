#include "runtime/autograd/route.hpp"

#include "kernels/op/cast.hpp"
#include "kernels/op/jitter.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/sinkhorn.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <type_traits>
#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct gate_node final : node {
  tensor x;  ///< (R, C)
  std::shared_ptr<gradient_slot> dx, dy;
  tensor dlogits;  ///< (R, E) between I and W
  tensor samples;
  std::int64_t R, C, E, rows_of_sequence, first;
  gate_noise noise;
  int weight, bias;

  /// Multiplies by the random factors. `to` may be `from`.
  void disturb(tape& tape, const tensor& from, tensor& to) const {
    tape.stream().run(kernels::jitter<float>{.y = to.data<float>(),
                                             .x = from.data<float>(),
                                             .R = R,
                                             .C = C,
                                             .T_ = rows_of_sequence,
                                             .eps = noise.eps,
                                             .key = noise.key,
                                             .sample = samples.data<std::uint64_t>(),
                                             .first_row = first});
  }

  /// x in f32, with noise.
  tensor input(tape& tape) const {
    tensor wide = x;
    if constexpr (!std::is_same_v<T, float>) {
      wide = tensor::empty<float>(tape.stream(), x.extents());
      tape.stream().run(kernels::widen<T>{wide.data<float>(), x.data<T>(), x.size()});
    }
    if (noise.eps == 0)
      return wide;
    auto out = std::is_same_v<T, float> ? tensor::empty<float>(tape.stream(), x.extents()) : wide;
    disturb(tape, wide, out);
    return out;
  }

  void input_gradients(tape& tape) override {
    dlogits = std::move(dy->sum);
    if (!dx)
      return;
    tensor wide = tensor::empty<float>(tape.stream(), x.extents());
    tape.stream().run(kernels::linear_backward_input<float>{.dx = wide.data<float>(),
                                                            .dz = dlogits.data<float>(),
                                                            .weight = tape.value<float>(weight),
                                                            .R = R,
                                                            .N = E,
                                                            .K = C});
    if (noise.eps != 0)
      disturb(tape, wide, wide);
    if constexpr (std::is_same_v<T, float>) {
      tape.add(*dx, std::move(wide));
    } else {
      auto part = tensor::empty<T>(tape.stream(), x.extents());
      tape.stream().run(kernels::narrow<T>{part.template data<T>(), wide.data<float>(), x.size()});
      tape.add(*dx, std::move(part));
    }
  }

  void weight_gradients(tape& tape) override {
    if (!tape.trains({weight, bias}))
      return;
    const auto all = input(tape);
    const auto of_weight = tape.place_of_gradient(weight), of_bias = tape.place_of_gradient(bias);
    tape.stream().run(kernels::linear_backward_weight<float>{of_weight.to,
                                                             of_bias.to,
                                                             dlogits.data<float>(),
                                                             all.template data<float>(),
                                                             R,
                                                             E,
                                                             C,
                                                             of_weight.accumulates,
                                                             of_bias.accumulates});
  }
};

template <class T>
variable run_gate(tape& tape,
                  const variable& x,
                  const row_layout& rows,
                  std::int64_t E,
                  int weight,
                  int bias,
                  const gate_noise& noise) {
  auto n = std::make_unique<gate_node<T>>();
  n->x = x.data;
  n->dx = x.gradient;
  n->samples = rows.samples;
  n->C = channels_of(x.data);
  n->R = x.data.size() / n->C;
  n->E = E;
  n->rows_of_sequence = rows.T();
  n->first = first_row(tape, x);
  n->noise = noise;
  n->weight = weight;
  n->bias = bias;
  auto y = tensor::empty<float>(tape.stream(), with_channels(x.data.extents(), E));
  const auto in = n->input(tape);
  tape.stream().run(
      kernels::linear_forward<float>{.y = y.data<float>(),
                                     .z = nullptr,
                                     .x = in.template data<float>(),
                                     .weight = tape.value<float>(weight),
                                     .bias = bias < 0 ? nullptr : tape.value<float>(bias),
                                     .R = n->R,
                                     .N = E,
                                     .K = n->C,
                                     .row_invariant = tape.stream().row_invariant()});
  auto result = tape.make(std::move(y), x.placements);
  n->dy = result.gradient;
  tape.record(std::move(n));
  return result;
}

/// The logits of this rank's rows, what `route` keeps of them, and operations on them.
struct routed_rows {
  kernels::route_rules rules;
  tensor logits, chosen, lse, total;
  std::int64_t B, T, R, first;

  /// Sums of this rank (B E + 1) f64 and counts (B, E) u64, for this choice. No sums: counts only.
  void sum(stream& stream, const tensor& choice, tensor* sums, tensor& counts) const {
    stream.run(kernels::route_sums<float>{.sums = sums ? sums->data<double>() : nullptr,
                                          .counts = counts.data<std::uint64_t>(),
                                          .logits = logits.data<float>(),
                                          .chosen = choice.data<std::int32_t>(),
                                          .lse = lse.data<float>(),
                                          .total = total.data<float>(),
                                          .R = R,
                                          .S = B,
                                          .T_ = T,
                                          .rules = rules,
                                          .first_row = first});
  }
};

struct route_node final : node {
  routed_rows of;
  std::shared_ptr<gradient_slot> dlogits, dweights;
  tensor dprobabilities;  ///< (B, E) f32; empty without balance losses
  double dsquare = 0;

  void input_gradients(tape& tape) override {
    const auto up = std::move(dweights->sum);
    auto part = tensor::empty<float>(tape.stream(), of.logits.extents());
    tape.stream().run(kernels::route_backward<float>{.dlogits = part.data<float>(),
                                                     .dweights = up.data<float>(),
                                                     .dprobabilities = dprobabilities.data<float>(),
                                                     .logits = of.logits.data<float>(),
                                                     .chosen = of.chosen.data<std::int32_t>(),
                                                     .lse = of.lse.data<float>(),
                                                     .total = of.total.data<float>(),
                                                     .R = of.R,
                                                     .T_ = of.T,
                                                     .rules = of.rules,
                                                     .dsquare = dsquare,
                                                     .first_row = of.first});
    tape.add(*dlogits, std::move(part));
    of = {};
    dprobabilities = {};
  }
};

void require_rules(const route_options& options) {
  const auto& x = options.rules;
  ensure(x.E >= 1 && x.E <= kernels::most_experts && x.k >= 1 && x.k <= x.E,
         "ROUTE-1: the numbers of experts and of chosen experts are in range");
  ensure(x.groups >= 1 && x.E % x.groups == 0 && x.group_topk >= 1 && x.group_topk <= x.groups
             && x.group_best >= 1 && x.group_best <= x.E / x.groups
             && x.group_topk * (x.E / x.groups) >= x.k,
         "ROUTE-1: groups divide the experts, and the chosen groups have enough of them");
  ensure(!options.sinkhorn || (!options.bias && kernels::keys_are_logits(x)),
         "ROUTE-1: sinkhorn is a bias of the logits");
  ensure(!options.quantile || (x.groups == 1 && x.k < x.E),
         "ROUTE-1: quantiles need one group and an expert that is not chosen");
}

bool is_sharded(const variable& logits) {
  return logits.placements[axis::tensor] == placement::sequence_sharded;
}

void require_tensors(const tape& tape,
                     const variable& logits,
                     const row_layout& rows,
                     const route_options& options) {
  const std::int64_t E = options.rules.E, parts = is_sharded(logits) ? tape.group_size() : 1;
  ensure(channels_of(logits.data) == E, "ROUTE-1: each row has a logit for each expert");
  const std::int64_t R = logits.data.size() / E;
  ensure(R * parts == rows.order.size(), "ROUTE-1: the ranks' rows are those of the micro-batch");
  ensure(!options.bias || options.bias.size() == E, "ROUTE-1: each expert has a bias");
  ensure(!options.given || options.given.size() == R * options.rules.k,
         "ROUTE-1: a given choice has k experts for each row");
}

/// `mine` of each tensor rank, in rank order, written to `to`.
tensor gathered(tape& tape, const tensor& mine, tensor to) {
  const auto ends = equal_ends(std::int64_t(to.bytes()), tape.group_size());
  tape.group(axis::tensor).all_gather(tape.stream(), mine.raw(), to.raw(), ends);
  return to;
}

/// The bias of expert_quantile for the rows of all tensor ranks.
tensor quantile_of_all(tape& tape,
                       const routed_rows& of,
                       const tensor& cutoff,
                       std::int64_t parts) {
  auto& stream = tape.stream();
  const auto all = [&](const tensor& mine) {
    if (parts == 1)
      return mine;
    return gathered(tape, mine, tensor::empty<float>(stream, {parts, mine.size()}));
  };
  const auto logits = all(of.logits), lse = all(of.lse), cutoffs = all(cutoff);
  auto out = tensor::empty<float>(stream, {of.rules.E});
  stream.run(kernels::expert_quantile<float>{.bias = out.data<float>(),
                                             .logits = logits.data<float>(),
                                             .lse = lse.data<float>(),
                                             .cutoff = cutoffs.data<float>(),
                                             .R = of.R * parts,
                                             .rules = of.rules});
  return out;
}

/// The losses of all ranks' rows, and the gradient of their probabilities.
void add_losses(tape& tape,
                const routed_rows& of,
                const route_options& options,
                std::int64_t parts,
                const tensor& choice,
                routed& out,
                tensor& dprobabilities) {
  auto& stream = tape.stream();
  const std::int64_t E = of.rules.E;
  auto sums = tensor::empty<double>(stream, {of.B * E + 1});
  auto counts = tensor::empty<std::uint64_t>(stream, {of.B, E});
  of.sum(stream, choice, &sums, counts);
  if (parts > 1) {
    sums = gathered(tape, sums, tensor::empty<double>(stream, {parts, of.B * E + 1}));
    counts = gathered(tape, counts, tensor::empty<std::uint64_t>(stream, {parts, of.B, E}));
  }
  kernels::route_losses<float> op{.balance = nullptr,
                                  .z = nullptr,
                                  .dprobabilities = nullptr,
                                  .sums = sums.data<double>(),
                                  .counts = counts.data<std::uint64_t>(),
                                  .counts_of_all = nullptr,
                                  .parts = parts,
                                  .S = of.B,
                                  .E = E,
                                  .k = of.rules.k,
                                  .T_ = of.T};
  if (options.z) {
    out.z = tensor::empty<double>(stream, {2});
    op.z = out.z.data<double>();
    if (options.balance.empty())
      stream.run(op);
  }
  if (tape.recording() && !options.balance.empty())
    dprobabilities = tensor::empty<float>(stream, {of.B, E});
  for (const auto& loss : options.balance) {
    const auto other = loss.counts ? loss.counts(counts) : counted_choices();
    ensure(!loss.counts || (other.counts.size() == E && other.rows > 0),
           "ROUTE-1: counts of a balance loss have experts and rows");
    out.balance.push_back(tensor::empty<double>(stream, {2}));
    op.balance = out.balance.back().data<double>();
    op.counts_of_all = other.counts.data<std::uint64_t>();
    op.rows_of_all = other.rows;
    op.merged = !loss.by_sequence;
    op.dprobabilities = dprobabilities.data<float>();
    op.dmean = double(loss.average.scale);
    stream.run(op);
    op.z = nullptr;
    op.accumulates = true;
  }
}

/// `given`, with the choices of `own` in place of -1.
std::vector<std::int32_t> with_own(std::vector<std::int32_t> given,
                                   const std::vector<std::int32_t>& own) {
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i] < 0)
      given[i] = own[i];
  return given;
}

}  // namespace

variable gate(tape& tape,
              const variable& x,
              const row_layout& rows,
              std::int64_t experts,
              int weight,
              int bias,
              const gate_noise& noise) {
  require_residual(x, "gate");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_gate<T>(tape, x, rows, experts, weight, bias, noise);
  });
}

routed route(tape& tape,
             const variable& logits,
             const row_layout& rows,
             const route_options& options) {
  require_residual(logits, "route");
  require_rules(options);
  require_tensors(tape, logits, rows, options);
  auto& stream = tape.stream();
  const auto& rules = options.rules;
  const std::int64_t E = rules.E, R = logits.data.size() / E;
  const std::int64_t parts = is_sharded(logits) ? tape.group_size() : 1;
  const auto of_choice = with_channels(logits.data.extents(), rules.k);
  const auto floats
      = [&](bool wanted) { return wanted ? tensor::empty<float>(stream, {R}) : tensor(); };

  auto bias = options.bias;
  if (options.sinkhorn) {
    bias = tensor::empty<float>(stream, {E});
    stream.run(kernels::sinkhorn<float>{
        .bias = bias.data<float>(), .logits = logits.data.data<float>(), .R = R, .E = E});
  }
  routed_rows of{.rules = rules,
                 .logits = logits.data,
                 .chosen = tensor::empty<std::int32_t>(stream, of_choice),
                 .lse = floats(true),
                 .total = floats(kernels::scores_alone(rules)),
                 .B = rows.order.extents()[0],
                 .T = rows.T(),
                 .R = R,
                 .first = first_row(tape, logits)};
  auto weights = tensor::empty<float>(stream, of_choice);
  auto cutoff = floats(options.quantile);
  kernels::route<float> op{.chosen = of.chosen.data<std::int32_t>(),
                           .weights = weights.data<float>(),
                           .lse = of.lse.data<float>(),
                           .total = of.total.data<float>(),
                           .cutoff = cutoff.data<float>(),
                           .logits = of.logits.data<float>(),
                           .bias = bias.data<float>(),
                           .given = options.given.data<std::int32_t>(),
                           .R = R,
                           .rules = rules,
                           .round_robin = options.round_robin,
                           .first_row = of.first};
  tensor given;
  if (options.some_given) {
    op.given = nullptr;
    stream.run(op);
    given = uploaded(stream,
                     with_own(elements_of<std::int32_t>(stream, options.given),
                              elements_of<std::int32_t>(stream, of.chosen)),
                     of_choice);
    op.given = given.data<std::int32_t>();
  }
  stream.run(op);

  routed out{.weights = tape.make(std::move(weights), logits.placements),
             .chosen = of.chosen,
             .counts = tensor::empty<std::uint64_t>(stream, {of.B, E})};
  of.sum(stream, of.chosen, nullptr, out.counts);
  if (options.quantile)
    out.quantile_bias = quantile_of_all(tape, of, cutoff, parts);
  tensor dprobabilities;
  if (options.z || !options.balance.empty()) {
    auto choice = of.chosen;
    if (bias || options.given || options.round_robin || rules.groups > 1) {
      choice = tensor::empty<std::int32_t>(stream, of_choice);
      op = {.chosen = choice.data<std::int32_t>(),
            .logits = of.logits.data<float>(),
            .R = R,
            .rules = {.E = E, .k = rules.k, .score = rules.score, .by_logit = rules.by_logit}};
      stream.run(op);
    }
    add_losses(tape, of, options, parts, choice, out, dprobabilities);
  }
  if (tape.recording()) {
    auto n = std::make_unique<route_node>();
    if (options.z)
      n->dsquare = options.z->weight(double(of.B * of.T), of.B * of.T);
    n->of = std::move(of);
    n->dlogits = logits.gradient;
    n->dweights = out.weights.gradient;
    n->dprobabilities = std::move(dprobabilities);
    tape.record(std::move(n));
  }
  return out;
}

}  // namespace troupe::runtime
