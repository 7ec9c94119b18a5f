#include "runtime/trainer/decision.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

std::string join(std::string text, const std::string& more) {
  return text.empty() ? more : text + ", and " + more;
}

/// Which replicas' losses are not finite, and which parameter's gradient; empty: none.
std::string fault_of(const step_result& x) {
  std::string out;
  for (std::size_t r = 0; r < x.losses.size(); ++r)
    if (!std::isfinite(x.losses[r].total))
      out = join(out, fmt::format("the loss of replica {} is {}", r, x.losses[r].total));
  if (!x.nonfinite_parameter.empty())
    return join(out,
                fmt::format("the gradient of {}{} is not finite",
                            x.nonfinite_parameter,
                            x.nonfinite_where.empty() ? "" : " on stage " + x.nonfinite_where));
  if (out.empty() && !std::isfinite(total_norm(x.norms)))
    return "the norm of all gradients is not finite";
  return out.empty() ? out : out + ": not finite";
}

}  // namespace

step_verdict decide(const recipe& how, const training_position& at, const step_result& result) {
  step_verdict out;
  loss_value loss;
  for (const auto& part : result.losses) {
    loss.total += part.total;
    loss.tokens += part.tokens;
  }
  out.loss = loss.total / std::max(loss.tokens, 1.0);
  out.grad_norm = total_norm(result.norms);
  out.fault = fault_of(result);
  out.skipped = at.skipped;
  auto& skipped = out.skipped;
  const auto place = std::int64_t(at.consumed - at.skipped.samples);
  out.update.learning_rate
      = how.rate_of.at ? how.rate_of.at(place) : learning_rate(how.rate, place);
  if (!out.fault.empty()) {
    out.stops = at.skipped.in_a_row >= how.skippable_in_a_row;
    ++skipped.iterations;
    ++skipped.in_a_row;
    skipped.samples += std::uint64_t(global_batch_size(how.batch, std::int64_t(at.consumed)));
    skipped.nan += std::isfinite(out.loss) ? 0 : 1;
    return out;
  }
  skipped.in_a_row = 0;
  out.update.step = at.iteration + 1 - skipped.iterations;
  out.update.gradient_scale = clip_coefficient(out.grad_norm, how.optimizer.clip);
  return out;
}

std::string diagnosis(const step_verdict& x, const training_position& at) {
  const auto before = at.skipped.in_a_row;
  auto out = fmt::format(
      "iteration {}: {}; the last committed state is that of iteration {}. Try a lower --lr, a "
      "longer warm-up or a smaller --clip-grad",
      at.iteration + 1,
      x.fault,
      at.iteration);
  if (before == 0)
    return out + ", or leave such steps out: --on-nonfinite skip";
  return out
         + fmt::format(
             "; the {} steps before it were left out for the same, which is as many in a row as "
             "--max-skipped-in-a-row allows",
             before);
}

}  // namespace troupe::runtime
