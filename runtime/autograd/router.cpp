#include "runtime/autograd/router.hpp"

#include "kernels/op/sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

struct statistic_node final : node {
  tensor sums;
  int parameter;

  void input_gradients(tape&) override {}

  void weight_gradients(tape& tape) override {
    if (!tape.trains({parameter}))
      return;
    const auto place = tape.place_of_gradient(parameter);
    const auto* const from = sums.data<float>();
    if (place.accumulates)
      tape.stream().run(kernels::add<float>{place.to, place.to, from, sums.size()});
    else
      tape.stream().copy(place.to, from, sums.bytes());
  }
};

}  // namespace

std::int64_t capacity_of(std::int64_t rows,
                         std::int64_t chosen,
                         std::int64_t experts,
                         double factor) {
  // The limit comes first: int64 does not hold every product.
  const auto most = std::ceil(double(rows * chosen) / double(experts) * factor);
  return std::int64_t(std::min(double(rows), most));
}

void drop_rows(std::vector<std::int32_t>& chosen,
               std::span<const float> weights,
               std::int64_t experts,
               std::int64_t capacity,
               drop_policy policy) {
  std::vector<std::vector<std::size_t>> of_expert(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < chosen.size(); ++i)
    of_expert[std::size_t(chosen[i])].push_back(i);
  const auto key = [&](std::size_t i) {
    return std::isnan(weights[i]) ? std::numeric_limits<float>::infinity() : weights[i];
  };
  for (auto& rows : of_expert) {
    if (std::int64_t(rows.size()) <= capacity)
      continue;
    if (policy == drop_policy::probability)
      std::ranges::stable_sort(rows, std::ranges::greater(), key);
    for (auto i = std::size_t(capacity); i < rows.size(); ++i)
      chosen[rows[i]] = -1;
  }
}

std::vector<float> centred(std::vector<float> x, int parts) {
  const auto mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
  for (auto& one : x)
    one = float((double(one) - mean) / parts);
  return x;
}

std::vector<std::int64_t> rows_of_each(const std::vector<std::int32_t>& chosen,
                                       std::int64_t experts) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(experts));
  for (const auto e : chosen)
    if (e >= 0)
      ++out[std::size_t(e)];
  return out;
}

void add_statistic(tape& tape, tensor sums, int parameter) {
  auto n = std::make_unique<statistic_node>();
  n->sums = std::move(sums);
  n->parameter = parameter;
  tape.record(std::move(n));
}

}  // namespace troupe::runtime
