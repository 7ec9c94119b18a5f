#include "runtime/model/layers/router.hpp"

#include "runtime/autograd/parts.hpp"
#include "runtime/autograd/route.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* z_loss = "z_loss";

const char* name_of(const weighted_balance& x) {
  return x.over == balanced_rows::microbatch ? "load_balancing_loss"
         : x.over == balanced_rows::sequence ? "seq_load_balancing_loss"
                                             : "global_load_balancing_loss";
}

kernels::route_rules rules_of(const router_spec& x) {
  return {.E = x.experts,
          .k = x.chosen,
          .score = x.score,
          .by_logit = x.choice == balance_choice::sinkhorn || x.choice == balance_choice::quantile,
          .groups = x.groups,
          .group_topk = x.group_topk,
          .group_best = x.group_best,
          .scale = float(x.scale)};
}

/// The rows of this rank, for files of choices. Waits for the samples on the host.
choice_rows recorded_rows(const router_layer& of, tape& tape, const pass& p, const variable& x) {
  choice_rows out{.router = of.name,
                  .experts = of.spec.experts,
                  .each = of.spec.chosen,
                  .positions = p.rows.T(),
                  .samples = elements_of<std::uint64_t>(tape.stream(), p.rows.samples),
                  .first = first_row(tape, x),
                  .count = x.data.size() / channels_of(x.data)};
  if (p.settings.replays != nullptr && p.settings.replays->finds_texts()) {
    out.tokens = elements_of<std::int32_t>(tape.stream(), p.batch.at("tokens"));
    if (p.rows.documents)
      out.texts = elements_of<std::int32_t>(tape.stream(), p.rows.documents);
    else
      for (std::size_t b = 0; b <= out.samples.size(); ++b)
        out.texts.push_back(std::int32_t(std::int64_t(b) * out.positions));
  }
  return out;
}

balance_loss balance_of(const weighted_balance& x, tape& tape, pass& p) {
  balance_loss out{.average = p.average(x.weight),
                   .by_sequence = x.over == balanced_rows::sequence};
  if (x.over == balanced_rows::step && p.settings.step_counts != nullptr) {
    out.average = p.average(x.weight / double(p.settings.step_counts->replicas()));
    out.counts = [&tape, &p](const tensor& counts) {
      return p.counts_of_step(tape.stream(), counts, p.rows.order.size());
    };
  }
  return out;
}

routed chosen(const router_layer& of, tape& tape, pass& p, const variable& x) {
  const auto& spec = of.spec;
  const bool trains = p.settings.training;
  gate_noise noise;
  if (trains && spec.jitter > 0)
    noise = {float(spec.jitter), p.dropout_key(of.name + ".jitter")};
  const auto logits = gate(tape, x, p.rows, spec.experts, of.weight, no_parameter, noise);
  route_options options{.rules = rules_of(spec),
                        .round_robin = spec.choice == balance_choice::forced,
                        .sinkhorn = trains && spec.choice == balance_choice::sinkhorn,
                        .quantile = trains && spec.choice == balance_choice::quantile};
  if (p.settings.replays != nullptr) {
    const auto rows = recorded_rows(of, tape, p, x);
    const auto given = p.settings.replays->read(rows);
    options.given = uploaded(tape.stream(), given, {rows.count, rows.each});
    options.some_given = std::ranges::find(given, -1) != given.end();
  }
  if (of.bias >= 0) {
    options.bias = tensor::empty<float>(tape.stream(), {spec.experts});
    tape.stream().copy(options.bias.raw(), tape.value<float>(of.bias), options.bias.bytes());
  }
  if (p.settings.losses) {
    for (const auto& loss : spec.losses)
      options.balance.push_back(balance_of(loss, tape, p));
    if (spec.z_weight > 0)
      options.z = p.average(spec.z_weight);
  }
  return route(tape, logits, p.rows, options);
}

void add_losses(const router_spec& spec, pass& p, const routed& found) {
  for (std::size_t i = 0; i < found.balance.size(); ++i)
    p.add_loss(name_of(spec.losses[i]), {}, found.balance[i]);
  if (found.z)
    p.add_loss(z_loss, {}, found.z);
}

expert_choice on_host(const router_spec& spec,
                      const stream& stream,
                      const pass& p,
                      const routed& found) {
  expert_choice out{.chosen = elements_of<std::int32_t>(stream, found.chosen),
                    .experts = spec.experts,
                    .each = spec.chosen};
  if (spec.capacity == 0 || !p.settings.limits_experts)
    return out;
  const auto rows = std::int64_t(out.chosen.size()) / spec.chosen;
  const auto most = capacity_of(rows, spec.chosen, spec.experts, spec.capacity);
  std::vector<float> weights;
  if (spec.drops == drop_policy::probability)
    weights = elements_of<float>(stream, found.weights.data);
  drop_rows(out.chosen, weights, spec.experts, most, spec.drops);
  if (spec.pads)
    out.padded = most;
  return out;
}

// Each tensor rank adds its part of the quantiles, which are those of all their rows.
void count(const router_layer& of, tape& tape, const routed& found, const expert_choice& choice) {
  if (of.bias < 0 || !tape.recording())
    return;
  const auto E = of.spec.experts;
  auto& stream = tape.stream();
  if (of.spec.choice == balance_choice::bias) {
    const auto rows = rows_of_each(choice.chosen, E);
    const std::vector<float> counts(rows.begin(), rows.end());
    add_statistic(tape, uploaded(stream, counts, {E}), of.bias);
  } else {
    const auto all = elements_of<float>(stream, found.quantile_bias);
    add_statistic(tape, uploaded(stream, centred(all, tape.group_size()), {E}), of.bias);
  }
}

expert_rows counts_in(const expert_choice& x, std::int64_t unit) {
  expert_rows out{.unit = unit, .counts = rows_of_each(x.chosen, x.experts)};
  out.dropped = std::int64_t(x.chosen.size()) - std::reduce(out.counts.begin(), out.counts.end());
  return out;
}

}  // namespace

std::vector<loss_spec> losses_of(const router_spec& x, std::int64_t layers) {
  std::vector<loss_spec> out;
  for (const auto& loss : x.losses)
    out.push_back({.name = name_of(loss),
                   .weight = loss.weight * double(layers),
                   .over_replicas = loss.over == balanced_rows::step});
  if (x.z_weight > 0)
    out.push_back({.name = z_loss, .weight = x.z_weight * double(layers)});
  return out;
}

router_layer::result router_layer::operator()(tape& tape, pass& p, const variable& x) const {
  if (tape.group_size() > 1)
    require_placement(x, placement::sequence_sharded, "a router");
  const auto found = chosen(*this, tape, p, x);
  add_losses(spec, p, found);
  if (p.settings.records_choices) {
    const auto all = elements_of<std::int32_t>(tape.stream(), found.chosen);
    p.choices[p.place.segment] = {recorded_rows(*this, tape, p, x), {all.begin(), all.end()}};
  }
  auto choice = on_host(spec, tape.stream(), p, found);
  count(*this, tape, found, choice);
  if (p.settings.counts_experts)
    p.expert_rows[p.place.segment] = counts_in(choice, p.place.unit);
  return {found.weights, std::move(choice)};
}

router_layer add_router(module_builder to,
                        const router_spec& x,
                        std::int64_t channels,
                        double init_std) {
  router_layer out{.spec = x, .name = to.name()};
  out.weight = to.add({.name = "weight",
                       .extents = {x.experts, channels},
                       .initial = distribution::normal(init_std),
                       .decays = true,
                       .keep_f32 = true});
  using kind = statistic::kind;
  const bool counts = x.choice == balance_choice::bias;
  if (counts || x.choice == balance_choice::quantile)
    out.bias = to.add({.name = "expert_bias",
                       .extents = {x.experts},
                       .keep_f32 = true,
                       .counted = {counts ? kind::expert_bias : kind::quantile, x.bias_rate}});
  return out;
}

}  // namespace troupe::runtime
