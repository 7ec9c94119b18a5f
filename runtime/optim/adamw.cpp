#include "runtime/optim/adamw.hpp"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// A copy of a parameter whose owner lives on another stage.
bool is_foreign_copy(const resident_store::entry& e) {
  return e.owner < 0 && !e.spec.tied_to.empty();
}

}  // namespace

double clip_coefficient(double norm, double clip) {
  if (clip <= 0)
    return 1;
  return std::min(1.0, clip / (norm + 1e-6));
}

double total_norm(const square_norms& parts) {
  double sum = 0;
  for (const auto& [name, square] : parts)
    sum += square;
  return std::sqrt(sum);
}

adamw::adamw(resident_store& store, const adamw_settings& settings, memory_pool pool)
    : store_(store), settings_(settings) {
  for (auto* const moment : {&first_, &second_}) {
    const auto n = std::int64_t(store.values().size());
    *moment = tensor(pool.allocate(std::size_t(n) * sizeof(float)), dtype::f32, {n});
    std::memset(moment->raw(), 0, moment->bytes());
  }
}

square_norms adamw::norms(stream& on) const {
  square_norms out;
  const auto gradients = store_.gradients(0);
  for (const auto& e : store_.entries()) {
    if (e.owner >= 0 || is_foreign_copy(e))
      continue;
    double square = 0;
    on.run(kernels::square_norm<float>{
        &square, gradients.data() + e.gradient_offset, valid_size(e.spec)});
    out.emplace(e.spec.name, square);
  }
  return out;
}

void adamw::update(stream& on, const update_decision& decision) {
  const auto gradients = store_.gradients(0);
  const double t = double(decision.step - settings_.moments_from);
  for (const auto& e : store_.entries()) {
    if (e.owner >= 0)
      continue;
    on.run(kernels::adamw<float>{.x = store_.values().data() + e.value_offset,
                                 .m = first_.data<float>() + e.value_offset,
                                 .v = second_.data<float>() + e.value_offset,
                                 .dx = gradients.data() + e.gradient_offset,
                                 .n = valid_size(e.spec),
                                 .gradient_scale = float(decision.gradient_scale),
                                 .rate = float(decision.learning_rate),
                                 .beta1 = float(settings_.beta1),
                                 .beta2 = float(settings_.beta2),
                                 .eps = float(settings_.epsilon),
                                 .weight_decay = float(e.spec.decays ? settings_.weight_decay : 0),
                                 .correction1 = float(1 - std::pow(settings_.beta1, t)),
                                 .correction2 = float(1 - std::pow(settings_.beta2, t))});
  }
}

std::map<std::string, digest> adamw::digests() const {
  std::map<std::string, digest> out;
  for (const auto& e : store_.entries()) {
    if (e.owner >= 0 || is_foreign_copy(e))
      continue;
    const auto bytes = std::size_t(valid_size(e.spec)) * sizeof(float);
    digester d;
    d.add(e.spec.name)
        .add(store_.values().data() + e.value_offset, bytes)
        .add(first_.data<float>() + e.value_offset, bytes)
        .add(second_.data<float>() + e.value_offset, bytes);
    out.emplace(e.spec.name, d.result());
  }
  return out;
}

digest combine(const std::map<std::string, digest>& parts) {
  digester d;
  for (const auto& [name, part] : parts)
    d.add(name).add(part);
  return d.result();
}

void add_tied_gradients(stream& on, resident_store& store) {
  float* const g = store.gradients(0).data();
  for (const auto& e : store.entries()) {
    if (e.owner < 0)
      continue;
    float* const owner = g + store.entries()[std::size_t(e.owner)].gradient_offset;
    on.run(kernels::add<float>{owner, owner, g + e.gradient_offset, e.size()});
  }
}

void sum_replicas(stream& on, resident_store& store) {
  if (store.replicas() == 1)
    return;
  std::vector<const float*> sources;
  for (int r = 0; r < store.replicas(); ++r)
    sources.push_back(store.gradients(r).data());
  const auto first = store.gradients(0);
  on.run(kernels::ordered_sum<float>{
      first.data(), sources.data(), std::int64_t(sources.size()), std::int64_t(first.size())});
}

}  // namespace troupe::runtime
