#include "actors/command/dry_run.hpp"

#include "actors/command/memory_advice.hpp"
#include "actors/command/placed_hosts.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/job/prepare.hpp"
#include "actors/job/start.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/forecast/process_forecast.hpp"
#include "runtime/forecast/time_forecast.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/csv.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <vector>

namespace troupe::command {
namespace {

using namespace runtime;  // this file prints its types

/// "80 samples (10 steps)"; without the steps if the batch size changes.
std::string samples_text(double samples, const batch_schedule& batch) {
  auto out = fmt::format("{} {}", samples, samples == 1 ? "sample" : "samples");
  if (batch.ramp_start == 0 && batch.steps.empty() && samples > 0) {
    const double steps = std::round(samples / double(batch.global) * 10) / 10;
    out += fmt::format(" ({} {})", steps, steps == 1 ? "step" : "steps");
  }
  return out;
}

std::string rate_text(const rate_schedule& r, const batch_schedule& batch) {
  const auto warmup = samples_text(r.warmup, batch);
  if (r.style == decay_style::constant)
    return fmt::format("{} after {} of warm-up, constant", r.maximum, warmup);
  return fmt::format("{} to {} after {} of warm-up, {} until {}",
                     r.maximum,
                     r.minimum,
                     warmup,
                     to_string(r.style),
                     samples_text(double(r.decay), batch));
}

std::string steps_text(const training_job& job) {
  const auto& b = job.training.batch;
  auto out = fmt::format(
      "batch       {} ({}) a step: {} x {} x {}\n",
      counted(b.global, "sample"),
      counted(b.global * job.training.model.sequence(), "token"),
      counted(b.data_parallel, "replica"),
      counted(
          microbatches({b.micro, b.global, b.data_parallel}, 0), "micro-batch", "micro-batches"),
      b.micro);
  if (b.ramp_start > 0)
    out += fmt::format("            from {} in steps of {} over {} samples\n",
                       b.ramp_start,
                       b.ramp_increment,
                       b.ramp_samples);
  for (const auto& step : b.steps)
    out += fmt::format(
        "            {} a step from sample {} on\n", counted(step.size, "sample"), step.from);
  const auto& r = job.training.rate;
  out += fmt::format(
      "steps       {}, {:.3g} floating-point operations each\n"
      "rate        {}\n",
      job.train_iterations,
      training_flops(spec_of(job.training), schema_of(job), double(b.global)),
      rate_text(r, b));
  if (r.style == decay_style::wsd)
    out += fmt::format("            falling in the last {}, {}\n",
                       samples_text(double(r.end_decay), b),
                       to_string(r.end_style));
  if (r.decoupled_maximum > 0)
    out += fmt::format("            {} to {} for word embedding and output layer\n",
                       r.decoupled_maximum,
                       r.decoupled_minimum);
  if (const auto& o = job.training.optimizer; o.weight_decay_style != increase_style::constant)
    out += fmt::format("decay       of weights from {} to {}, {}\n",
                       o.start_weight_decay,
                       o.weight_decay,
                       to_string(o.weight_decay_style));
  return out;
}

std::string start_text(const actors::start_point& start) {
  std::string out;
  for (const auto& warning : start.warnings)
    out += fmt::format("warning     {}\n", with_flags(warning));
  return out + fmt::format("start       {}\n", with_flags(start.text));
}

std::string layout_text(const training_job& job) {
  const auto& l = job.layout;
  auto out = fmt::format("layout      {} ({}): {}{} x {}, {}",
                         counted(l.world, "worker"),
                         l.order,
                         counted(l.tensor, "tensor rank"),
                         l.sequence_parallel ? " (sequence parallel)" : "",
                         counted(l.pipeline, "pipeline stage"),
                         counted(job.training.batch.data_parallel, "replica"));
  if (l.replicas_per_worker > 1)
    out += fmt::format(", {} in turn on each worker", l.replicas_per_worker);
  return out + expert_ranks_text(job)
         + fmt::format("; {} each, backend {}, {}\nstages      {}\n",
                       counted(job.threads_per_worker, "thread"),
                       to_string(job.backend),
                       to_string(job.training.precision),
                       to_text(l.chunks, letters_of(job.training)));
}

std::string chunk_text(const chunk_range& range, const unit_letters& letters) {
  std::string what;
  const auto add = [&what](const std::string& more) { what += (what.empty() ? "" : ", ") + more; };
  const auto units = to_text({range}, letters);
  if (units.find('E') != std::string::npos)
    add("embedding");
  if (const auto layers = layers_in(range, letters); layers.end > layers.first)
    add(fmt::format("layers {} to {}", layers.first, layers.end - 1));
  if (units.find('L') != std::string::npos)
    add("head");
  return what.empty() ? "passes on" : what;
}

/// Buffers of the transfers to stages of other ranks; empty if there are none.
std::string handoffs_text(const memory_forecast& need, int copies) {
  std::string out;
  for (const auto& [x, bytes] : need.handoffs)
    out += fmt::format("{}{}stage {} to {} on rank {}: {} of {}, {}",
                       out.empty() ? "            outstanding at most: " : "; ",
                       copies > 1 ? fmt::format("copy {}, ", char('a' + value(x.copy))) : "",
                       value(x.from),
                       value(x.to),
                       x.to_rank,
                       counted(x.credits, x.gradient ? "gradient" : "activation"),
                       human_bytes(double(bytes)),
                       human_bytes(double(bytes) * x.credits));
  return out.empty() ? out : out + "\n";
}

std::string rank_text(int rank,
                      const coordinates& at,
                      const layout_settings& layout,
                      const job_pipeline& pipeline,
                      int pipeline_rank,
                      const unit_letters& letters) {
  auto out
      = fmt::format("rank {:<6} replica {}, stage {}", rank, at[axis::data], at[axis::pipeline]);
  const int expert_tensor = layout.expert_tensor_ranks();
  if (layout.tensor > 1)
    out += fmt::format(", tensor {} of {}", at[axis::tensor], layout.tensor);
  if (layout.expert > 1)
    out += fmt::format(", expert {} of {}", at[axis::expert], layout.expert);
  if ((layout.expert > 1 || expert_tensor != layout.tensor) && expert_tensor > 1)
    out += fmt::format(", expert tensor {} of {}", at[axis::expert_tensor], expert_tensor);
  std::string what;
  for (const auto& hosted : pipeline.schedule->hosted_by(pipeline_rank))
    what += (what.empty() ? "" : "; ") + chunk_text(pipeline.chunks[value(hosted.chunk)], letters)
            + (pipeline.schedule->copies() > 1
                   ? fmt::format(" of copy {}", char('a' + value(hosted.copy)))
                   : "");
  return out + ": " + what;
}

/// A warning if the job needs more memory than this machine has. A note if the devices are unknown:
/// the plan may be for another machine.
std::string memory_text(const training_job& job, const std::vector<memory_forecast>& needs) {
  try {
    const auto lacking = short_of_memory(memory_shares(job, needs, look_at_memory()), false);
    return lacking ? fmt::format("warning     {}\n", memory_advice(job, *lacking)) : "";
  } catch (const kernels::backend_missing& missing) {
    return fmt::format("note        cannot check the memory of the devices: {}\n",
                       with_flags(missing.what()));
  }
}

/// Estimated time of the run; empty if it runs on other hosts or does not fit here.
std::string time_text(const training_job& job,
                      std::uint64_t from,
                      bool fits,
                      const std::vector<host_slots>& hosts) {
  if (!fits || !hosts.empty() || job.skip_train || from >= job.train_iterations)
    return "";
  const auto found = measured_forecast(job, from);
  return found ? fmt::format(
             "time        about {} here, estimated by matrix products of {:.3g} "
             "TFLOP/s\n",
             duration_text(found->seconds),
             found->matrix_rate / 1e12)
               : "";
}

/// The axes whose groups reach over hosts, with the bytes that their ranks exchange.
std::string crossings_text(const training_job& job,
                           const std::vector<memory_forecast>& needs,
                           const std::vector<host_slots>& hosts) {
  auto placed = place_on_hosts(job.layout, hosts);
  add_received(needs, placed);
  std::string out;
  for (const auto& span : placed.spans)
    if (span.crossing > 0)
      out += fmt::format("over hosts  {} of {} {} groups; a rank receives up to {} a step\n",
                         span.crossing,
                         span.groups,
                         row_of(span.along).title,
                         human_bytes(double(placed.received[span.along])));
  for (const auto& warning : crossings_of(placed))
    out += fmt::format("warning     {}\n", warning);
  return out;
}

/// Ranks and memory of each process, with the states that it keeps for a peer; empty for one
/// process.
std::string processes_text(const training_job& job,
                           const std::vector<memory_forecast>& needs,
                           const std::vector<host_slots>& hosts) {
  std::string out;
  std::int64_t together = 0;
  const auto processes = forecast_processes(job, needs, hosts);
  for (std::size_t p = 0; p < processes.size(); ++p) {
    const auto& x = processes[p];
    together += x.peak();
    const auto on = [&](std::size_t process) {
      return hosts.empty()
                 ? ""
                 : fmt::format(" on {}", hosts[std::size_t(processes[process].host)].name);
    };
    out += fmt::format("process {:<3} ranks {}{}, {}: workers {}",
                       p,
                       ranges_of(x.ranks, {.to = " to "}),
                       on(p),
                       human_bytes(x.peak()),
                       human_bytes(x.workers));
    if (x.keeps_for >= 0)
      out += fmt::format(
          ", the two newest states of process {}'s ranks {}, and {} while it receives the next one",
          x.keeps_for,
          human_bytes(x.kept),
          human_bytes(x.taken_over));
    if (x.written > 0)
      out += fmt::format(", and {} while it writes one to the local disk", human_bytes(x.written));
    if (x.kept_by >= 0)
      out += fmt::format("; kept by process {}{}", x.kept_by, on(std::size_t(x.kept_by)));
    out += "\n";
  }
  if (out.empty())
    return out;
  out += fmt::format("processes   {}\n", human_bytes(together));
  if (!hosts.empty())
    out += crossings_text(job, needs, hosts);
  if (job.recovery.on)
    out += "            processes of one host keep each other's states: when that host dies, the "
           "run resumes from its newest checkpoint; with several hosts, each keeps a peer's\n";
  return out;
}

}  // namespace

std::string describe(const training_job& given, const std::vector<host_slots>& hosts) {
  auto job = given;
  const auto start = actors::plan_start(job);  // throws the same errors as a run
  const auto& model = job.training.model;
  const auto& l = job.layout;
  const auto ranks = seats_of(l);
  const auto pipeline = pipeline_of(job);
  for (const int m : planned_microbatches(job, 0))
    pipeline.schedule->training(m);  // throws the same errors as a run
  const auto& plan = *pipeline.schedule->training(planned_microbatches(job));
  auto out = model.family().describe(model, job.training.own)
             + fmt::format("data        {}\n", actors::describe_data(job)) + steps_text(job)
             + start_text(start) + layout_text(job);
  const auto letters = letters_of(job.training);
  std::vector<memory_forecast> all;
  std::map<coordinates, memory_forecast> needs;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto at = ranks.at(rank);
    const auto stage = std::size_t(at[axis::pipeline]);
    auto alike = at;  // replicas need equal memory unless the optimizer is distributed
    if (!job.reduction.distributed_optimizer)
      alike = ranks.at(ranks.rank(at.with(axis::data, 0)));  // with its position among experts
    if (copies_handoffs(job, alike) != copies_handoffs(job, at))
      alike = at;
    const auto found = needs.find(alike);
    const auto need
        = found != needs.end()
              ? found->second
              : needs.emplace(alike, forecast_memory(job, pipeline, alike)).first->second;
    all.push_back(need);
    out += rank_text(rank, at, l, pipeline, int(stage), letters) + "\n"
           + fmt::format(
               "            {}: parameters {}, gradients {}, optimizer {}{}, activations {}{}{}\n",
               human_bytes(need.peak()),
               human_bytes(need.parameters),
               human_bytes(need.gradients),
               human_bytes(need.optimizer),
               need.beside > 0
                   ? fmt::format(", state of the step before {}", human_bytes(need.beside))
                   : "",
               human_bytes(need.activations),
               left_text(need),
               job.checkpoints.save.empty()
                       || (!job.reduction.distributed_optimizer && at[axis::data] > 0)
                   ? ""
                   : fmt::format("; {} more{} while it saves",
                                 human_bytes(need.snapshot),
                                 job.backend == backend_kind::cuda ? " of the host's memory" : ""))
           + handoffs_text(need, pipeline.schedule->copies());
  }
  std::int64_t together = 0;
  for (const auto& x : all)
    together += x.peak();
  const auto short_of = memory_text(given, all);
  out += fmt::format("all ranks   {}\n", human_bytes(together)) + processes_text(job, all, hosts)
         + short_of + time_text(job, start.iteration, short_of.empty(), hosts);
  for (const auto& note : pipeline.schedule->notes())
    out += fmt::format("note        {}\n", note);
  if (pipeline.schedule->behaviours())
    out += fmt::format(
        "plan        {} decides at run time; a simulation of {} gives one row per stage\n",
        plan.name,
        counted(plan.microbatches, "micro-batch", "micro-batches"));
  else
    out += fmt::format("plan        {}, {} per worker, one row per stage\n",
                       plan.name,
                       counted(plan.microbatches, "micro-batch", "micro-batches"));
  return out + to_csv(plan);
}

}  // namespace troupe::command
