#include "actors/command/forecast_page.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/model/stages.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;
using runtime::found_layout;
using runtime::step_forecast;

struct part {
  const char* key;
  const char* title;
  double seconds;
  bool is_loss;  ///< not the arithmetic of the model
};

std::vector<part> parts_of(const step_forecast& x) {
  return {{"products", "matrix products", x.passes.products, false},
          {"attention", "attention", x.passes.attention, false},
          {"kernels", "other kernels, by their bytes", x.passes.kernels, true},
          {"tensor", "tensor collectives, not hidden", x.passes.tensor, true},
          {"experts", "exchange with experts", x.passes.experts, true},
          {"context", "exchange of keys and values, not hidden", x.passes.context, true},
          {"handoffs", "transfers between stages, not hidden", x.passes.handoffs, true},
          {"bubble", "pipeline bubble", x.bubble, true},
          {"gradients", "sums of gradients, not hidden", x.gradients, true},
          {"update", "update by the optimizer", x.update, true},
          {"gather", "gather of parameters, not hidden", x.gather, true},
          {"host", "work of the host", x.host, true}};
}

std::string percent(double x) {
  return fmt::format("{:.2f} %", 100 * x);
}

std::string goodput_text(const runtime::goodput_forecast& x) {
  if (x.between_failures == 0)
    return "goodput     no failures: the cluster's description has none\n";
  return fmt::format(
      "goodput     a failure every {}: {} of the time trains with recovery, which loses {:.1f} s;\n"
      "            {} with checkpoints only, one every {}\n",
      runtime::duration_text(x.between_failures),
      percent(x.with_recovery),
      x.lost,
      percent(x.with_checkpoints),
      runtime::duration_text(x.interval));
}

ordered_json parts_json(const step_forecast& x) {
  ordered_json out;
  for (const auto& p : parts_of(x))
    out[p.key] = p.seconds;
  return out;
}

double step_rate(const told_search& x, const found_layout& found) {
  return x.flops / found.forecast.seconds / x.world;
}

bool recomputes(const found_layout& x) {
  return x.step.recompute.granularity == runtime::recompute_granularity::full;
}

/// The part that costs most besides arithmetic, and the memory if little is left.
std::string limits_of(const told_search& x, const found_layout& found) {
  const auto parts = parts_of(found.forecast);
  const auto most
      = std::ranges::max(parts, {}, [](const part& p) { return p.is_loss ? p.seconds : -1; });
  auto out = fmt::format("{} {:.1f} %", most.title, 100 * most.seconds / found.forecast.seconds);
  if (recomputes(found))
    out += ", computes each forward pass again";
  if (found.memory > 0.75 * x.on.device.memory)
    out += ", memory nearly full";
  return out;
}

/// Why the layout beats the next one: the part in which it saves most.
std::string advantage_of(const found_layout& found, const found_layout& next) {
  const auto here = parts_of(found.forecast), there = parts_of(next.forecast);
  std::size_t best = 0;
  for (std::size_t i = 1; i < here.size(); ++i)
    if (there[i].seconds - here[i].seconds > there[best].seconds - here[best].seconds)
      best = i;
  return fmt::format("{:.1f} % faster than the next one: {:.2f} s less of {}",
                     100 * (next.forecast.seconds / found.forecast.seconds - 1),
                     there[best].seconds - here[best].seconds,
                     here[best].title);
}

std::string stages_text(const told_search& x, const found_layout& found) {
  const auto letters = runtime::letters_of(x.job.training);
  const auto units = runtime::units_of(letters);
  const auto first = units - std::int64_t(found.step.chunks.back().end) - 1;  // units before layers
  std::vector<runtime::chunk_range> ranges;
  for (const auto& c : found.step.chunks)
    ranges.push_back({c.embedding ? 0 : c.first + first, c.head ? units : c.end + first});
  return runtime::to_text(ranges, letters);
}

/// The flags of a layout, for `troupe train` or `troupe memory`.
std::string flags_of(const told_search& x, const found_layout& found) {
  const auto& s = found.step;
  auto out = fmt::format(
      "--world-size {} --micro-batch-size {} --global-batch-size {}", s.world, s.micro, s.global);
  if (s.tensor > 1)
    out += fmt::format(" --tensor-model-parallel-size {} --sequence-parallel", s.tensor);
  if (s.pipeline > 1) {
    out += fmt::format(
        " --pipeline-model-parallel-size {} --pipeline-schedule {}", s.pipeline, found.schedule);
    if (s.chunks.size() > 1 && int(x.job.training.model.layers()) % int(s.chunks.size()) != 0)
      out += fmt::format(" --pipeline-model-parallel-layout '{}'", stages_text(x, found));
    if (found.virtual_stages > 1)
      out += fmt::format(" --num-virtual-stages-per-pipeline-rank {}", found.virtual_stages);
  }
  if (s.expert > 1)
    out += fmt::format(" --expert-model-parallel-size {}", s.expert);
  if (recomputes(found))
    out += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (s.distributed_optimizer)
    out += " --use-distributed-optimizer --overlap-param-gather";
  if (s.overlap_gradients)
    out += " --overlap-grad-reduce";
  return out;
}

void require_layouts(const told_search& x) {
  if (x.found.compared == 0)
    throw runtime::input_error(
        "no layout of {} workers divides the model and `batch.global` {}: choose other numbers of "
        "workers (`layout.world`) or samples, such as multiples of one power of two",
        x.world,
        x.global);
  if (x.found.best.empty())
    throw runtime::input_error(
        "no layout of {} workers fits on '{}': {} were compared, and the smallest needs {} of {} "
        "on its largest rank; use more devices, a smaller model, or a `batch.global` that more "
        "layouts divide",
        x.world,
        x.on.name,
        x.found.compared,
        runtime::human_bytes(x.found.least_memory),
        runtime::human_bytes(x.on.device.memory));
}

}  // namespace

std::string forecast_page(const told_forecast& x) {
  const auto& f = x.of;
  const auto world = f.devices;
  const double need = double(x.largest.need.peak());
  auto out = fmt::format("cluster     {}: {} of {} on {} of {}\n",
                         x.on.name,
                         runtime::counted(world, "device", "devices"),
                         x.on.device.name,
                         (world + x.on.devices_per_host - 1) / x.on.devices_per_host,
                         runtime::counted(std::int64_t(x.on.hosts), "host"));
  out += fmt::format("step        {:.4g} s for {}, {:.4g} floating-point operations\n",
                     f.step.seconds,
                     runtime::counted(std::int64_t(f.tokens), "token"),
                     f.flops);
  out += fmt::format("speed       {:.4g} tokens/s, {:.4g} TFLOP/s a device, MFU {}\n",
                     f.tokens_per_second(),
                     f.rate() / world / 1e12,
                     percent(f.utilization()));
  out += fmt::format("memory      {} of {} on the largest rank, in stage {}{}\n",
                     runtime::human_bytes(need),
                     runtime::human_bytes(x.on.device.memory),
                     x.largest.pipeline,
                     need > x.on.device.memory ? ": it does not fit" : "");
  out += goodput_text(f.goodput) + "\nParts of the step, of the rank that computes longest\n";
  for (const auto& p : parts_of(f.step))
    out += fmt::format(
        "{:>12.4g} s  {:>5.1f} %  {}\n", p.seconds, 100 * p.seconds / f.step.seconds, p.title);
  return out;
}

std::string forecast_json(const told_forecast& x) {
  const auto& f = x.of;
  const auto& g = f.goodput;
  const auto& need = x.largest.need;
  ordered_json out = {{"cluster", x.on.name},
                      {"workers", x.job.layout.world},
                      {"devices", f.devices},
                      {"seconds", f.step.seconds},
                      {"tokens", f.tokens},
                      {"tokens_per_second", f.tokens_per_second()},
                      {"flops", f.flops},
                      {"flops_per_device", f.rate() / f.devices},
                      {"mfu", f.utilization()},
                      {"parts", parts_json(f.step)},
                      {"memory",
                       {{"stage", x.largest.pipeline},
                        {"parameters", need.parameters},
                        {"gradients", need.gradients},
                        {"optimizer", need.optimizer + need.beside},
                        {"activations", need.activations + need.left_by_others + need.verified},
                        {"peak", need.peak()},
                        {"device", x.on.device.memory},
                        {"fits", double(need.peak()) <= x.on.device.memory}}}};
  out["goodput"] = {{"between_failures", g.between_failures},
                    {"lost", g.lost},
                    {"with_recovery", g.with_recovery},
                    {"checkpoint_interval", g.interval},
                    {"with_checkpoints", g.with_checkpoints}};
  return runtime::json_text(out, 1);
}

std::string search_page(const told_search& x) {
  require_layouts(x);
  auto out = fmt::format("{} layouts of {} workers on {} compared; {} need too much memory\n\n",
                         x.found.compared,
                         x.world,
                         x.on.name,
                         x.found.too_large);
  const auto row = [&](const auto&... cells) {
    out += fmt::format("{:>3} {:>6} {:>8} {:>7} {:>6} {:>5} {:>6}  {:<11} {:>9} {:>6} {:>9}  {}\n",
                       cells...);
  };
  row("",
      "tensor",
      "pipeline",
      "virtual",
      "expert",
      "data",
      "micro",
      "schedule",
      "step",
      "MFU",
      "memory",
      "what costs most");
  int number = 0;
  for (const auto& l : x.found.best)
    row(++number,
        l.step.tensor,
        l.step.pipeline,
        l.virtual_stages,
        l.step.expert,
        l.step.data(),
        l.step.micro,
        l.schedule,
        fmt::format("{:.4g} s", l.forecast.seconds),
        fmt::format("{:.1f} %", 100 * step_rate(x, l) / x.on.device.peak(l.step.precision)),
        runtime::human_bytes(l.memory),
        limits_of(x, l));
  if (x.found.best.size() > 1)
    out += fmt::format("\nThe first is {}\n", advantage_of(x.found.best[0], x.found.best[1]));
  out += fmt::format("\nFlags of the first\n  {}\n", flags_of(x, x.found.best.front()));
  return out
         + "\nMemory is of the largest rank, by a formula; `troupe memory` with these flags "
           "rehearses a step.\n";
}

std::string search_json(const told_search& x) {
  require_layouts(x);
  ordered_json out = {{"cluster", x.on.name},
                      {"workers", x.world},
                      {"compared", x.found.compared},
                      {"too_large", x.found.too_large}};
  for (const auto& l : x.found.best)
    out["layouts"].push_back({{"tensor", l.step.tensor},
                              {"pipeline", l.step.pipeline},
                              {"virtual", l.virtual_stages},
                              {"expert", l.step.expert},
                              {"data", l.step.data()},
                              {"micro", l.step.micro},
                              {"schedule", l.schedule},
                              {"recomputes", recomputes(l)},
                              {"distributed_optimizer", l.step.distributed_optimizer},
                              {"seconds", l.forecast.seconds},
                              {"flops_per_device", step_rate(x, l)},
                              {"memory", l.memory},
                              {"parts", parts_json(l.forecast)},
                              {"costs_most", limits_of(x, l)},
                              {"flags", flags_of(x, l)}});
  return runtime::json_text(out, 1);
}

}  // namespace troupe::command
