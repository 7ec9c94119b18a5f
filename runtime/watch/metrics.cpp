#include "runtime/watch/metrics.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::array<std::string_view, 7> states{
    "starting", "training", "validating", "paused", "recovering", "ending", "ended"};

void add_run(metrics_page& to, const run_view& x) {
  to.gauge("troupe_run_info", "Identity of the run. Always 1.")
      .add(1, {{"run", x.id}, {"name", x.name}, {"version", x.program}});
  if (x.started_at > 0)
    to.gauge("troupe_run_start_time_seconds", "Start of the run, in Unix seconds.")
        .add(x.started_at);
  to.gauge("troupe_run_state", "1 for the current state of the run, 0 for the others.");
  const std::string_view now = x.exit_code ? "ended" : std::string_view(x.state);
  for (const auto state : states)
    to.add(state == now, {{"state", state}});
  if (!now.empty() && std::ranges::find(states, now) == states.end())
    to.add(1, {{"state", now}});
  if (x.exit_code)
    to.gauge("troupe_run_exit_code", "Exit code of the ended run.").add(*x.exit_code);
  if (x.steps > 0)
    to.gauge("troupe_run_steps", "Steps of the whole run.").add(double(x.steps));
}

void add_step(metrics_page& to, const run_view& x) {
  to.gauge("troupe_iteration", "Newest committed step.").add(double(x.iteration));
  to.gauge("troupe_loss", "Newest mean of each loss.");
  for (const auto& [name, value] : x.loss_by_name)
    to.add(value, {{"loss", name}});
  if (x.iteration == 0)
    return;
  to.counter("troupe_consumed_samples_total", "Samples consumed since training began.")
      .add(double(x.consumed_samples));
  to.counter("troupe_consumed_tokens_total", "Tokens consumed since training began.")
      .add(double(x.consumed_tokens));
  to.counter("troupe_skipped_steps_total", "Steps without an update since training began.")
      .add(double(x.skipped_iterations));
  to.gauge("troupe_gradient_norm", "Norm of all gradients before clipping.").add(x.grad_norm);
  to.gauge("troupe_learning_rate", "Learning rate of the newest update.").add(x.learning_rate);
  to.gauge("troupe_step_seconds", "Duration of the newest step.").add(x.step_ms / 1e3);
  to.gauge("troupe_tokens_per_second", "Tokens of the newest step per second.")
      .add(x.tokens_per_second);
  if (x.teraflops_per_second)
    to.gauge("troupe_flops_per_second",
             "Floating-point operations of the model per second, of all workers.")
        .add(*x.teraflops_per_second * 1e12);
  if (x.share_of_matrix_rate)
    to.gauge(
          "troupe_matrix_rate_ratio",
          "MFU: operations of the model per second, divided by the rate of matrix products alone.")
        .add(*x.share_of_matrix_rate);
}

void add_experts(metrics_page& to, const view_experts& x) {
  to.gauge("troupe_expert_rows", "Rows of an expert in a step, over all layers.")
      .add(double(x.most), {{"kind", "most"}})
      .add(double(x.least), {{"kind", "least"}});
  to.gauge("troupe_expert_entropy_ratio",
           "Lowest entropy of the experts' shares of a layer's rows, over its maximum.")
      .add(x.entropy);
  to.gauge("troupe_dropped_expert_rows", "Rows of a step beyond the capacity of their expert.")
      .add(double(x.dropped));
}

/// Share of the step in which the stage computes.
double busy_share(const view_timeline& of, const view_row& row) {
  double busy_ms = 0, end_ms = of.executed_ms;
  for (const auto& action : row.executed) {
    busy_ms += std::max(0.0, action.end_ms - action.begin_ms);
    end_ms = std::max(end_ms, action.end_ms);
  }
  return end_ms > 0 ? std::min(1.0, busy_ms / end_ms) : 0;
}

void add_pipeline(metrics_page& to, const run_view& x) {
  if (x.pipeline) {
    to.gauge("troupe_pipeline_seconds",
             "Time from the first to the last action of a step, measured and simulated.")
        .add(x.pipeline->seconds, {{"kind", "actual"}})
        .add(x.pipeline->planned_seconds, {{"kind", "planned"}});
    to.gauge("troupe_bubble_ratio",
             "Share of the stages' time in a step that they spend waiting, measured and simulated.")
        .add(x.pipeline->bubble, {{"kind", "actual"}})
        .add(x.pipeline->planned_bubble, {{"kind", "planned"}});
  }
  to.gauge("troupe_stage_busy_ratio",
           "Share of a step in which a stage of the slowest replica computes.");
  if (x.timeline)
    for (const auto& row : x.timeline->rows)
      to.add(busy_share(*x.timeline, row), {{"stage", std::to_string(row.rank)}});
}

using processes = std::vector<const view_process*>;

/// One series for each process.
void add_each(metrics_page& to, const processes& of, auto value) {
  for (const auto* x : of)
    to.add(double(value(*x)), {{"process", x->name}});
}

void add_traffic(metrics_page& to,
                 const processes& of,
                 std::map<std::string, view_traffic> view_process::*edges,
                 std::uint64_t view_traffic::*value) {
  for (const auto* x : of)
    for (const auto& [peer, traffic] : x->*edges)
      to.add(double(traffic.*value), {{"process", x->name}, {"peer", peer}});
}

void add_processes(metrics_page& to, const processes& of) {
  to.gauge("troupe_process_info", "Host and role of a process. Always 1.");
  for (const auto* x : of)
    to.add(1, {{"process", x->name}, {"host", x->host}, {"role", x->role}});
  to.gauge("troupe_process_uptime_seconds", "Time since the process began.");
  add_each(to, of, [](const auto& x) { return x.up_s; });
  to.counter("troupe_process_cpu_seconds_total", "CPU time of all threads of the process.");
  add_each(to, of, [](const auto& x) { return x.cpu_s; });
  to.gauge("troupe_process_resident_bytes", "Resident memory of the process.");
  add_each(to, of, [](const auto& x) { return x.resident_bytes; });
  to.gauge("troupe_process_peak_resident_bytes", "Largest resident memory of the process so far.");
  add_each(to, of, [](const auto& x) { return x.peak_resident_bytes; });
  to.gauge("troupe_process_memory_bytes", "Memory of the process's tensors by kind.");
  for (const auto* x : of)
    for (const auto& [kind, bytes] : x->memory_bytes)
      to.add(double(bytes), {{"process", x->name}, {"kind", kind}});
  to.gauge("troupe_queue_length", "Tensor messages that wait at a member for its next action.");
  for (const auto* x : of)
    for (const auto& [member, length] : x->queues)
      to.add(double(length), {{"process", x->name}, {"member", member}});
  to.gauge("troupe_process_leases", "Tickets of the process that are not redeemed yet.");
  add_each(to, of, [](const auto& x) { return x.leases; });
  to.counter("troupe_process_sent_bytes_total",
             "Bytes of tensors sent since the process began, by peer.");
  add_traffic(to, of, &view_process::sent, &view_traffic::bytes);
  to.counter("troupe_process_sent_messages_total",
             "Tensor messages sent since the process began, by peer.");
  add_traffic(to, of, &view_process::sent, &view_traffic::messages);
  to.counter("troupe_process_received_bytes_total",
             "Bytes of tensors received since the process began, by peer.");
  add_traffic(to, of, &view_process::received, &view_traffic::bytes);
  to.counter("troupe_process_received_messages_total",
             "Tensor messages received since the process began, by peer.");
  add_traffic(to, of, &view_process::received, &view_traffic::messages);
  to.counter("troupe_package_energy_joules_total",
             "Energy of the CPU packages of the process's host since the process began.");
  for (const auto* x : of)
    if (x->energy_j)
      to.add(*x->energy_j, {{"process", x->name}, {"host", x->host}});
}

void add_device_value(metrics_page& to,
                      const processes& of,
                      std::optional<double> view_device::*value,
                      double unit = 1) {
  for (const auto* x : of)
    for (const auto& device : x->devices)
      if (device.*value)
        to.add(*(device.*value) * unit,
               {{"process", x->name}, {"device", std::to_string(device.device)}});
}

void add_devices(metrics_page& to, const processes& of) {
  to.gauge("troupe_device_power_watts", "Power of the device.");
  add_device_value(to, of, &view_device::power_w);
  to.gauge("troupe_device_clock_hertz", "Clock rate of the device.");
  add_device_value(to, of, &view_device::clock_mhz, 1e6);
  to.gauge("troupe_device_utilisation_ratio", "Share of the time in which the device computes.");
  add_device_value(to, of, &view_device::utilisation);
  to.gauge("troupe_device_temperature_celsius", "Temperature of the device.");
  add_device_value(to, of, &view_device::temperature_c);
  to.gauge("troupe_device_memory_bytes", "Used memory of the device.");
  add_device_value(to, of, &view_device::memory_bytes);
}

/// Adds the `known` names even if their count is 0: rate() needs the value before the first event.
void add_counts(metrics_page& to,
                const char* label,
                view_counts::by_name counts,
                std::initializer_list<const char*> known) {
  for (const auto* name : known)
    counts.try_emplace(name, 0);
  for (const auto& [name, count] : counts)
    to.add(double(count), {{label, name}});
}

void add_members(metrics_page& to, const run_view& x) {
  view_counts::by_name members;
  for (const auto& [who, one] : x.members)
    ++members[one.state];
  to.gauge("troupe_members", "Actors and processes of the run by state.");
  add_counts(to, "state", members, {"starting", "running", "dead"});
}

void add_events(metrics_page& to, const run_view& x) {
  const auto& counts = x.counts;
  to.counter("troupe_deaths_total", "Deaths of actors and processes by kind.");
  add_counts(to, "member", counts.deaths, {"node", "stage"});
  to.counter("troupe_events_total", "Events of the run's log.");
  add_counts(to,
             "event",
             counts.events,
             {"restart",
              "move",
              "replaced",
              "given up",
              "rerun",
              "wrong bits",
              "not finite",
              "straggler"});
  to.counter("troupe_restarts_total", "Restarts, moves and reruns by source of the state.");
  add_counts(to, "source", counts.restarts, {"estate", "keeper", "local disk", "disk", "start"});
  to.counter("troupe_recovery_seconds_total",
             "Total time from a failure until the next step began, of restarts, moves and reruns.")
      .add(counts.recovery_seconds);
  to.counter("troupe_corruptions_total", "Detected corruptions by verdict.");
  add_counts(
      to, "verdict", counts.wrong_bits, {"outvoted", "transient", "persistent", "irreproducible"});
  to.counter("troupe_stragglers_total", "Workers found slow, by cause.");
  add_counts(to, "cause", counts.stragglers, {"compute", "link", "input"});
  to.counter("troupe_warnings_total", "Warnings and errors of the log, without events.")
      .add(double(counts.warnings));
  to.counter("troupe_saves_total", "Checkpoints begun, written and failed.");
  add_counts(to, "state", counts.saves, {"begun", "written", "failed"});
  if (x.saved) {
    to.gauge("troupe_save_iteration", "Step of the newest complete checkpoint.")
        .add(double(x.saved->iteration));
    if (x.saved->seconds)
      to.gauge("troupe_save_seconds", "Time that the newest complete checkpoint took.")
          .add(*x.saved->seconds);
  }
}

}  // namespace

std::string metrics_text(const run_view& of, const metrics_facts& facts) {
  metrics_page out(facts.most);
  add_run(out, of);
  add_step(out, of);
  if (of.experts)
    add_experts(out, *of.experts);
  add_pipeline(out, of);
  processes up, shown;
  for (const auto& [name, one] : of.processes) {
    const auto silent_s = of.at - one.at;
    if (silent_s <= facts.forgotten_after_s)
      shown.push_back(&one);
    if (silent_s <= facts.silent_after_s)
      up.push_back(&one);
  }
  out.gauge("troupe_process_up", "1 if the process has sent a sample recently, else 0.");
  add_each(out, shown, [&](const view_process& x) { return std::ranges::count(up, &x); });
  add_processes(out, up);
  add_devices(out, up);
  add_members(out, of);
  add_events(out, of);
  if (of.at > 0)
    out.gauge("troupe_newest_record_time_seconds", "Time of the newest record, in Unix seconds.")
        .add(of.at);
  out.counter("troupe_records_dropped_total",
              "Records dropped before these metrics could count them, mostly samples.")
      .add(double(of.dropped));
  if (facts.viewers)
    out.gauge("troupe_viewers", "Open streams of viewers.").add(double(*facts.viewers));
  const auto left_out = out.left_out();
  out.gauge("troupe_metrics_left_out", "Series omitted from this page because of its limits.")
      .add(double(left_out));
  return out.text();
}

}  // namespace troupe::runtime
