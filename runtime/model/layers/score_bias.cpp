#include "runtime/model/layers/score_bias.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

std::int64_t buckets_of_direction(const relative_bias_spec& x) {
  return x.both_ways ? x.buckets / 2 : x.buckets;
}

}  // namespace

std::int32_t relative_bucket(const relative_bias_spec& x, std::int64_t distance) {
  const auto buckets = buckets_of_direction(x), exact = buckets / 2;
  const auto first = x.both_ways && distance > 0 ? buckets : 0;
  const auto back = x.both_ways ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (back < exact)
    return std::int32_t(first + back);
  const float turns = std::log(float(back) / float(exact))
                      / float(std::log(double(x.most) / double(exact))) * float(buckets - exact);
  return std::int32_t(first + std::min(buckets - 1, exact + std::int64_t(turns)));
}

std::vector<float> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads)
    power *= 2;
  std::vector<float> out;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto exponent = h < power ? double(h + 1) / double(power)
                                    : double(2 * (h - power) + 1) / double(2 * power);
    out.push_back(float(std::exp2(-8 * exponent)));
  }
  return out;
}

score_bias_layer add_score_bias(module_builder& to,
                                const std::optional<relative_bias_spec>& relative,
                                bool alibi,
                                std::int64_t heads,
                                bool causal) {
  const auto own = heads / to.tensor_ranks();
  score_bias_layer out{
      .relative = relative, .alibi = alibi, .causal = causal, .heads = own, .all_heads = heads};
  if (!relative)
    return out;
  const auto buckets = buckets_of_direction(*relative);
  ensure(!alibi && buckets >= 2 && relative->most > buckets / 2,
         "LAYER-2: biases come from ALiBi, or from two buckets or more per direction");
  out.table = to.add({.name = "relative_attention_bias.weight",
                      .extents = {relative->buckets, heads},
                      .initial = distribution::normal(relative->init_std),
                      .decays = true,
                      .tied_to = relative->tied_to,
                      .placements = {{axis::tensor, column_sharded()}}});
  return out;
}

score_bias score_bias_layer::operator()(tape& tape, std::int64_t queries, std::int64_t keys) const {
  if (!relative && !alibi)
    return {};
  const auto first = std::int32_t(1 - queries);
  const auto count = queries + (causal ? 0 : keys - 1);
  if (relative) {
    const auto& of = *relative;
    const auto bucket = constant(
        tape.stream(),
        fmt::format("buckets {} {} {} {} {}", of.buckets, of.most, of.both_ways, first, count),
        {count},
        [&](std::int64_t i) { return relative_bucket(of, first + i); });
    return relative_bias(tape, table, {of.buckets, heads}, bucket, first);
  }
  const auto slopes = alibi_slopes(all_heads);
  const auto first_head = tape.rank() * heads;
  auto values = constant(
      tape.stream(),
      fmt::format("alibi {} {} {} {} {}", all_heads, first_head, heads, first, count),
      {heads, count},
      [&](std::int64_t i) {
        return -slopes[std::size_t(first_head + i / count)] * float(std::abs(first + i % count));
      });
  return {{.data = std::move(values), .placements = {{axis::tensor, placement::feature_sharded}}},
          first};
}

}  // namespace troupe::runtime
