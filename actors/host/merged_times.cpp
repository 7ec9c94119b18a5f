#include "actors/host/merged_times.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

using messages::stage_times;
using messages::unlisted_times;

/// A bin has the numbers that are equal in their exponent and in 5 bits of the fraction.
constexpr int bits_within_bin = 52 - 5;
constexpr double shortest = 0x1p-20;  ///< about a microsecond; begins a bin

constexpr std::tuple causes
    = {std::pair(&stage_times::computing, &unlisted_times::computing),
       std::pair(&stage_times::redeeming, &unlisted_times::redeeming),
       std::pair(&stage_times::awaiting_batches, &unlisted_times::awaiting_batches)};

template <class Use>
void for_each_cause(Use use) {
  std::apply([&](const auto&... x) { (use(x.first, x.second), ...); }, causes);
}

void add(std::vector<unlisted_times>& to, const unlisted_times& x) {
  auto at = std::ranges::lower_bound(to, x.stage_index, {}, &unlisted_times::stage_index);
  if (at == to.end() || at->stage_index != x.stage_index)
    at = to.insert(at, {.stage_index = x.stage_index});
  for_each_cause([&](auto, auto bins) {
    for (const auto& [bin, workers] : x.*bins)
      ((*at).*bins)[bin] += workers;
  });
}

/// Splits the workers of a stage into those to list and the others.
unlisted_times keep_slowest(std::vector<stage_times>& of_stage) {
  std::vector<stage_times> kept;
  std::vector<bool> is_slow(of_stage.size());
  for_each_cause([&](auto seconds, auto) {
    std::vector<std::size_t> order(of_stage.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    const auto most = order.begin() + std::ptrdiff_t(std::min(order.size(), slowest_listed));
    std::ranges::partial_sort(order, most, [&](std::size_t a, std::size_t b) {
      const auto &x = of_stage[a], &y = of_stage[b];
      return x.*seconds != y.*seconds ? x.*seconds > y.*seconds : x.replica < y.replica;
    });
    std::for_each(order.begin(), most, [&](std::size_t i) { is_slow[i] = true; });
  });
  unlisted_times out{.stage_index = of_stage.front().stage_index};
  for (std::size_t i = 0; i < of_stage.size(); ++i)
    if (is_slow[i])
      kept.push_back(of_stage[i]);
    else
      for_each_cause([&](auto seconds, auto bins) { ++(out.*bins)[bin_of(of_stage[i].*seconds)]; });
  of_stage = std::move(kept);
  return out;
}

}  // namespace

int bin_of(double seconds) {
  return seconds >= shortest ? int(std::bit_cast<std::uint64_t>(seconds) >> bits_within_bin) : 0;
}

double middle_of_bin(int bin) {
  constexpr auto half = std::uint64_t(1) << (bits_within_bin - 1);
  return bin == 0 ? 0 : std::bit_cast<double>((std::uint64_t(bin) << bits_within_bin) | half);
}

void merge_times(messages::vote& to, messages::vote& x) {
  const auto place = [](const stage_times& one) { return std::pair(one.stage_index, one.replica); };
  std::vector<stage_times> all, of_stage;
  std::ranges::merge(to.times, x.times, std::back_inserter(all), {}, place, place);
  for (const auto& one : std::exchange(x.other_times, {}))
    add(to.other_times, one);
  to.times.clear();
  for (auto begin = all.begin(); begin != all.end();) {
    const int stage = begin->stage_index;
    const auto end = std::find_if(
        begin, all.end(), [&](const stage_times& one) { return one.stage_index != stage; });
    of_stage.assign(begin, end);
    if (of_stage.size() > all_listed
        || std::ranges::binary_search(to.other_times, stage, {}, &unlisted_times::stage_index))
      add(to.other_times, keep_slowest(of_stage));
    std::ranges::move(of_stage, std::back_inserter(to.times));
    begin = end;
  }
}

}  // namespace troupe::actors
