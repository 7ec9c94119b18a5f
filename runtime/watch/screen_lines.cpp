#include "runtime/watch/screen_lines.hpp"

#include "runtime/core/progress.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr double silent_after = 15;  // seconds without a sample of a process
constexpr double long_wait = 10;     // seconds of a lane

bool is_well(const view_member& x) {
  return x.state == "running";
}

/// Example: "stage:0.1      running for 12 min".
screen_line line_of_member(const view_member& x, double now) {
  auto text = fmt::format("{:<14} {}", x.who, x.state);
  if (x.since > 0)
    text += " for " + duration_text(std::max(0.0, now - x.since));
  if (!x.why.empty())
    text += ": " + x.why;
  return {std::move(text),
          x.state == "dead" ? screen_style::bad
          : is_well(x)      ? screen_style::plain
                            : screen_style::caution};
}

/// Examples: "lane:0.1       runs 0F3", "stage:0.1      waits 0.5 s on stage:0.0 for an
/// activation".
screen_line line_of_lane(const view_lane& x) {
  const bool is_waiting = x.state == "waits";
  auto text = fmt::format("{:<14} {}", x.who, x.state);
  if (!x.on.empty())
    text += fmt::format(" {:.1f} s", x.for_s);
  if (!x.on.empty() && is_waiting)
    text += fmt::format(" on {}", fmt::join(x.on, ", "));
  if (!x.work.empty())
    text += (is_waiting ? " for " : " ") + x.work;
  const bool is_long = is_waiting && x.for_s > long_wait;
  return {std::move(text), is_long ? screen_style::caution : screen_style::dim};
}

/// Example: "150 %". Empty if the share is unknown.
std::string share_text(double share) {
  const auto percent = share * 100;
  return share >= 0 && std::isfinite(percent) ? fmt::format("{:.0f} %", percent) : "";
}

screen_line line_of_process(const view_process& x, double now) {
  const double age = now - x.at;
  const bool is_silent = x.at > 0 && age > silent_after;
  return {fmt::format("{:<14} {:<10} pid {:<8} {:>9} {:>6} {}",
                      x.name,
                      x.role,
                      x.pid,
                      bytes_text(x.resident_bytes),
                      share_text(x.cpu_share),
                      is_silent ? fmt::format("silent for {:.0f} s", age) : ""),
          is_silent ? screen_style::caution : screen_style::plain};
}

screen_line indented(int by, screen_line x) {
  x.text.insert(0, std::size_t(by), ' ');
  return x;
}

/// Order of names: services, then each replica with its stages and their lanes, by number.
struct member_place {
  bool is_rank = false;  ///< a replica, or its stage or lane
  std::vector<std::uint64_t> numbers = {};
  int level = 0;  ///< replica 0, stage 1, lane 2
  std::string name;

  auto operator<=>(const member_place&) const = default;
};

/// Example: "stage:0.10" comes after "stage:0.9".
member_place place_of(const std::string& name) {
  member_place out{.name = name};
  const auto colon = name.find_first_of(":-");
  const auto kind = std::string_view(name).substr(0, colon);
  const bool is_lane = kind == "lane" || kind == "wire" || kind == "saver";
  out.level = is_lane ? 2 : kind == "stage" ? 1 : 0;
  out.is_rank = out.level > 0 || kind == "replica";
  for (auto at = colon; at < name.size(); at = name.find('.', at)) {
    std::uint64_t number = 0;
    std::from_chars(name.data() + ++at, name.data() + name.size(), number);
    out.numbers.push_back(number);
  }
  return out;
}

/// The lanes of a stage for communication and snapshots, while they have no work.
bool is_unused(const view_lane& x) {
  return x.state == "idle" && (x.who.starts_with("wire:") || x.who.starts_with("saver:"));
}

/// The members of a process that are well, and its actors and lanes, as a tree.
void add_members(std::vector<screen_line>& to,
                 const run_view& of,
                 const view_process& process,
                 double now) {
  struct row {
    const view_member* member = nullptr;
    const view_lane* lane = nullptr;
  };
  std::map<member_place, row> rows;
  for (const auto& [name, x] : of.members)
    if (x.process == process.name && name != process.name && is_well(x))
      rows[place_of(name)].member = &x;
  for (const auto& x : process.lanes)
    if (!is_unused(x))
      rows[place_of(x.who)].lane = &x;
  constexpr int first = 4, step = 2;
  int replica = 0, stage = 0;  // levels that the rows before have
  for (const auto& [place, x] : rows) {
    const int levels = place.level == 0 ? 0 : place.level == 1 ? replica : replica + stage;
    auto line = x.lane == nullptr ? line_of_member(*x.member, now) : line_of_lane(*x.lane);
    if (x.member != nullptr && x.lane != nullptr && x.member->since > 0)
      line.text += "; up for " + duration_text(std::max(0.0, now - x.member->since));
    to.push_back(indented(first + step * levels, std::move(line)));
    if (place.is_rank && place.level < 2)
      (place.level == 0 ? replica : stage) = 1;
  }
}

/// The reason without the first words "stage:0.1 (process 1 on host 'a') ", for a line that begins
/// with the name.
std::string_view without_first_name(std::string_view why, const std::string& who) {
  if (!why.starts_with(who + " "))
    return why;
  why.remove_prefix(who.size() + 1);
  const auto end = why.starts_with('(') ? why.find(") ") : std::string_view::npos;
  return end == std::string_view::npos ? why : why.substr(end + 2);
}

/// Example: "12 s ago". Events of an earlier supervisor process have no time: "earlier".
std::string age_text(double age, double at) {
  constexpr double oldest = 9'999'999;
  return at > 0 ? fmt::format("{:.0f} s ago", std::clamp(age, 0.0, oldest)) : "earlier";
}

screen_style style_of_event(std::string_view kind) {
  if (kind == "save" || kind == "command" || kind == "test")
    return screen_style::plain;
  return kind == "wrong bits" || kind == "given up" ? screen_style::bad : screen_style::caution;
}

}  // namespace

std::vector<screen_line> lines_of_members(const run_view& of, double now) {
  std::vector<screen_line> out;
  for (const auto& [name, x] : of.members)
    if (!is_well(x))
      out.push_back(line_of_member(x, now));
  std::map<std::string, std::vector<const view_process*>> hosts;
  for (const auto& [name, x] : of.processes)
    hosts[x.host].push_back(&x);
  for (auto& [host, all] : hosts) {
    out.push_back({host.empty() ? "this host" : host, screen_style::bold});
    std::ranges::sort(all, {}, [](const auto* x) { return place_of(x->name); });
    for (const auto* x : all) {
      out.push_back(indented(2, line_of_process(*x, now)));
      add_members(out, of, *x, now);
    }
  }
  for (const auto& [name, x] : of.members)
    if (is_well(x) && !of.processes.contains(x.process) && !of.processes.contains(name))
      out.push_back(line_of_member(x, now));
  return out;
}

std::vector<screen_line> lines_of_stragglers(const run_view& of, double now) {
  std::vector<screen_line> out;
  for (auto x = of.stragglers.rbegin(); x != of.stragglers.rend(); ++x) {
    auto text = fmt::format("{} {} slow ({}) since step {}",
                            fmt::join(x->who, ", "),
                            x->who.size() == 1 ? "is" : "are",
                            x->verdict,
                            x->iteration);
    if (x->at > 0)
      text += ", for " + duration_text(std::max(0.0, now - x->at));
    if (!x->why.empty())
      text += fmt::format(": {}",
                          x->who.size() == 1 ? without_first_name(x->why, x->who.front())
                                             : std::string_view(x->why));
    out.push_back({std::move(text), screen_style::caution});
  }
  return out;
}

std::vector<screen_line> lines_of_events(const run_view& of, double now) {
  std::vector<screen_line> out;
  for (auto x = of.events.rbegin(); x != of.events.rend(); ++x)
    out.push_back({fmt::format("{:>13}  {:<10} {}", age_text(now - x->at, x->at), x->kind, x->text),
                   style_of_event(x->kind)});
  return out;
}

}  // namespace troupe::runtime
