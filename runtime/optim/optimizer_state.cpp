#include "runtime/optim/optimizer_state.hpp"

#include "kernels/op/count.hpp"
#include "kernels/op/grain.hpp"
#include "kernels/op/sum.hpp"
#include "runtime/optim/fingerprints.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using entry = parameter_entry;

/// Number of arrays of a part: weights and the rule's state.
std::uint64_t arrays_of(const optimizer_state::part& x) {
  return 1 + std::uint64_t(x.at.size());
}

/// True if another rank reports this entry.
bool is_repeated(const parameter_store& store, const entry& e) {
  return e.is_foreign_copy() || !answers(e.spec, store.axes());
}

const float* gradient_of(const parameter_store& store, const entry_range& x) {
  return store.gradients(0, x.entry) + x.begin;
}

/// Used as array number in the keys of gradients.
constexpr std::uint64_t key_of_gradient = ~std::uint64_t{0};

using square_piece = kernels::square_norms<float>::piece;

/// Passes the square norms of all grains of all pieces, in order, to `then`.
void read_squares(reads& by,
                  const std::vector<square_piece>& pieces,
                  std::int64_t grain,
                  std::function<void(std::span<const double>)> then) {
  kernels::square_norms<float> op{nullptr, pieces.data(), std::int64_t(pieces.size()), grain};
  auto results = tensor::empty<double>(by.stream(), {grains_of(op)});
  op.results = results.data<double>();
  by.stream().run(op);
  by.add<double>(results, std::move(then));
}

tensor zeros(memory_pool& pool, std::int64_t n) {
  tensor out(pool.allocate_apart(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  pool.clear(out.raw(), out.bytes());
  return out;
}

}  // namespace

double clip_coefficient(double norm, double clip) {
  if (clip <= 0)
    return 1;
  return std::min(1.0, clip / (norm + 1e-6));
}

optimizer_state::optimizer_state(parameter_store& store,
                                 const optimizer_settings& settings,
                                 std::vector<entry_range> owned,
                                 memory_pool pool,
                                 std::int64_t grain,
                                 optimizer_groups groups,
                                 const state_arrays& from,
                                 const gradient_prospects& prospects,
                                 bool keeps_frozen)
    : store_(store), settings_(settings), grain_(grain), groups_(std::move(groups)) {
  constexpr std::int64_t line = 16;
  std::int64_t masters = 0, state = 0;
  for (const auto& range : owned) {
    const auto& e = store.entries()[std::size_t(range.entry)];
    if (e.owner >= 0)
      continue;
    const auto words = e.spec.frozen
                           ? (range.size() * std::int64_t(size_of(store.type_of(e))) + 3) / 4
                           : range.size();
    const auto room = (words + line - 1) / line * line;
    const bool kept = !e.spec.frozen || keeps_frozen;
    auto& x = parts_.emplace_back(part{.range = range,
                                       .rule = rule_of(settings, e.spec),
                                       .frozen = e.spec.frozen,
                                       .counted = e.spec.is_counted() && !e.spec.frozen,
                                       .words = words,
                                       .offset = kept ? masters : -1});
    ensure(!x.counted
               || (range.size() == e.valid && e.spec.extents.rank() == 1
                   && store.type_of(e) == dtype::f32),
           "STATISTIC-1: statistics update a vector in f32, and one rank all of it");
    masters += kept ? room : 0;
    for (std::size_t i = 0; !x.frozen && !x.counted && i < state_names(x.rule).size();
         ++i, state += room)
      x.at.push_back(state);
    arrays_ += std::int64_t(arrays_of(x));
  }
  state_ = from.kept ? from.kept : zeros(pool, state);
  if (store.type() != dtype::f32)
    master_ = from.weights ? from.weights : zeros(pool, masters);
  ensure(state_.size() == state && (!master_ || master_.size() == masters),
         "OPTIMIZER-2: arrays that an optimizer takes over are as large as its own");
  make_keys(pool, prospects);
}

state_arrays optimizer_state::arrays() const {
  if (master_)
    return {master_, state_};
  const auto* const values = store_.value_array();
  ensure(values != nullptr, "OPTIMIZER-1: f32 values that are exchanged lie in one array");
  return {*values, state_};
}

state_arrays optimizer_state::empty_arrays(memory_pool& pool) const {
  const auto like = arrays();
  if (master_)
    return {zeros(pool, like.weights.size()), zeros(pool, like.kept.size())};
  // f32 values: other ranks gather them (resident_store.cpp).
  tensor weights(pool.allocate_shared(like.weights.bytes()), dtype::f32, {like.weights.size()});
  pool.clear(weights.raw(), weights.bytes());
  return {std::move(weights), zeros(pool, like.kept.size())};
}

void optimizer_state::exchange(const state_arrays& to) {
  const auto now = arrays();
  ensure(to.weights.size() == now.weights.size() && to.kept.size() == now.kept.size(),
         "OPTIMIZER-2: arrays that an optimizer takes over are as large as its own");
  fingerprints_ = {};
  state_ = to.kept;
  (master_ ? master_ : *store_.value_array()) = to.weights;
}

std::int64_t optimizer_state::weights_offset(const part& x) const {
  if (master_)
    return x.offset;
  const auto* const begin = store_.value_array()->raw();
  return weights_at(x) - reinterpret_cast<const float*>(begin);
}

std::vector<std::pair<std::int64_t, std::int64_t>> optimizer_state::own_weights() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const auto& x : parts_) {
    const auto begin = weights_offset(x);
    out.emplace_back(begin, begin + x.words);
  }
  return out;
}

void add_keys_of_grains(const digested_part& x,
                        std::uint64_t array,
                        std::int64_t grain,
                        std::vector<std::uint64_t>& to) {
  struct grain_key {
    std::uint64_t name;
    std::int64_t rank, begin, end;
    std::uint64_t what;
  };
  grain_key where{.name = hash64(x.parameter), .rank = x.shard, .what = array};
  for (where.begin = x.begin; where.begin < x.end; where.begin += grain) {
    where.end = std::min(where.begin + grain, x.end);
    to.push_back(hash64(&where, sizeof where));
  }
}

std::vector<digested_part> optimizer_state::digested() const {
  std::vector<digested_part> out;
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    const auto matrices = matrices_of(e.spec, store_.axes());  // STACK-1
    const auto matrix = matrices.at(x.range.begin);
    const auto first = x.range.begin - matrix * matrices.each;
    const auto begin = x.frozen ? words_of(type_of(x), first) : first;
    out.push_back({.parameter = e.known_as(),
                   .repeated = is_repeated(store_, e),
                   .shard = shard_index(e.spec, store_.axes(), matrix),
                   .begin = begin,
                   .end = begin + x.words,
                   .at = x.at});
  }
  return out;
}

// Grains never move, so their keys are created once.
void optimizer_state::make_keys(memory_pool& pool, const gradient_prospects& prospects) {
  std::int64_t n = 0;
  for (const auto& x : parts_)
    n += std::int64_t(arrays_of(x)) * kernels::grains_in(x.words, grain_);
  keys_ = tensor(pool.allocate(std::size_t(n) * sizeof(std::uint64_t)), dtype::u64, {n});
  const auto told = digested();
  std::vector<gradient_norms::range> ranges;
  for (std::size_t i = 0; i < told.size(); ++i)
    if (!parts_[i].frozen) {
      ranges.push_back({parts_[i].range, !parts_[i].counted && !told[i].repeated, {}});
      add_keys_of_grains(told[i], key_of_gradient, grain_, ranges.back().keys);
    }
  gradients_.emplace(store_, std::move(ranges), pool, grain_, prospects);
  if (pool.is_shadow())
    return;
  std::vector<std::uint64_t> keys;
  for (const auto& x : told)
    for (std::uint64_t array = 0; array <= x.at.size(); ++array)
      add_keys_of_grains(x, array, grain_, keys);
  pool.write(keys_.raw(), keys.data(), keys_.bytes());
}

const float* optimizer_state::weights_at(const part& x) const {
  if (master_ && x.offset >= 0)
    return master_.data<float>() + x.offset;
  const auto& store = std::as_const(store_);
  return reinterpret_cast<const float*>(store.values(x.range.entry))
         + words_of(type_of(x), x.range.begin);
}

std::span<float> optimizer_state::state(const part& x, std::size_t array) {
  fingerprints_ = {};
  return {state_.data<float>() + x.at.at(array), std::size_t(x.range.size())};
}

std::span<float> optimizer_state::weights(const part& x) {
  fingerprints_ = {};
  return {const_cast<float*>(weights_at(x)), std::size_t(x.words)};
}

void optimizer_state::set_weights(int entry, std::int64_t begin, std::span<const float> from) {
  const auto end = begin + std::int64_t(from.size());
  for (const auto& x : parts_) {
    const auto first = std::max(begin, x.range.begin), last = std::min(end, x.range.end);
    if (x.range.entry != entry || first >= last)
      continue;
    const auto some = from.subspan(std::size_t(first - begin), std::size_t(last - first));
    const auto& e = store_.entries()[std::size_t(entry)];
    const bool rounds = x.frozen && store_.type_of(e) != dtype::f32;
    const auto element = size_of(rounds ? store_.type_of(e) : dtype::f32);
    std::vector<std::byte> rounded(rounds ? some.size() * element : 0);
    if (rounds)
      store_.round(e, some, rounded.data());
    store_.pool().write(reinterpret_cast<std::byte*>(weights(x).data())
                            + std::size_t(first - x.range.begin) * element,
                        rounds ? static_cast<const void*>(rounded.data()) : some.data(),
                        some.size() * element);
  }
}

template <class Visit>
void optimizer_state::for_each_answered(const Visit& visit) const {
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    if (!is_repeated(store_, e) && !x.frozen && !x.counted)
      visit(x, e);
  }
}

void optimizer_state::zero_gradients(reads& by, by_view<std::int64_t>& to) const {
  std::vector<square_piece> pieces;
  std::vector<std::int64_t*> sums;
  for_each_answered([&](const part& x, const entry& e) {
    pieces.push_back({gradient_of(store_, x.range), x.range.size()});
    sums.push_back(&to[e.spec.placements.view()]);
  });
  // The buffer of u64 holds one count per piece.
  auto counts = tensor::empty<std::uint64_t>(by.stream(), {std::int64_t(pieces.size())});
  for (std::size_t i = 0; i < pieces.size(); ++i)
    by.stream().run(kernels::count_zeros<float>{
        reinterpret_cast<std::int64_t*>(counts.raw()) + i, pieces[i].x, pieces[i].n});
  by.add<std::uint64_t>(counts, [sums = std::move(sums)](std::span<const std::uint64_t> found) {
    for (std::size_t i = 0; i < found.size(); ++i)
      *sums[i] += std::int64_t(found[i]);
  });
}

void optimizer_state::square_norm_of_weights(reads& by, by_view<exact_sum>& to) const {
  std::vector<square_piece> pieces;
  std::vector<exact_sum*> sums;  // of each grain
  for_each_answered([&](const part& x, const entry& e) {
    pieces.push_back({weights_at(x), x.range.size()});
    sums.insert(sums.end(),
                std::size_t(kernels::grains_in(x.range.size(), grain_)),
                &to[e.spec.placements.view()]);
  });
  read_squares(by, pieces, grain_, [sums = std::move(sums)](std::span<const double> squares) {
    for (std::size_t i = 0; i < squares.size(); ++i)
      *sums[i] += squares[i];
  });
}

void optimizer_state::digests(reads& by, chunk_digests& to) const {
  std::vector<digest*> sums;
  for (const auto& x : parts_) {
    const auto& e = store_.entries()[std::size_t(x.range.entry)];
    auto* const sum = &(is_repeated(store_, e) ? to.copies : to.own)[e.known_as()];
    sums.insert(sums.end(), arrays_of(x), sum);
  }
  const auto add = [sums = std::move(sums)](const std::vector<digest>& found) {
    for (std::size_t i = 0; i < found.size(); ++i)
      *sums[i] += found[i];
  };
  if (fingerprints_)
    return read_fingerprints(by, fingerprints_, add);
  std::vector<fingerprint_piece> pieces;
  const auto* key = keys_.data<std::uint64_t>();
  for (const auto& x : parts_)
    for (const auto& array : arrays_at(x, key))
      pieces.push_back({array.x, array.n, array.keys});
  read_fingerprints(by, pieces, grain_, add);
}

digest combine(const std::map<std::string, digest>& parts) {
  digester d;
  for (const auto& [name, part] : parts)
    d.add(name).add(part);
  return d.result();
}

}  // namespace troupe::runtime
