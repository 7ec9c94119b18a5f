// optimizer_state::update, by the rule of each part.

#include "kernels/op/adamw.hpp"
#include "kernels/op/cast.hpp"
#include "kernels/op/expert_bias.hpp"
#include "kernels/op/fingerprint.hpp"
#include "kernels/op/momentum.hpp"
#include "runtime/optim/muon.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

kernels::narrow_type narrow_type_of(dtype x) {
  return x == dtype::f16 ? kernels::narrow_type::f16 : kernels::narrow_type::bf16;
}

}  // namespace

double optimizer_state::rate_of(const part& x, const update_decision& decision) const {
  const auto& spec = store_.entries()[std::size_t(x.range.entry)].spec;
  return spec.embedding_or_output
             ? decision.decoupled_learning_rate.value_or(decision.learning_rate)
             : decision.learning_rate;
}

double optimizer_state::decay_of(const part& x, const update_decision& decision) const {
  const auto& spec = store_.entries()[std::size_t(x.range.entry)].spec;
  return spec.decays ? decision.weight_decay.value_or(settings_.weight_decay) : 0;
}

void* optimizer_state::values_at(const part& x) {
  return store_.values(x.range.entry) + std::size_t(x.range.begin) * size_of(type_of(x));
}

void* optimizer_state::rounded_at(const part& x) {
  return master_ && !copies_master(x) ? values_at(x) : nullptr;
}

const float* optimizer_state::gradient_at(const part& x) const {
  return std::as_const(store_).gradients(0, x.range.entry) + x.range.begin;
}

std::vector<optimizer_state::stored_array> optimizer_state::arrays_at(
    const part& x, const std::uint64_t*& key) const {
  std::vector<stored_array> out;
  const auto add = [&](const float* array) {
    out.push_back({array, x.words, key});
    key += kernels::grains_in(x.words, grain_);
  };
  add(weights_at(x));
  for (const auto at : x.at)
    add(state_.data<float>() + at);
  return out;
}

void optimizer_state::update(stream& stream, const update_decision& decision, std::int64_t passes) {
  update(stream, decision, {}, passes);
}

void optimizer_state::update_beside(stream& stream,
                                    const update_decision& decision,
                                    const state_arrays& to,
                                    std::int64_t passes) {
  const auto from = arrays();
  exchange(to);
  for (const auto& x : parts_)  // AdamW reads the old state in place
    if (x.frozen || x.counted || x.rule != optimizer_kind::adam)
      copy_part(stream, x, from);
  update(stream, decision, from, passes);
}

void optimizer_state::copy_part(stream& stream, const part& x, const state_arrays& from) {
  const auto bytes = std::size_t(x.words) * sizeof(float);
  stream.copy(weights(x).data(), from.weights.data<float>() + weights_offset(x), bytes);
  for (std::size_t i = 0; i < x.at.size(); ++i)
    stream.copy(state(x, i).data(), from.kept.data<float>() + x.at[i], bytes);
}

void optimizer_state::round_values(stream& stream) {
  for (const auto& x : parts_)
    round_weights(stream, x);
}

void optimizer_state::round_dropped_values(stream& stream) {
  std::vector<const part*> dropped;
  for (const auto& x : parts_)
    if (lacks_values(x))
      dropped.push_back(&x);
  for (const auto* const x : dropped)
    round_weights(stream, *x);
}

void optimizer_state::round_weights(stream& stream, const part& x) {
  if (!master_)
    return;
  auto* const to = values_at(x);
  const float* const from = weights_at(x);
  if (x.frozen || copies_master(x)) {
    if (static_cast<const void*>(from) != to)
      stream.copy(to, from, std::size_t(x.range.size()) * size_of(type_of(x)));
    return;
  }
  if (store_.type() == dtype::f16)
    stream.run(kernels::narrow<kernels::f16>{static_cast<kernels::f16*>(to), from, x.range.size()});
  else
    stream.run(
        kernels::narrow<kernels::bf16>{static_cast<kernels::bf16*>(to), from, x.range.size()});
}

// Groups adjacent parts that AdamW updates at one rate. If values are recomputed, groups stay
// within a unit. The smallest units come first, because each frees more memory than it takes.
std::vector<optimizer_state::run> optimizer_state::runs_of(const update_decision& decision,
                                                           bool by_unit) const {
  std::vector<run> out;
  std::map<int, std::int64_t> elements;  // by unit
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& x = parts_[i];
    if (x.frozen)
      continue;
    elements[unit_of(x)] += x.range.size();
    if (x.rule == optimizer_kind::muon)
      continue;
    const auto* const before = out.empty() || out.back().end != i ? nullptr : &parts_[i - 1];
    if (before != nullptr && !x.counted && !before->counted && x.rule == optimizer_kind::adam
        && before->rule == x.rule && rate_of(*before, decision) == rate_of(x, decision)
        && (!by_unit || unit_of(*before) == unit_of(x)))
      out.back().end = i + 1;
    else
      out.push_back({i, i + 1});
  }
  if (by_unit)
    std::stable_sort(out.begin(), out.end(), [&](const run& a, const run& b) {
      return elements.at(unit_of(parts_[a.begin])) < elements.at(unit_of(parts_[b.begin]));
    });
  return out;
}

// Fingerprints of all arrays are computed while they are written.
void optimizer_state::update(stream& stream,
                             const update_decision& decision,
                             const state_arrays& from,
                             std::int64_t passes) {
  auto fingerprints = tensor::empty<std::uint64_t>(stream, {arrays_, 2});
  auto* results = fingerprints.data<std::uint64_t>();
  const auto* key = keys_.data<std::uint64_t>();
  wanted to;
  for (const auto& x : parts_) {
    const auto arrays = 1 + std::int64_t(x.at.size());
    to.push_back({results, key, std::max<std::int64_t>(1, grain_)});
    results += 2 * arrays;
    key += arrays * kernels::grains_in(x.words, grain_);
  }
  const bool by_unit = std::any_of(
      parts_.begin(), parts_.end(), [this](const part& x) { return lacks_values(x); });
  std::map<int, int> left;  // by unit: parts that still need their gradients
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& x = parts_[i];
    if (!x.frozen) {
      ++left[unit_of(x)];
      continue;
    }
    const kernels::fingerprint<float>::piece all{weights_at(x), x.words, to[i].keys};
    stream.run(kernels::fingerprint<float>{to[i].results, &all, 1, to[i].grain});
  }
  const auto done = [&](const part& x) {
    if (--left[unit_of(x)] == 0 && by_unit)
      store_.drop_gradients_of(unit_of(x));
  };
  if (settings_.kind == optimizer_kind::muon) {
    update_muon(stream, decision, to);
    for (const auto& x : parts_)
      if (x.rule == optimizer_kind::muon && !x.frozen)
        done(x);
  }
  for (const auto& x : runs_of(decision, by_unit)) {
    if (parts_[x.begin].counted)
      update_counted(stream, parts_[x.begin], passes, to[x.begin]);
    else if (parts_[x.begin].rule == optimizer_kind::adam)
      update_adam(stream, decision, from, x.begin, x.end, to);
    else
      update_momentum(stream, decision, parts_[x.begin], to[x.begin]);
    for (auto i = x.begin; i < x.end; ++i)
      if (copies_master(parts_[i]))
        round_weights(stream, parts_[i]);
    std::for_each(
        parts_.begin() + std::ptrdiff_t(x.begin), parts_.begin() + std::ptrdiff_t(x.end), done);
  }
  fingerprints_ = std::move(fingerprints);
}

void optimizer_state::update_adam(stream& stream,
                                  const update_decision& decision,
                                  const state_arrays& from,
                                  std::size_t begin,
                                  std::size_t end,
                                  const wanted& to) {
  const double t = double(decision.step - settings_.moments_from);
  std::vector<kernels::adamw_pieces<float>::piece> pieces;
  for (auto i = begin; i < end; ++i) {
    const auto& x = parts_[i];
    pieces.push_back({.x = weights(x).data(),
                      .m = first_moment(x).data(),
                      .v = second_moment(x).data(),
                      .dx = gradient_at(x),
                      .rounded = rounded_at(x),
                      .n = x.range.size(),
                      .weight_decay = float(decay_of(x, decision)),
                      .keys = to[i].keys});
    if (from.weights)
      pieces.back().from = {from.weights.data<float>() + weights_offset(x),
                            from.kept.data<float>() + x.at[0],
                            from.kept.data<float>() + x.at[1]};
  }
  stream.run(kernels::adamw_pieces<float>{.pieces = pieces.data(),
                                          .count = std::int64_t(pieces.size()),
                                          .rounded_to = narrow_type_of(store_.type()),
                                          .gradient_scale = float(decision.gradient_scale),
                                          .rate = float(rate_of(parts_[begin], decision)),
                                          .beta1 = float(settings_.beta1),
                                          .beta2 = float(settings_.beta2),
                                          .eps = float(settings_.epsilon),
                                          .correction1 = float(1 - std::pow(settings_.beta1, t)),
                                          .correction2 = float(1 - std::pow(settings_.beta2, t)),
                                          .fingerprints = to[begin].results,
                                          .grain = to[begin].grain});
}

void optimizer_state::update_momentum(stream& stream,
                                      const update_decision& decision,
                                      const part& x,
                                      const kernels::written_fingerprints& to) {
  const bool lion = x.rule == optimizer_kind::lion;
  stream.run(kernels::momentum_step<float>{
      .x = weights(x).data(),
      .m = first_moment(x).data(),
      .dx = gradient_at(x),
      .n = x.range.size(),
      .rule = lion ? kernels::momentum_rule::lion : kernels::momentum_rule::sgd,
      .gradient_scale = float(decision.gradient_scale),
      .rate = float(rate_of(x, decision)),
      .beta1 = float(lion ? settings_.lion_beta1 : settings_.sgd_momentum),
      .beta2 = float(lion ? settings_.lion_beta2 : 0),
      .weight_decay = float(decay_of(x, decision)),
      .rounded = rounded_at(x),
      .rounded_to = narrow_type_of(store_.type()),
      .fingerprints = to});
}

void optimizer_state::update_counted(stream& stream,
                                     const part& x,
                                     std::int64_t passes,
                                     const kernels::written_fingerprints& to) {
  const auto& by = store_.entries()[std::size_t(x.range.entry)].spec.counted;
  float* const values = weights(x).data();
  if (by.of == statistic::kind::expert_bias) {
    stream.run(
        kernels::expert_bias_step<float>{values, gradient_at(x), x.range.size(), float(by.rate)});
    const kernels::fingerprint<float>::piece all{values, x.words, to.keys};
    stream.run(kernels::fingerprint<float>{to.results, &all, 1, to.grain});
  } else {
    stream.run(kernels::scaled_sum<float>{.y = values,
                                          .x = values,
                                          .z = gradient_at(x),
                                          .n = x.range.size(),
                                          .a = float(1 - by.rate),
                                          .b = float(by.rate / double(passes)),
                                          .fingerprints = to});
  }
}

// Goes through the entries in order, because all ranks take part in each.
void optimizer_state::update_muon(stream& stream,
                                  const update_decision& decision,
                                  const wanted& to) {
  const auto& muon = settings_.muon;
  auto begin = parts_.begin(), end = begin;  // the parts of an entry
  for (const auto& e : store_.entries()) {
    while (end != parts_.end() && end->range.entry <= e.index)
      ++end;
    const auto own = std::span(std::exchange(begin, end), end);
    if (e.owner >= 0 || e.spec.frozen || rule_of(settings_, e.spec) != optimizer_kind::muon)
      continue;
    auto change = tensor::empty<float>(stream, {e.size()});
    float* const all = change.data<float>();
    if (e.valid < e.size())  // the padding is part of the matrix
      stream.clear(all + e.valid, std::size_t(e.size() - e.valid) * sizeof(float));
    for (const auto& x : own)
      mix_momentum(stream, decision, x, to[index_of(x)], all + x.range.begin);
    if (const auto* const owners = owners_of(e.index)) {
      std::vector<std::int64_t> ends;
      for (const auto element : owners->ends)
        ends.push_back(element * std::int64_t(sizeof(float)));
      owners->group->all_gather(stream, all + (own.empty() ? 0 : own[0].range.begin), all, ends);
    }
    const auto matrices = matrices_of(e.spec, store_.axes());
    const auto one = one_of(e.spec);
    auto* const group = groups_.along[axis_of_matrices(e.spec)];
    for (std::int64_t i = 0; i < matrices.count; ++i)
      orthogonalize(stream, muon, one, store_.axes(), group, all + i * matrices.each);
    for (const auto& x : own) {
      const double rate = rate_of(x, decision);
      float* const values = weights(x).data();
      stream.run(kernels::scaled_sum<float>{.y = values,
                                            .x = values,
                                            .z = all + x.range.begin,
                                            .n = x.range.size(),
                                            .a = float(1 - rate * decay_of(x, decision)),
                                            .b = float(-rate),
                                            .fingerprints = to[index_of(x)]});
      round_weights(stream, x);
    }
  }
}

void optimizer_state::mix_momentum(stream& stream,
                                   const update_decision& decision,
                                   const part& x,
                                   const kernels::written_fingerprints& of_weights,
                                   float* change) {
  const auto& muon = settings_.muon;
  float* const m = first_moment(x).data();
  const auto mix = [&](float* sum, const kernels::written_fingerprints& of_sum) {
    stream.run(kernels::scaled_sum<float>{.y = sum,
                                          .x = m,
                                          .z = gradient_at(x),
                                          .n = x.range.size(),
                                          .a = float(muon.momentum),
                                          .b = float((1 - muon.momentum) * decision.gradient_scale),
                                          .fingerprints = of_sum});
  };
  mix(m,
      {of_weights.results + 2,
       of_weights.keys + kernels::grains_in(x.range.size(), of_weights.grain),
       of_weights.grain});
  if (muon.nesterov)
    mix(change, {});
  else
    stream.run(kernels::scaled_sum<float>{change, m, nullptr, x.range.size()});
}

const optimizer_groups::owners* optimizer_state::owners_of(int entry) const {
  if (std::size_t(entry) >= groups_.of_entry.size())
    return nullptr;
  const auto& out = groups_.of_entry[std::size_t(entry)];
  return out.group != nullptr && out.group->size() > 1 ? &out : nullptr;
}

}  // namespace troupe::runtime
