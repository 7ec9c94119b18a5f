#include "runtime/optim/adamw.hpp"

#include "runtime/optim/fingerprints.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
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

std::vector<double> squares_of(stream& on,
                               const std::vector<kernels::square_norms<float>::piece>& pieces) {
  auto results = tensor::empty<double>(on, {std::int64_t(pieces.size())});
  on.run(kernels::square_norms<float>{
      results.data<double>(), pieces.data(), std::int64_t(pieces.size())});
  return elements_of<double>(on, results);
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
      store_.pool().write(weights(x).data() + (first - x.range.begin),
                          from.data() + (first - begin),
                          std::size_t(last - first) * sizeof(float));
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
  std::vector<kernels::square_norms<float>::piece> pieces;
  std::vector<const std::string*> names;
  const auto gradients = store_.gradients(0);
  for_each_answered([&](const part&, const entry& e, std::int64_t begin, std::int64_t end) {
    pieces.push_back({gradients.data() + e.gradient_offset + begin, end - begin});
    names.push_back(&e.spec.name);
  });
  const auto squares = squares_of(on, pieces);
  square_norms out;
  for (std::size_t i = 0; i < squares.size(); ++i)
    out[*names[i]] += squares[i];
  return out;
}

std::int64_t adamw::zero_gradients(stream& on) const {
  std::vector<std::pair<const float*, std::int64_t>> pieces;
  const auto gradients = store_.gradients(0);
  for_each_answered([&](const part&, const entry& e, std::int64_t begin, std::int64_t end) {
    pieces.emplace_back(gradients.data() + e.gradient_offset + begin, end - begin);
  });
  // A count fits where a u64 does.
  const auto counts = tensor::empty<std::uint64_t>(on, {std::int64_t(pieces.size())});
  auto* const to = const_cast<std::byte*>(counts.raw());
  for (std::size_t i = 0; i < pieces.size(); ++i)
    on.run(kernels::count_zeros<float>{
        reinterpret_cast<std::int64_t*>(to) + i, pieces[i].first, pieces[i].second});
  std::int64_t out = 0;
  for (const auto zeros : elements_of<std::uint64_t>(on, counts))
    out += std::int64_t(zeros);
  return out;
}

exact_sum adamw::square_norm_of_weights(stream& on) const {
  std::vector<kernels::square_norms<float>::piece> pieces;
  for_each_answered([&](const part& x, const entry&, std::int64_t begin, std::int64_t end) {
    pieces.push_back({weights_at(x) + (begin - x.range.begin), end - begin});
  });
  exact_sum out;
  for (const double square : squares_of(on, pieces))
    out += square;
  return out;
}

void adamw::update(stream& on, const update_decision& decision) {
  const auto gradients = store_.gradients(0);
  const double t = double(decision.step - settings_.moments_from);
  std::vector<kernels::adamw_pieces<float>::piece> pieces;
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    auto* const rounded
        = master_ ? store_.all_values().raw()
                        + std::size_t(e.value_offset + x.range.begin) * size_of(store_.type())
                  : nullptr;
    pieces.push_back({.x = weights(x).data(),
                      .m = first_moment(x).data(),
                      .v = second_moment(x).data(),
                      .dx = gradients.data() + e.gradient_offset + x.range.begin,
                      .rounded = rounded,
                      .n = x.range.size(),
                      .weight_decay = float(e.spec.decays ? settings_.weight_decay : 0)});
  }
  on.run(kernels::adamw_pieces<float>{.pieces = pieces.data(),
                                      .count = std::int64_t(pieces.size()),
                                      .rounded_to = store_.type() == dtype::f16
                                                        ? kernels::narrow_type::f16
                                                        : kernels::narrow_type::bf16,
                                      .gradient_scale = float(decision.gradient_scale),
                                      .rate = float(decision.learning_rate),
                                      .beta1 = float(settings_.beta1),
                                      .beta2 = float(settings_.beta2),
                                      .eps = float(settings_.epsilon),
                                      .correction1 = float(1 - std::pow(settings_.beta1, t)),
                                      .correction2 = float(1 - std::pow(settings_.beta2, t))});
}

state_digests adamw::digests(stream& on) const {
  enum class kind : std::uint64_t { weights, first, second };
  struct place {
    std::uint64_t name;
    std::int64_t rank, begin, end;
    kind what;
  };
  std::vector<kernels::fingerprint<float>::piece> pieces;
  state_digests out;
  std::vector<digest*> sums;
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    auto& sum = (is_repeated(store_, e) ? out.copies : out.own)[e.known_as()];
    const auto name = hash64(e.known_as());
    const auto rank = e.spec.along == cut::none ? 0 : store_.seat().rank;
    for_each_grain(x.range, grain_, [&](std::int64_t begin, std::int64_t end) {
      const auto add = [&](const float* array, kind what) {
        const place where{name, rank, begin, end, what};
        pieces.push_back({array, end - begin, hash64(&where, sizeof where)});
        sums.push_back(&sum);
      };
      const auto at = begin - x.range.begin;
      add(weights_at(x) + at, kind::weights);
      add(first_.data<float>() + x.offset + at, kind::first);
      add(second_.data<float>() + x.offset + at, kind::second);
    });
  }
  const auto found = fingerprints_of(on, pieces);
  for (std::size_t i = 0; i < found.size(); ++i)
    *sums[i] += found[i];
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
