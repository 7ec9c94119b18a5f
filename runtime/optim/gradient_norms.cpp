#include "runtime/optim/gradient_norms.hpp"

#include "kernels/op/sum.hpp"
#include "runtime/optim/fingerprints.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace troupe::runtime {

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

// Sorts pieces that are read together, so that one operation writes adjacent results.
gradient_norms::gradient_norms(const parameter_store& store,
                               std::vector<range> ranges,
                               memory_pool& pool,
                               std::int64_t grain,
                               const gradient_prospects& prospects)
    : store_(store), grain_(std::max<std::int64_t>(1, grain)), compared_(prospects.compared) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto e = std::size_t(ranges[i].at.entry);
    const bool later = e < prospects.added_to_later.size() && prospects.added_to_later[e];
    const bool wanted = ranges[i].answered || compared_;
    pieces_.push_back({std::move(ranges[i]), i, wanted && !later, 0});
  }
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const piece& a, const piece& b) {
    return std::pair(!a.final_when_summed, !a.of.answered)
           < std::pair(!b.final_when_summed, !b.of.answered);
  });
  std::vector<std::uint64_t> keys;
  for (auto& x : pieces_) {
    x.first_grain = std::int64_t(keys.size());
    keys.insert(keys.end(), x.of.keys.begin(), x.of.keys.end());
  }
  taken_.assign(pieces_.size(), taken::nothing);
  const auto grains = std::int64_t(keys.size()), count = std::int64_t(pieces_.size());
  const auto allocated = [&](dtype type, const shape& extents) {
    return tensor(pool.allocate(std::size_t(extents.size()) * size_of(type)), type, extents);
  };
  keys_ = allocated(dtype::u64, {grains});
  squares_ = allocated(dtype::f64, {grains});
  fingerprints_ = allocated(dtype::u64, {count, 2});
  if (!pool.is_shadow())
    pool.write(keys_.raw(), keys.data(), keys_.bytes());
}

void gradient_norms::forget() {
  std::fill(taken_.begin(), taken_.end(), taken::nothing);
}

void gradient_norms::run(stream& by,
                         std::size_t begin,
                         std::size_t end,
                         bool with_fingerprints) const {
  std::vector<kernels::square_norms<float>::piece> pieces;
  for (auto i = begin; i < end; ++i) {
    const auto& x = pieces_[i];
    pieces.push_back({store_.gradients(0, x.of.at.entry) + x.of.at.begin,
                      x.of.at.size(),
                      keys_.data<std::uint64_t>() + x.first_grain});
  }
  tensor squares = squares_, fingerprints = fingerprints_;  // shares memory
  by.run(kernels::square_norms<float>{
      .results = squares.data<double>() + pieces_[begin].first_grain,
      .pieces = pieces.data(),
      .count = std::int64_t(pieces.size()),
      .grain = grain_,
      .fingerprints
      = with_fingerprints ? fingerprints.data<std::uint64_t>() + 2 * begin : nullptr});
}

template <class Due>
void gradient_norms::run_due(stream& by, bool with_fingerprints, const Due& due) const {
  for (std::size_t begin = 0, end = 0; begin < pieces_.size(); begin = std::max(end, begin + 1)) {
    end = begin;
    while (end < pieces_.size() && due(end))
      ++end;
    if (end > begin)
      run(by, begin, end, with_fingerprints);
  }
}

void gradient_norms::take(stream& by, int first, int end) {
  const auto due = [&](std::size_t i) {
    const auto& x = pieces_[i];
    return first <= x.of.at.entry && x.of.at.entry < end && x.final_when_summed
           && taken_[i] == taken::nothing;
  };
  run_due(by, compared_, due);
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    if (due(i))
      taken_[i] = compared_ ? taken::fingerprints_too : taken::norms;
}

void gradient_norms::read(reads& by, square_norms* norms, std::vector<digest>* digests) const {
  run_due(by.stream(), digests != nullptr, [&](std::size_t i) {
    if (digests != nullptr)
      return taken_[i] != taken::fingerprints_too;
    return pieces_[i].of.answered && taken_[i] == taken::nothing;
  });
  if (norms != nullptr)
    by.add<double>(squares_, [this, norms](std::span<const double> squares) {
      for (const auto& x : pieces_) {
        if (!x.of.answered)
          continue;
        auto& sum = (*norms)[store_.entries()[std::size_t(x.of.at.entry)].spec.name];
        for (std::size_t g = 0; g < x.of.keys.size(); ++g)
          sum += squares[std::size_t(x.first_grain) + g];
      }
    });
  if (digests != nullptr)
    read_fingerprints(by, fingerprints_, [this, digests](const std::vector<digest>& found) {
      digests->resize(found.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        (*digests)[pieces_[i].number] = found[i];
    });
}

}  // namespace troupe::runtime
