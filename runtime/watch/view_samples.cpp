#include "runtime/watch/view_fields.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace troupe::runtime {
namespace {

using namespace view_fields;

std::vector<view_action> actions_of(const json& in, const char* name) {
  std::vector<view_action> out;
  for (const auto& x : list(in, name))
    if (x.is_array() && x.size() == 3 && x[0].is_string() && x[1].is_number() && x[2].is_number()
        && out.size() < run_view::most_actions)
      out.push_back({bounded(x[0].get<std::string>()), x[1].get<double>(), x[2].get<double>()});
  return out;
}

std::map<std::string, view_traffic> traffic(const json& x, const char* name) {
  std::map<std::string, view_traffic> out;
  for (const auto& edge : list(x, name)) {
    const auto peer = field<std::string>(edge, "peer");
    auto& to = out[has_room(out, peer) ? peer : "other"];
    to.messages += field<std::uint64_t>(edge, "messages");
    to.bytes += field<std::uint64_t>(edge, "bytes");
  }
  return out;
}

view_device device_of(const json& x) {
  return {.device = field<int>(x, "device"),
          .name = field<std::string>(x, "name"),
          .power_w = number(x, "power_w"),
          .clock_mhz = number(x, "clock_mhz"),
          .temperature_c = number(x, "temperature_c"),
          .memory_bytes = number(x, "memory_bytes"),
          .utilisation = number(x, "utilisation")};
}

std::vector<view_device> devices_of(const json& x) {
  std::vector<view_device> out;
  const auto found = x.find("devices");
  if (found == x.end() || !found->is_array())
    return out;
  for (const auto& one : *found)
    if (one.is_object() && out.size() < run_view::most_names)
      out.push_back(device_of(one));
  return out;
}

/// The whole numbers of an object, by name.
std::map<std::string, std::uint64_t> sizes(const json& x, const char* name) {
  std::map<std::string, std::uint64_t> out;
  if (const auto found = x.find(name); found != x.end() && found->is_object())
    for (const auto& [key, size] : found->items())
      if (size.is_number_unsigned() && has_room(out, bounded(key)))
        out[bounded(key)] = size.get<std::uint64_t>();
  return out;
}

}  // namespace

void take_timeline(run_view& to, const json& x) {
  view_timeline out{.at = field<double>(x, "at"),
                    .iteration = field<std::uint64_t>(x, "iteration"),
                    .planned_ms = field<double>(x, "planned_ms"),
                    .executed_ms = field<double>(x, "executed_ms"),
                    .bubble = field<double>(x, "bubble"),
                    .planned_bubble = field<double>(x, "planned_bubble"),
                    .left_out = field<std::uint64_t>(x, "left_out"),
                    .rows = {}};
  for (const auto& row : list(x, "rows"))
    if (out.rows.size() < run_view::most_names)
      out.rows.push_back(
          {field<int>(row, "rank"), actions_of(row, "executed"), actions_of(row, "planned")});
  to.timeline = std::move(out);
}

void take_process(run_view& to, const json& x) {
  view_process out{.name = field<std::string>(x, "name"),
                   .role = field<std::string>(x, "role"),
                   .host = field<std::string>(x, "host"),
                   .pid = field<std::int64_t>(x, "pid"),
                   .at = field<double>(x, "at"),
                   .resident_bytes = field<std::uint64_t>(x, "resident_bytes"),
                   .memory_bytes = sizes(x, "memory"),
                   .leases = field<std::uint64_t>(x, "leases"),
                   .lanes = {},
                   .cpu_s = field<double>(x, "cpu_s"),
                   .up_s = field<double>(x, "up_s"),
                   .peak_resident_bytes = field<std::uint64_t>(x, "peak_resident_bytes"),
                   .sent = traffic(x, "sent"),
                   .received = traffic(x, "received"),
                   .devices = devices_of(x),
                   .queues = sizes(x, "queues"),
                   .energy_j = number(x, "energy_j")};
  for (const auto& lane : list(x, "lanes"))
    if (out.lanes.size() < run_view::most_names)
      out.lanes.push_back({field<std::string>(lane, "who"),
                           field<std::string>(lane, "state"),
                           field<std::string>(lane, "work"),
                           texts(lane, "on", run_view::most_waits),
                           field<double>(lane, "for_s")});
  if (out.name.empty() || !has_room(to.processes, out.name, run_view::most_members))
    return;
  auto& before = to.processes[out.name];
  if (before.pid == out.pid && out.at > before.at) {
    const auto share = (out.cpu_s - before.cpu_s) / (out.at - before.at);
    out.cpu_share = std::isfinite(share) ? share : -1;
  }
  before = std::move(out);
}

}  // namespace troupe::runtime
