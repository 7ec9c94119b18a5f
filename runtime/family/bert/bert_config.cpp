#include "runtime/family/bert/bert_config.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

// 2^31 - 1: a product of two sizes fits in 64 bits.
constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t most_layers = 10000;  // a spec of this size is small
// Keeps the bytes of parameters, gradients and optimizer state within 64 bits.
constexpr double largest_model = 1e17;

void require(std::string_view setting,
             std::int64_t value,
             std::int64_t least,
             std::int64_t most,
             sentences& out) {
  if (value < least || value > most)
    out.push_back(
        fmt::format("`model.{}` is {}; give a value from {} to {}", setting, value, least, most));
}

double parameters_of(const bert_config& x) {
  const auto C = double(x.hidden), F = double(x.ffn);
  return C * (double(x.vocabulary) + double(x.positions) + double(x.types))
         + double(x.layers) * C * (4 * C + 2 * F);
}

void validate_numbers(const bert_config& x, sentences& out) {
  if (!(x.norm_epsilon > 0) || !std::isfinite(x.norm_epsilon))
    out.push_back(fmt::format("`model.norm_epsilon` is {}; give a positive number, usually 1e-5",
                              x.norm_epsilon));
  if (!(x.init_std >= 0) || !std::isfinite(x.init_std))
    out.push_back(fmt::format("`model.init_std` is {}; give 0 or a positive number, usually 0.02",
                              x.init_std));
  const std::pair<const char*, double> dropouts[]
      = {{"`model.hidden_dropout`", x.hidden_dropout},
         {"`model.attention_dropout`", x.attention_dropout}};
  for (const auto& [setting, p] : dropouts)
    if (!(p >= 0 && p < 1))
      out.push_back(fmt::format("{} is {}; give a probability from 0 to below 1", setting, p));
}

void validate_task(const task_settings& x, sentences& out) {
  if (!x.is_on()) {
    if (x != task_settings())
      out.emplace_back(
          "`model.task.labels`, `model.task.train`, `model.task.valid` and `model.task.epochs` "
          "need "
          "`model.task.kind`: name the task, or leave them out");
    return;
  }
  if (x.train.empty())
    out.emplace_back("`model.task.kind` needs `model.task.train` FILE: the labelled texts");
  if (x.kind != task_kind::csv && !x.labels.empty())
    out.push_back(fmt::format(
        "`model.task.labels` are of `model.task.kind` csv, and {} has its own: leave them out",
        to_string(x.kind)));
  const std::set<std::string> different(x.labels.begin(), x.labels.end());
  if (x.kind == task_kind::csv && (different.size() < 2 || different.size() < x.labels.size()))
    out.emplace_back(
        "`model.task.kind` csv needs `model.task.labels` LABEL...: two or more different ones");
}

}  // namespace

std::vector<std::string> validate(const bert_config& x) {
  sentences out;
  validate_masking(x.masking, out);
  validate_task(x.task, out);
  require("layers", x.layers, 1, most_layers, out);
  require("hidden", x.hidden, 1, largest, out);
  require("heads", x.heads, 1, largest, out);
  require("ffn", x.ffn, 1, largest, out);
  require("sequence", x.sequence, 5, largest, out);  // [CLS] A [SEP] B [SEP]
  require("types", x.types, x.binary_head ? 2 : 0, largest, out);
  require("vocabulary", x.vocabulary, 4, largest, out);  // [CLS], [SEP], [MASK] and a token
  if (out.empty()) {
    if (x.hidden % x.heads != 0)
      out.push_back(fmt::format(
          "`model.hidden` {} is not a multiple of `model.heads` {}: give the nearest multiple, "
          "`model.hidden` {}",
          x.hidden,
          x.heads,
          std::max<std::int64_t>(1, (x.hidden + x.heads / 2) / x.heads) * x.heads));
    if (x.padded_vocabulary < x.vocabulary || x.padded_vocabulary > largest)
      out.push_back(fmt::format(
          "the padded vocabulary has {} rows, but `model.vocabulary` is {}; give at least {}",
          x.padded_vocabulary,
          x.vocabulary,
          x.vocabulary));
    if (const auto n = parameters_of(x); n > largest_model)
      out.push_back(
          fmt::format("the model would have {:.3g} parameters; reduce `model.layers`, "
                      "`model.hidden` or `model.ffn` to stay below {:.0g}",
                      n,
                      largest_model));
  }
  if (x.positions < x.sequence || x.positions > largest)
    out.push_back(fmt::format(
        "`model.positions` is {}, but positions are learned and `model.sequence` is {}; give at "
        "least {}",
        x.positions,
        x.sequence,
        x.sequence));
  validate_numbers(x, out);
  return out;
}

}  // namespace troupe::runtime
