#include "actors/monitor/log_line.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <vector>

namespace troupe::actors {
namespace {

constexpr std::size_t columns = 80;  // of a terminal; the last one stays free

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(now)),
                     us.count() % 1000000);
}

std::string throughput(const runtime::step_report& x,
                       double speedup,
                       const runtime::log_settings& settings) {
  const double rate = x.flops_per_second * speedup;
  auto out = fmt::format(" throughput (TFLOP/s): {:.3f} |", rate / 1e12);
  if (settings.matrix_rate > 0)
    out += fmt::format(" MFU: {:.1f} % |", 100 * rate / settings.matrix_rate);
  return out;
}

std::string experts_text(const runtime::expert_load& x) {
  return fmt::format(" rows of an expert: {} to {} | expert entropy: {:.4f} | dropped rows: {} |",
                     x.least,
                     x.most,
                     x.entropy,
                     x.dropped);
}

}  // namespace

void since_last_line::add(const runtime::step_report& x) {
  ++steps;
  ms += x.elapsed_ms;
  if (!x.was_skipped()) {
    loss += x.has_no_loss() ? 0 : x.loss;
    losses += x.has_no_loss() ? 0 : 1;
    for (const auto& one : runtime::by_name(x.losses, x.loss)) {
      auto to = std::ranges::find(by_name, one.name, &named::name);
      if (to == by_name.end())
        to = by_name.insert(to, {one.name});
      to->sum += std::isnan(one.mean) ? 0 : one.mean;
      to->steps += std::isnan(one.mean) ? 0 : 1;
    }
    return;
  }
  ++skipped;
  nan += std::isfinite(x.loss) ? 0 : 1;
}

void pipeline_since_start::add(const runtime::pipeline_times& x) {
  ++steps;
  sum.ms += x.ms;
  sum.planned_ms += x.planned_ms;
  sum.bubble += x.bubble;
  sum.planned_bubble += x.planned_bubble;
  sum.gap_ms += x.gap_ms;
  sum.hand_off_ms += x.hand_off_ms;
  sum.late_ms += x.late_ms;
  sum.worst_late_ms = std::max(sum.worst_late_ms, x.worst_late_ms);
}

std::string pipeline_line(const pipeline_since_start& all, const std::string& schedule) {
  const auto& x = all.sum;
  const double n = all.steps;
  return fmt::format(
      "schedule {}: bubble {:.1f} %, planned {:.1f} %; a step's actions take {:.1f} ms, planned "
      "{:.1f} ({})",
      schedule,
      100 * x.bubble / n,
      100 * x.planned_bubble / n,
      x.ms / n,
      x.planned_ms / n,
      all.steps == 1 ? "by the one step that was logged"
                     : fmt::format("means of the {} steps that were logged", all.steps));
}

std::string pipeline_details(const pipeline_since_start& all) {
  const auto& x = all.sum;
  const double n = all.steps;
  return fmt::format(
      "actions: mean start delay {:.2f} ms, at most {:.2f}; {:.0f} us between two of a stage, "
      "{:.0f} us more from stage to stage",
      x.late_ms / n,
      x.worst_late_ms,
      1e3 * x.gap_ms / n,
      1e3 * x.hand_off_ms / n);
}

std::string log_line(const runtime::step_report& x,
                     const since_last_line& since,
                     std::uint64_t train_iterations,
                     const runtime::log_settings& settings) {
  const double mean_ms = since.ms / since.steps;
  const double speedup = x.elapsed_ms > 0 && mean_ms > 0 ? x.elapsed_ms / mean_ms : 1;
  auto line = fmt::format(
      " [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): "
      "{:.1f} |",
      timestamp(),
      x.iteration,
      train_iterations,
      x.consumed_samples,
      mean_ms);
  if (settings.throughput)
    line += throughput(x, speedup, settings);
  line += fmt::format(" tokens/s: {:.0f} | learning rate: {:.6E} | global batch size: {:5d} |",
                      x.tokens_per_second * speedup,
                      x.learning_rate,
                      x.global_batch_size);
  for (const auto& one : since.by_name)
    if (one.steps > 0)
      line += fmt::format(" {}: {:.6E} |", one.name, one.sum / one.steps);
  if (x.scale.is_used())
    line += fmt::format(" loss scale: {:.1f} |", x.scale.value);
  if (!x.was_skipped())
    line += fmt::format(" grad norm: {:.3f} |", x.grad_norm);
  if (x.zero_gradients >= 0)
    line += fmt::format(" num zeros: {} |", x.zero_gradients);
  if (x.params_norm >= 0)
    line += fmt::format(" params norm: {:.3f} |", x.params_norm);
  if (!x.experts.empty())
    line += experts_text(load_of(x.experts));
  if (x.pipeline.ms >= 0)
    line += fmt::format(" bubble: {:.1f} %, planned {:.1f} % |",
                        100 * x.pipeline.bubble,
                        100 * x.pipeline.planned_bubble);
  return line
         + fmt::format(" number of skipped iterations: {:3d} | number of nan iterations: {:3d} |",
                       since.skipped,
                       since.nan);
}

std::string short_line(const runtime::step_report& x,
                       const since_last_line& since,
                       std::uint64_t train_iterations,
                       const runtime::log_settings& settings) {
  const double mean_ms = since.ms / since.steps;
  const double speedup = x.elapsed_ms > 0 && mean_ms > 0 ? x.elapsed_ms / mean_ms : 1;
  std::vector<std::string> parts = {fmt::format("iter {}/{}", x.iteration, train_iterations)};
  if (since.losses > 0)
    parts.push_back(fmt::format("loss {:.4f}", since.loss / since.losses));
  if (since.skipped > 0)
    parts.push_back(fmt::format("skipped {}", since.skipped));
  if (!x.was_skipped())
    parts.push_back(fmt::format("norm {:.3f}", x.grad_norm));
  parts.push_back(fmt::format("lr {:.3E}", x.learning_rate));
  if (settings.throughput)
    parts.push_back(fmt::format("{:.3f} TFLOP/s", x.flops_per_second * speedup / 1e12));
  if (settings.throughput && settings.matrix_rate > 0)
    parts.push_back(
        fmt::format("MFU {:.1f} %", 100 * x.flops_per_second * speedup / settings.matrix_rate));
  parts.push_back(fmt::format("{:.0f} tokens/s", x.tokens_per_second * speedup));
  parts.push_back(fmt::format("{:.1f} ms", mean_ms));
  std::string out = " " + parts.front();
  for (std::size_t i = 1; i < parts.size() && out.size() + 2 + parts[i].size() < columns; ++i)
    out += "  " + parts[i];
  return out;
}

std::string evaluation_line(const runtime::validation_report& x,
                            const std::vector<runtime::loss_spec>& losses,
                            bool is_short) {
  const auto means = runtime::by_name(x.losses, x.loss);
  if (std::ranges::all_of(means, [](const auto& one) { return std::isnan(one.mean); }))
    return fmt::format(" {} at iteration {}: no loss: no token of its samples counts",
                       x.test ? "test" : "validation",
                       x.iteration);
  auto line
      = is_short
            ? fmt::format(" {} at iteration {}", x.test ? "test" : "validation", x.iteration)
            : fmt::format(
                " validation loss at iteration {}{} |", x.iteration, x.test ? " on test set" : "");
  for (const auto& one : means) {
    if (std::isnan(one.mean) || one.name == runtime::best_accuracy_name)
      continue;  // best_line tells the latter
    line += is_short ? fmt::format("  {} {:.4f}", x.losses.empty() ? "loss" : one.name, one.mean)
                     : fmt::format(" {} value: {:.6E} |", one.name, one.mean);
    const auto its = std::ranges::find(losses, one.name, &runtime::loss_spec::name);
    if (its == losses.end() || !its->has_perplexity)
      continue;
    const double perplexity = std::exp(std::min(20.0, one.mean));
    line += is_short ? fmt::format("  perplexity {:.4g}", perplexity)
                     : fmt::format(" {} PPL: {:.6E} |", one.name, perplexity);
  }
  return line;
}

std::string best_line(const runtime::validation_report& x,
                      std::optional<runtime::validation_report>& best) {
  const auto accuracy_of = [](const runtime::validation_report& of) {
    return runtime::mean_of(of.losses, runtime::accuracy_name);
  };
  if (x.test || !accuracy_of(x))
    return {};
  if (!best || accuracy_of(x) > accuracy_of(*best))
    best = x;
  return fmt::format(" best accuracy on validation: {:.4f} % at iteration {}",
                     100 * *accuracy_of(*best),
                     best->iteration);
}

std::string event_line(const runtime::run_event& x) {
  // A reason begins with the name of the ended actor.
  const auto named = x.who + ": ";
  const auto why = x.why.starts_with(named) ? x.why.substr(named.size()) : x.why;
  if (x.kind == "wrong bits")
    return fmt::format("{} computed wrong bits: {} ({})", x.who, x.verdict, why);
  if (x.kind == "not finite")
    return fmt::format("not finite on {}: {} ({})", x.who, x.verdict, why);
  const auto* const is = x.who.find(',') == std::string::npos ? "is" : "are";
  if (x.kind == "straggler")
    return x.verdict == "over" ? fmt::format("{} {} no longer slow ({})", x.who, is, why)
                               : fmt::format("{} {} slow: {} ({})", x.who, is, x.verdict, why);
  if (x.kind == "given up")
    return fmt::format("{} died ({}) and is no longer replaced", x.who, why);
  if (x.kind != "restart" && x.kind != "move" && x.kind != "rerun")
    return fmt::format("{} died ({}) and was replaced; no step was lost", x.who, why);
  const auto source = x.from == "estate"       ? "with its ranks' own state"
                      : x.from == "keeper"     ? "with a peer's copy of the state"
                      : x.from == "local disk" ? "from the local disk"
                      : x.from == "disk"       ? "from the checkpoint"
                                               : "from the start of the run";
  const auto again = x.iteration - x.resumed;
  const auto* const verb = x.kind == "move"                   ? "moves"
                           : x.kind == "rerun"                ? "runs again"
                           : x.who == "replicas"              ? "disagree"
                           : x.who.starts_with("connection:") ? "broke"
                           : x.verdict == "wrong bits"        ? "is replaced"
                           : x.who == "the run"               ? "made no progress"
                           : x.who == "the run before" ? "is gone"  // it may have ended in order
                                                       : "died";
  return fmt::format(
      "{} {} ({}); after {:.3f} s the run continues from iteration {} {}{}",
      x.who,
      verb,
      why,
      x.seconds,
      x.resumed,
      source,
      again == 0 ? "" : fmt::format(", {} iteration{} run again", again, again == 1 ? "" : "s"));
}

}  // namespace troupe::actors
