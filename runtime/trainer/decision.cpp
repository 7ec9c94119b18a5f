#include "runtime/trainer/decision.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

std::string join(std::string text, const std::string& more) {
  return text.empty() ? more : text + ", and " + more;
}

/// The first non-finite part of each loss and replica, and the first parameter with a non-finite
/// gradient; empty: none.
std::string fault_of(const std::vector<loss_spec>& names, const step_result& x) {
  std::string out;
  std::set<std::pair<int, int>> named;
  for (const auto& part : x.losses)
    if (!std::isfinite(part.total) && named.emplace(part.number, part.loss).second)
      out = join(out,
                 is_only_lm_loss(names)
                     ? fmt::format("the loss of replica {} is {}", part.number, part.total)
                     : fmt::format("the {} of replica {} in unit {} is {}",
                                   names[std::size_t(part.loss)].name,
                                   part.number,
                                   part.unit,
                                   part.total));
  if (!x.nonfinite_parameter.empty())
    return join(out,
                fmt::format("the gradient of {}{} is not finite",
                            x.nonfinite_parameter,
                            x.nonfinite_where.empty() ? "" : " on stage " + x.nonfinite_where));
  if (out.empty() && !std::isfinite(total_norm(x.norms)))
    return "the norm of all gradients is not finite";
  return out.empty() ? out : out + ": not finite";
}

/// A note about a loss scale that cannot fall further.
std::string standing_scale(const recipe& recipe, const loss_scale& at) {
  return recipe.scaling.constant > 0
             ? fmt::format(", with the constant loss scale {} (`scaling.constant`)", at.value)
             : fmt::format(", though the loss scale is down at its minimum, {} (`scaling.minimum`)",
                           at.value);
}

/// Converts the mean over all rows of the step to the mean over the tokens that count.
double mean_of_rows(const recipe& recipe, const training_position& at, double tokens) {
  if (!recipe.per_token_loss || tokens == 0)
    return 1;
  const auto samples = global_batch_size(recipe.batch, std::int64_t(at.consumed));
  return double(samples * recipe.model.sequence()) / tokens;
}

}  // namespace

void add_to(std::vector<loss_value>& to, const std::vector<loss_part>& parts) {
  const auto out_of_order
      = [](const loss_part& a, const loss_part& b) { return a.order() >= b.order(); };
  ensure(std::ranges::adjacent_find(parts, out_of_order) == parts.end(),
         "STEP-10: a vote has each loss once, by replica and unit");
  for (const auto& part : parts) {
    ensure(part.loss >= 0 && std::size_t(part.loss) < to.size(),
           "STEP-10: a vote has losses of its model");
    to[std::size_t(part.loss)] += {part.total, part.tokens};
  }
}

step_losses means_of(const std::vector<loss_spec>& losses, const std::vector<loss_value>& sums) {
  step_losses out{.loss = std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto part = losses[i].weight * sums[i].mean();
    if (!is_only_lm_loss(losses))
      out.by_name.push_back({losses[i].name, sums[i].mean()});
    if (i == 0)
      out.loss = part;
    else if (sums[i].tokens > 0)
      out.loss += part;
  }
  return out;
}

step_verdict decide(const recipe& recipe,
                    const std::vector<loss_spec>& losses,
                    const training_position& at,
                    const step_result& result) {
  step_verdict out;
  std::vector<loss_value> sums(losses.size());
  add_to(sums, result.losses);
  auto means = means_of(losses, sums);
  out.loss = means.loss;
  out.losses = std::move(means.by_name);
  const double mean = mean_of_rows(recipe, at, sums.empty() ? 0 : sums.front().tokens);
  out.grad_norm = total_norm(result.norms) / at.scale.factor() * mean;
  out.fault = fault_of(losses, result);
  if (at.scale.is_used())
    out.scale = next_scale(recipe.scaling, at.scale, out.fault.empty());
  out.skipped = at.skipped;
  auto& skipped = out.skipped;
  const auto place = std::int64_t(at.consumed - at.skipped.samples);
  const auto factor = rate_factor(recipe.rate_changes, at.iteration + 1);
  out.update.learning_rate
      = factor * (recipe.rate_of.at ? recipe.rate_of.at(place) : learning_rate(recipe.rate, place));
  if (recipe.rate.decoupled_maximum > 0)
    out.update.decoupled_learning_rate = factor * decoupled_learning_rate(recipe.rate, place);
  out.update.weight_decay = weight_decay(recipe.optimizer.decay(), place);
  if (!out.fault.empty()) {
    const bool dynamic = at.scale.is_used() && recipe.scaling.constant == 0;
    out.overflows = dynamic && can_fall(recipe.scaling, at.scale);
    out.before = dynamic ? at.scale.at_minimum : at.skipped.in_a_row;
    out.stops = !out.overflows && out.before >= recipe.skippable_in_a_row;
    if (at.scale.is_used() && !out.overflows)
      out.fault += standing_scale(recipe, at.scale);
    ++skipped.iterations;
    ++skipped.in_a_row;
    skipped.samples += std::uint64_t(global_batch_size(recipe.batch, std::int64_t(at.consumed)));
    skipped.nan
        += std::ranges::all_of(sums, [](const auto& sum) { return std::isfinite(sum.total); }) ? 0
                                                                                               : 1;
    return out;
  }
  skipped.in_a_row = 0;
  out.update.step = at.iteration + 1 - skipped.iterations;
  out.update.gradient_scale
      = clip_coefficient(out.grad_norm, recipe.optimizer.clip) / at.scale.factor() * mean;
  return out;
}

std::string diagnosis(const step_verdict& x, const training_position& at) {
  auto out = fmt::format(
      "iteration {}: {}; the last committed state is that of iteration {}. Try {}a lower "
      "`rate.maximum`, a "
      "longer warm-up or a smaller `optimizer.clip`",
      at.iteration + 1,
      x.fault,
      at.iteration,
      at.scale.is_used() ? "`precision=bf16`, " : "");
  if (x.before == 0)
    return out + ", or skip such steps: `nonfinite` skip";
  return out
         + fmt::format(
             "; the {} steps before it were skipped for the same reason, and "
             "`skippable_in_a_row` allows no more in a row",
             x.before);
}

}  // namespace troupe::runtime
