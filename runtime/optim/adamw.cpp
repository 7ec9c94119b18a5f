#include "runtime/optim/adamw.hpp"

#include "kernels/op/count.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using entry = resident_store::entry;

/// Whether the first tensor rank answers for it, and this is another.
bool is_repeated(const resident_store& store, const entry& e) {
  return e.is_foreign_copy() || (e.spec.along == cut::none && store.seat().rank > 0);
}

/// Calls visit(begin, end) for each grain of a range; ranges begin with a grain.
template <class Visit>
void for_each_grain(const entry_range& x, std::int64_t grain, const Visit& visit) {
  for (auto begin = x.begin; begin < x.end; begin += grain)
    visit(begin, std::min(begin + grain, x.end));
}

tensor zeros(memory_pool& pool, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  pool.clear(out.raw(), out.bytes());
  return out;
}

}  // namespace

double clip_coefficient(double norm, double clip) {
  if (clip <= 0)
    return 1;
  return std::min(1.0, clip / (norm + 1e-6));
}

double total_norm(const square_norms& parts) {
  exact_sum sum;
  for (const auto& [name, square] : parts)
    sum += square;
  return std::sqrt(sum.value());
}

void add_to(square_norms& sum, const square_norms& part) {
  for (const auto& [name, square] : part)
    sum[name] += square;
}

adamw::adamw(resident_store& store,
             const adamw_settings& settings,
             std::vector<entry_range> owned,
             memory_pool pool,
             std::int64_t grain)
    : store_(store), settings_(settings), grain_(grain) {
  constexpr std::int64_t line = 16;
  std::int64_t size = 0;
  for (const auto& range : owned)
    if (store.entries()[std::size_t(range.entry)].owner < 0) {
      parts_.push_back({range, size});
      size += (range.size() + line - 1) / line * line;
    }
  first_ = zeros(pool, size);
  second_ = zeros(pool, size);
  if (store.type() != dtype::f32)
    master_ = zeros(pool, size);
}

const float* adamw::weights_at(const part& x) const {
  if (master_)
    return master_.data<float>() + x.offset;
  const auto& e = store_.entries()[std::size_t(x.range.entry)];
  return store_.values().data() + e.value_offset + x.range.begin;
}

std::span<float> adamw::weights(const part& x) {
  return {const_cast<float*>(weights_at(x)), std::size_t(x.range.size())};
}

void adamw::set_weights(int entry, std::int64_t begin, std::span<const float> from) {
  const auto end = begin + std::int64_t(from.size());
  for (const auto& x : parts_) {
    const auto first = std::max(begin, x.range.begin), last = std::min(end, x.range.end);
    if (x.range.entry == entry && first < last)
      std::copy_n(
          from.data() + (first - begin), last - first, weights(x).data() + (first - x.range.begin));
  }
}

template <class Visit>
void adamw::for_each_answered(const Visit& visit) const {
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    if (!is_repeated(store_, e))
      for_each_grain(
          x.range, grain_, [&](std::int64_t begin, std::int64_t end) { visit(x, e, begin, end); });
  }
}

square_norms adamw::norms(stream& on) const {
  square_norms out;
  const auto gradients = store_.gradients(0);
  for_each_answered([&](const part&, const entry& e, std::int64_t begin, std::int64_t end) {
    double square = 0;
    on.run(kernels::square_norm<float>{
        &square, gradients.data() + e.gradient_offset + begin, end - begin});
    out[e.spec.name] += square;
  });
  return out;
}

std::int64_t adamw::zero_gradients(stream& on) const {
  std::int64_t out = 0;
  const auto gradients = store_.gradients(0);
  for_each_answered([&](const part&, const entry& e, std::int64_t begin, std::int64_t end) {
    std::int64_t zeros = 0;
    on.run(kernels::count_zeros<float>{
        &zeros, gradients.data() + e.gradient_offset + begin, end - begin});
    out += zeros;
  });
  return out;
}

exact_sum adamw::square_norm_of_weights(stream& on) const {
  exact_sum out;
  for_each_answered([&](const part& x, const entry&, std::int64_t begin, std::int64_t end) {
    double square = 0;
    on.run(
        kernels::square_norm<float>{&square, weights_at(x) + (begin - x.range.begin), end - begin});
    out += square;
  });
  return out;
}

void adamw::update(stream& on, const update_decision& decision) {
  const auto gradients = store_.gradients(0);
  const double t = double(decision.step - settings_.moments_from);
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    on.run(kernels::adamw<float>{.x = weights(x).data(),
                                 .m = first_moment(x).data(),
                                 .v = second_moment(x).data(),
                                 .dx = gradients.data() + e.gradient_offset + x.range.begin,
                                 .n = x.range.size(),
                                 .gradient_scale = float(decision.gradient_scale),
                                 .rate = float(decision.learning_rate),
                                 .beta1 = float(settings_.beta1),
                                 .beta2 = float(settings_.beta2),
                                 .eps = float(settings_.epsilon),
                                 .weight_decay = float(e.spec.decays ? settings_.weight_decay : 0),
                                 .correction1 = float(1 - std::pow(settings_.beta1, t)),
                                 .correction2 = float(1 - std::pow(settings_.beta2, t)),
                                 .rounded = master_ ? store_.all_values().data<kernels::bf16>()
                                                          + e.value_offset + x.range.begin
                                                    : nullptr});
  }
}

state_digests adamw::digests() const {
  state_digests out;
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    auto& sum = (is_repeated(store_, e) ? out.copies : out.own)[e.known_as()];
    for_each_grain(x.range, grain_, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t place[] = {e.spec.along == cut::none ? 0 : store_.seat().rank, begin, end};
      const auto bytes = std::size_t(end - begin) * sizeof(float);
      const auto at = begin - x.range.begin;
      digester d;
      d.add(e.known_as())
          .add(place, sizeof place)
          .add(weights_at(x) + at, bytes)
          .add(first_.data<float>() + x.offset + at, bytes)
          .add(second_.data<float>() + x.offset + at, bytes);
      sum += d.result();
    });
  }
  return out;
}

digest combine(const std::map<std::string, digest>& parts) {
  digester d;
  for (const auto& [name, part] : parts)
    d.add(name).add(part);
  return d.result();
}

void add_tied_gradients(stream& on, resident_store& store, const std::vector<entry_range>& owned) {
  float* const g = store.gradients(0).data();
  for (const auto& range : owned) {
    const auto& e = store.entries()[std::size_t(range.entry)];
    if (e.owner < 0)
      continue;
    float* const owner = g + store.entries()[std::size_t(e.owner)].gradient_offset + range.begin;
    on.run(kernels::add<float>{owner, owner, g + e.gradient_offset + range.begin, range.size()});
  }
}

}  // namespace troupe::runtime
