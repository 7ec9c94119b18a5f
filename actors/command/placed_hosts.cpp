#include "actors/command/placed_hosts.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/job/job_seats.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::command {
namespace {

using runtime::axis;

struct on_host {
  std::vector<int> processes, ranks;
  std::set<int> kept_on;  ///< hosts of the keepers
};

std::vector<on_host> by_host(const placed_hosts& x) {
  std::vector<on_host> out(x.hosts.size());
  const auto& at = x.placed;
  for (int p = 0; p < at.ranks.processes(); ++p) {
    auto& host = out[std::size_t(at.host_of[std::size_t(p)])];
    host.processes.push_back(p);
    const auto& ranks = at.ranks.ranks_of(p);
    host.ranks.insert(host.ranks.end(), ranks.begin(), ranks.end());
    if (!at.keeper_of.empty())
      host.kept_on.insert(at.host_of[std::size_t(at.keeper_of[std::size_t(p)])]);
  }
  for (auto& host : out)
    std::sort(host.ranks.begin(), host.ranks.end());
  return out;
}

/// "a, b, c and 5 more"
std::string names_of(const std::set<int>& numbers, const placed_hosts& x) {
  constexpr std::size_t most = 3;
  std::vector<std::string> names;
  for (const int h : numbers)
    if (names.size() < most)
      names.push_back(x.hosts[std::size_t(h)].name);
  auto out = fmt::format("{}", fmt::join(names, ", "));
  if (numbers.size() > most)
    out += fmt::format(" and {} more", numbers.size() - most);
  return out.empty() ? "-" : out;
}

std::string in_capitals(axis a) {
  std::string out(runtime::short_name(a));
  std::transform(
      out.begin(), out.end(), out.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return out;
}

/// Columns as wide as their widest cell.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += fmt::format("{:<{}}", row[c], c + 1 < row.size() ? widths[c] + 2 : 0);
    out += line + "\n";
  }
  return out;
}

runtime::process_site site_of(const placed_hosts& x, int process) {
  const auto& host = x.hosts[std::size_t(x.placed.host_of[std::size_t(process)])];
  return {host.name, host.domain};
}

std::vector<std::string> warnings_of(const placed_hosts& x) {
  auto out = crossings_of(x);
  int beside = 0;
  for (int p = 0; p < int(x.placed.keeper_of.size()); ++p)
    beside += site_of(x, p).domain == site_of(x, x.placed.keeper_of[std::size_t(p)]).domain ? 1 : 0;
  if (beside > 0 && x.hosts.size() > 1)
    out.push_back(fmt::format(
        "the states of {} are kept in their own failure domain, because it has more than half of "
        "all processes: when all its hosts die, the run resumes from its newest checkpoint",
        runtime::counted(beside, "process", "processes")));
  return out;
}

}  // namespace

placed_hosts place_on_hosts(const runtime::mesh& dense,
                            const runtime::mesh& experts,
                            int processes,
                            std::vector<runtime::host_slots> hosts) {
  auto placed = runtime::placement_of(runtime::near_ranks(dense, processes), hosts);
  auto spans = runtime::spans_of(dense, placed, hosts);
  if (experts.extent(axis::expert) > 1
      || experts.extent(axis::expert_tensor) != dense.extent(axis::tensor))
    for (auto& span : runtime::spans_of(experts, placed, hosts))
      if (span.along != axis::pipeline)
        spans.push_back(std::move(span));
  return {std::move(hosts), std::move(placed), std::move(spans)};
}

placed_hosts place_on_hosts(const runtime::layout_settings& layout,
                            std::vector<runtime::host_slots> hosts) {
  const auto dense = runtime::dense_mesh_of(layout);
  const auto experts = runtime::fold_experts(dense, layout.expert, layout.expert_tensor_ranks());
  return place_on_hosts(dense, experts, layout.processes, std::move(hosts));
}

void add_received(const std::vector<runtime::memory_forecast>& needs, placed_hosts& to) {
  auto& most = to.received;
  for (const auto& need : needs)
    for (const auto& row : runtime::axis_table())
      most[row.id] = std::max(most[row.id], need.received[row.id]);
  // Experts without axes of their own exchange along those of dense layers.
  for (const auto& [dense, own] :
       {std::pair(axis::tensor, axis::expert_tensor), std::pair(axis::data, axis::expert_data)})
    if (std::none_of(to.spans.begin(), to.spans.end(), [along = own](const auto& span) {
          return span.along == along;
        }))
      most[dense] += std::exchange(most[own], 0);
}

std::vector<std::string> crossings_of(const placed_hosts& x) {
  std::vector<std::string> out;
  for (const auto& span : x.spans)
    if (span.crossing > 0 && (span.along == axis::tensor || span.along == axis::expert_tensor))
      out.push_back(fmt::format(
          "{} of {} {} groups have ranks on several hosts, such as [{}]: each layer then waits for "
          "the network; give each host a multiple of {} ranks",
          span.crossing,
          span.groups,
          runtime::row_of(span.along).title,
          fmt::join(span.first, ","),
          span.first.size()));
  return out;
}

std::string as_text(const placed_hosts& x) {
  const runtime::range_style style{.to = "-", .single_alone = true};
  std::vector<std::vector<std::string>> rows
      = {{"host", "domain", "processes", "ranks", "states kept on"}};
  const auto all = by_host(x);
  for (std::size_t h = 0; h < all.size(); ++h)
    rows.push_back({x.hosts[h].name,
                    x.hosts[h].domain.empty() ? "-" : x.hosts[h].domain,
                    runtime::ranges_of(all[h].processes, style),
                    runtime::ranges_of(all[h].ranks, style),
                    names_of(all[h].kept_on, x)});
  auto out = aligned(rows);
  const bool knows_bytes = x.received != runtime::axis_map<std::int64_t>();
  rows = {{"axis", "groups", "on one host", "on several", "most hosts"}};
  if (knows_bytes)
    rows.back().emplace_back("a rank receives in a step");
  for (const auto& span : x.spans) {
    rows.push_back({in_capitals(span.along),
                    fmt::format("{}", span.groups),
                    fmt::format("{}", span.groups - span.crossing),
                    fmt::format("{}", span.crossing),
                    fmt::format("{}", span.most_hosts)});
    if (knows_bytes)
      rows.back().push_back(runtime::human_bytes(double(x.received[span.along])));
  }
  if (!x.spans.empty())
    out += "\n" + aligned(rows);
  for (const auto& warning : warnings_of(x))
    out += fmt::format("\nwarning: {}\n", warning);
  return out;
}

void add_json(const placed_hosts& x, nlohmann::ordered_json& to) {
  const auto all = by_host(x);
  for (std::size_t h = 0; h < all.size(); ++h)
    to["hosts"].push_back({{"host", x.hosts[h].name},
                           {"domain", x.hosts[h].domain},
                           {"processes", all[h].processes},
                           {"ranks", all[h].ranks}});
  const auto& at = x.placed;
  for (int p = 0; p < at.ranks.processes(); ++p) {
    auto& row = to["processes"].emplace_back();
    row["process"] = p;
    row["host"] = x.hosts[std::size_t(at.host_of[std::size_t(p)])].name;
    row["ranks"] = at.ranks.ranks_of(p);
    if (!at.keeper_of.empty())
      row["keeper"] = at.keeper_of[std::size_t(p)];
  }
  to["spans"] = nlohmann::ordered_json::array();
  for (const auto& span : x.spans) {
    auto& row = to["spans"].emplace_back();
    row = {{"axis", runtime::short_name(span.along)},
           {"groups", span.groups},
           {"crossing", span.crossing},
           {"most_hosts", span.most_hosts}};
    if (x.received != runtime::axis_map<std::int64_t>())
      row["received"] = x.received[span.along];
  }
  to["warnings"] = warnings_of(x);
}

}  // namespace troupe::command
