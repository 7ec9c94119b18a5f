#include "actors/host/sampling.hpp"

#include "runtime/process/process_id.hpp"
#include "runtime/process/process_usage.hpp"

#include <algorithm>
#include <cstdint>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

messages::measured_member member_of(const runtime::board_entry& x, std::uint64_t now_ns) {
  return {.who = x.who,
          .state = x.idle    ? "idle"
                   : x.waits ? "waits"
                             : "runs",
          .work = x.idle    ? ""
                  : x.waits ? x.what
                            : x.work,
          .on = x.whom,
          .for_s = double(now_ns - std::min(now_ns, x.since_ns)) / 1e9,
          .step = x.step};
}

messages::measured_device device_of(const runtime::gpu_reading& x) {
  return {.device = x.device,
          .name = x.name,
          .power_w = x.power_w.value_or(-1),
          .clock_mhz = x.clock_mhz.value_or(-1),
          .temperature_c = x.temperature_c.value_or(-1),
          .utilisation = x.utilisation.value_or(-1),
          .memory_bytes = x.memory_bytes.value_or(0),
          .memory_total_bytes = x.memory_total_bytes.value_or(0)};
}

std::map<std::string, std::uint64_t> memory_of(const monitor_resources& context) {
  const auto held = context.pools->held();
  const auto states = context.estates->bytes();
  // Pools count the states of ranks on the host, and not those on devices.
  const auto in_pools = context.gpus ? 0 : std::uint64_t(states.all());
  return {{"parameters", std::uint64_t(states.weights)},
          {"optimizer", std::uint64_t(states.optimizer)},
          {"working", held.in_use - std::min<std::uint64_t>(held.in_use, in_pools)},
          {"idle", held.idle},
          {"batches", context.pool.bytes_in_use()},
          {"kept", std::uint64_t(context.kept->bytes())}};
}

}  // namespace

messages::measured sample_of(const monitor_resources& context, std::uint64_t now_ns) {
  const auto usage = runtime::usage_of_this_process();
  messages::measured out{
      .host = runtime::host_name(),
      .pid = ::getpid(),
      .up_s = usage.up_s,
      .cpu_s = usage.cpu_s,
      .resident_bytes = usage.resident_bytes,
      .peak_resident_bytes = usage.peak_resident_bytes,
      .memory = memory_of(context),
      .energy_j = context.energy->joules().value_or(-1),
  };
  for (const auto& [member, length] : context.traffic->queues())
    out.queues[member] = *length;
  if (context.transport) {
    const auto& x = context.transport->counters();
    out.leases = context.transport->leased();
    out.transfers = {{"tickets", x.tickets},
                     {"handed_bytes", x.bytes_handed},
                     {"copied_bytes", x.bytes_copied},
                     {"read_bytes", x.bytes_read},
                     {"dropped", x.dropped},
                     {"refused", x.refused}};
  }
  if (context.gpus)
    for (const auto& x : context.gpus->read())
      out.devices.push_back(device_of(x));
  for (const auto& [peer, x] : context.traffic->sent())
    out.sent[peer] = {x->messages, x->bytes};
  for (const auto& [peer, x] : context.traffic->received())
    out.received[peer] = {x->messages, x->bytes};
  for (const auto& x : context.lanes->all())
    out.members.push_back(member_of(x, now_ns));
  for (auto& x : context.warnings->take())
    out.warnings.push_back({x.is_error, std::move(x.text)});
  return out;
}

}  // namespace troupe::actors
