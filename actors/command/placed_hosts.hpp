// The hosts of a layout, for people and programs: ranks and processes of each, keepers, and the
// groups that reach over hosts.

#pragma once

#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/job/settings/layout.hpp"
#include "runtime/layout/placement.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace troupe::command {

struct placed_hosts {
  std::vector<runtime::host_slots> hosts;
  runtime::process_placement placed;
  std::vector<runtime::host_span> spans;  ///< of dense axes, then of experts' own
  /// Bytes that a rank receives in a step, the most of any rank; 0: unknown, or none.
  runtime::axis_map<std::int64_t> received = {};
};
placed_hosts place_on_hosts(const runtime::mesh& dense,
                            const runtime::mesh& experts,
                            int processes,
                            std::vector<runtime::host_slots> hosts);
placed_hosts place_on_hosts(const runtime::layout_settings& layout,
                            std::vector<runtime::host_slots> hosts);

/// Sets `received` of the spans' axes.
void add_received(const std::vector<runtime::memory_forecast>& needs, placed_hosts& to);

/// Tensor groups over several hosts, as sentences.
std::vector<std::string> crossings_of(const placed_hosts& x);

std::string as_text(const placed_hosts& x);
/// Adds "hosts", "processes", "spans" and "warnings": crossings, and states that are kept in their
/// own failure domain.
void add_json(const placed_hosts& x, nlohmann::ordered_json& to);

}  // namespace troupe::command
