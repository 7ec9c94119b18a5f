#include "runtime/model/slot_plan.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::runtime {
namespace {

float rank_of(float weight) {
  return std::isnan(weight) ? std::numeric_limits<float>::infinity() : weight;
}

}  // namespace

std::int64_t capacity_of(std::int64_t R, std::int64_t k, std::int64_t E, double factor) {
  ensure(factor >= 0 && E >= 1, "SLOT-1: a capacity has a factor of at least 0, and experts");
  // The limit comes first: int64 does not hold every product.
  return std::int64_t(std::min(double(R), std::ceil(double(R * k) / double(E) * factor)));
}

slot_plan plan_slots(std::span<const std::int32_t> chosen,
                     std::span<const float> weights,
                     std::int64_t k,
                     std::int64_t E,
                     const capacity_rules& rules) {
  const bool limited = rules.factor > 0;
  ensure(limited || !rules.padded, "SLOT-1: experts are padded to a capacity");
  ensure(k >= 1 && chosen.size() <= std::numeric_limits<std::int32_t>::max(),
         "SLOT-1: rows choose experts, and int32 numbers the choices");
  std::vector<std::vector<std::int32_t>> of(static_cast<std::size_t>(E));
  for (std::size_t i = 0; i < chosen.size(); ++i)
    of.at(std::size_t(chosen[i])).push_back(std::int32_t(i));

  slot_plan out{.slot = std::vector<std::int32_t>(chosen.size(), -1), .offsets = {0}};
  const auto capacity
      = std::size_t(capacity_of(std::int64_t(chosen.size()) / k, k, E, rules.factor));
  for (auto& choices : of) {
    if (limited && choices.size() > capacity) {
      out.dropped += std::int64_t(choices.size() - capacity);
      if (!rules.by_position)
        std::ranges::stable_sort(choices, [&](std::int32_t a, std::int32_t b) {
          return rank_of(weights[std::size_t(a)]) > rank_of(weights[std::size_t(b)]);
        });
      choices.resize(capacity);
      std::ranges::sort(choices);
    }
    for (const auto i : choices) {
      out.slot[std::size_t(i)] = std::int32_t(out.place.size());
      out.place.push_back(i);
    }
    if (rules.padded)
      out.place.resize(std::size_t(out.offsets.back()) + capacity, -1);
    out.offsets.push_back(std::int64_t(out.place.size()));
  }
  return out;
}

}  // namespace troupe::runtime
