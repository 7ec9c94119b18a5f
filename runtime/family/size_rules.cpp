#include "runtime/family/size_rules.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::runtime {

void require_sizes(const std::vector<named_size>& sizes, std::vector<std::string>& out) {
  for (const auto& x : sizes)
    if (x.value < x.least || x.value > x.most)
      out.push_back(fmt::format(
          "`model.{}` is {}; give a value from {} to {}", x.setting, x.value, x.least, x.most));
}

void require_padding(std::int64_t vocabulary, std::int64_t padded, std::vector<std::string>& out) {
  if (padded < vocabulary || padded > largest_size)
    out.push_back(fmt::format(
        "the padded vocabulary has {} rows, but `model.vocabulary` is {}; give at least {}",
        padded,
        vocabulary,
        vocabulary));
}

void require_parameters(double count, const char* layers, std::vector<std::string>& out) {
  constexpr double most = 1e17;
  if (count > most)
    out.push_back(
        fmt::format("the model would have {:.3g} parameters; reduce `model.{}`, `model.hidden` or "
                    "`model.ffn` to stay below {:.0g}",
                    count,
                    layers,
                    most));
}

void require_numbers(double norm_epsilon,
                     const char* usual_epsilon,
                     double init_std,
                     double hidden_dropout,
                     double attention_dropout,
                     std::vector<std::string>& out) {
  if (!(norm_epsilon > 0) || !std::isfinite(norm_epsilon))
    out.push_back(fmt::format("`model.norm_epsilon` is {}; give a positive number, usually {}",
                              norm_epsilon,
                              usual_epsilon));
  if (!(init_std >= 0) || !std::isfinite(init_std))
    out.push_back(
        fmt::format("`model.init_std` is {}; give 0 or a positive number, usually 0.02", init_std));
  for (const auto& [setting, p] : {std::pair("hidden_dropout", hidden_dropout),
                                   std::pair("attention_dropout", attention_dropout)})
    if (!(p >= 0 && p < 1))
      out.push_back(
          fmt::format("`model.{}` is {}; give a probability from 0 to below 1", setting, p));
}

void require_positions(std::int64_t positions,
                       std::int64_t sequence,
                       std::vector<std::string>& out) {
  if (positions < sequence || positions > largest_size)
    out.push_back(
        fmt::format("`model.positions` is {}, but positions are learned and `model.sequence` is "
                    "{}; give at least {}, or shorten `model.sequence`",
                    positions,
                    sequence,
                    sequence));
}

void require_multiple(std::int64_t hidden,
                      std::int64_t heads,
                      const char* instead,
                      std::vector<std::string>& out) {
  if (hidden % heads != 0)
    out.push_back(fmt::format(
        "`model.hidden` {} is not a multiple of `model.heads` {}: give the nearest multiple, "
        "`model.hidden` {}{}",
        hidden,
        heads,
        std::max<std::int64_t>(1, (hidden + heads / 2) / heads) * heads,
        instead));
}

void require_choice(const char* setting,
                    std::string_view value,
                    const std::vector<std::string_view>& all,
                    std::vector<std::string>& out) {
  if (std::ranges::find(all, value) == all.end())
    out.push_back(fmt::format("`model.{}` is '{}'; give {} or {}",
                              setting,
                              value,
                              fmt::join(all.begin(), all.end() - 1, ", "),
                              all.back()));
}

void require_buckets(std::int64_t buckets,
                     std::int64_t most_distance,
                     std::vector<std::string>& out) {
  // The buckets of one direction, of which half have one distance each.
  if (buckets < 4 || buckets % 4 != 0 || buckets > 65536)
    out.push_back(
        fmt::format("`model.buckets` is {}: the encoder halves them for two directions, and each "
                    "half again; give {}",
                    buckets,
                    std::clamp<std::int64_t>((buckets + 2) / 4 * 4, 4, 65536)));
  else if (most_distance <= buckets / 2 || most_distance > largest_size)
    out.push_back(
        fmt::format("`model.most_distance` is {}, but {} of `model.buckets` {} have one distance "
                    "each; give at least {}",
                    most_distance,
                    buckets / 2,
                    buckets,
                    buckets / 2 + 1));
}

}  // namespace troupe::runtime
