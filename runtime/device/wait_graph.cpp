#include "runtime/device/wait_graph.hpp"

#include <algorithm>
#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::runtime {
namespace {

/// Percent of a processor: a thread that uses less is not computing.
constexpr std::uint64_t least_share = 1;
/// Factor on the timeout for a thread that is computing.
constexpr double slow = 4;
/// Factor on the timeout for cycles: a message may still be on its way.
constexpr std::uint64_t patience_with_rings = 2;

std::string line_of(const board_entry& x, std::uint64_t now_ns) {
  std::string out = x.who;
  if (x.step > 0)
    out += fmt::format(" step {}", x.step);
  if (!x.work.empty())
    out += fmt::format(" '{}'", x.work);
  const auto seconds = double(now_ns - std::min(x.since_ns, now_ns)) / 1e9;
  if (!x.waits)
    return out + fmt::format(": busy for {:.2f} s", seconds);
  out += x.whom.empty() ? std::string(": waits")
                        : fmt::format(": waits for {}", fmt::join(x.whom, ", "));
  out += fmt::format(" for {:.2f} s", seconds);
  return x.what.empty() ? out : out + fmt::format(" ({})", x.what);
}

}  // namespace

wait_graph::wait_graph(std::vector<board_entry> all) : all_(std::move(all)) {
  std::stable_sort(
      all_.begin(), all_.end(), [](const auto& a, const auto& b) { return a.who < b.who; });
}

std::map<std::string, int> wait_graph::distances_to(const std::string& root) const {
  std::map<std::string, int> out = {{root, 0}};
  for (bool grown = true; std::exchange(grown, false);)
    for (const auto& x : all_)
      for (const auto& y : x.whom)
        if (const auto to = out.find(y); x.waits && !x.on_process && to != out.end()) {
          const auto [at, is_new] = out.try_emplace(x.who, to->second + 1);
          grown = grown || is_new || to->second + 1 < at->second;
          at->second = std::min(at->second, to->second + 1);
        }
  return out;
}

std::size_t wait_graph::waiters_of(const std::string& who) const {
  return distances_to(who).size() - 1;
}

std::string wait_graph::text(const std::string& root, std::uint64_t now_ns) const {
  const auto distance = distances_to(root);
  const auto of = [&](const board_entry& x) {
    const auto found = distance.find(x.who);
    return found == distance.end() ? INT_MAX : found->second;
  };
  std::vector<const board_entry*> lines;
  for (const auto& x : all_) {
    const bool wanted = std::any_of(all_.begin(), all_.end(), [&](const auto& other) {
      return other.waits && !other.on_process
             && std::count(other.whom.begin(), other.whom.end(), x.who) > 0;
    });
    if (!x.work.empty() || (!x.whom.empty() && !x.idle) || wanted)
      lines.push_back(&x);
  }
  std::stable_sort(
      lines.begin(), lines.end(), [&](const auto* a, const auto* b) { return of(*a) < of(*b); });
  std::string out;
  for (const auto* x : lines)
    out += "\n  " + line_of(*x, now_ns);
  return out;
}

std::vector<board_entry> wait_graph::ring() const {
  std::map<std::string, const board_entry*> by_name;
  for (const auto& x : all_)
    by_name.emplace(x.who, &x);
  // A lane without work is not a cause: its owner is, which is listed, too.
  std::map<std::string, std::vector<std::string>> stuck;
  for (const auto& x : all_) {
    auto whom = x.whom;
    std::erase_if(whom, [&](const auto& y) {
      const auto at = by_name.find(y);
      return at != by_name.end() && at->second->idle;
    });
    if (x.waits && !x.idle && !x.on_process && !whom.empty())
      stuck.emplace(x.who, std::move(whom));
  }
  const auto can_go_on = [&](const auto& x) {
    return std::any_of(
        x.second.begin(), x.second.end(), [&](const auto& y) { return !stuck.contains(y); });
  };
  while (std::erase_if(stuck, can_go_on) > 0) {
  }
  if (stuck.empty())
    return {};
  std::vector<std::string> path = {stuck.begin()->first};
  for (;;) {
    const auto& next = stuck.at(path.back()).front();
    const auto known = std::find(path.begin(), path.end(), next);
    if (known == path.end()) {
      path.push_back(next);
      continue;
    }
    std::vector<board_entry> out;
    for (auto at = known; at != path.end(); ++at)
      out.push_back(*by_name.at(*at));
    return out;
  }
}

hang_judge::hang_judge(double suspicion)
    : suspicion_ns_(std::uint64_t(std::max(suspicion, 1e-3) * 1e9)) {}

std::optional<hang_judge::verdict> hang_judge::look(std::vector<board_entry> all,
                                                    std::uint64_t now_ns) {
  const auto since_last = now_ns - std::exchange(last_ns_, now_ns);
  const bool was_late = since_last > 2 * period_ns();
  if (was_late)
    anew_ns_ = now_ns;
  std::map<std::uint64_t, std::uint64_t> cpu, computes;
  for (const auto& x : all) {
    cpu[x.number] = x.cpu_ns;
    const auto before = cpu_.find(x.number);
    const bool used
        = before != cpu_.end() && x.cpu_ns > before->second + since_last * least_share / 100;
    if (used)
      computes[x.number] = now_ns;
    else if (const auto found = computes_.find(x.number); found != computes_.end())
      computes[x.number] = found->second;
  }
  cpu_ = std::move(cpu);
  computes_ = std::move(computes);
  if (was_late)
    return std::nullopt;
  const wait_graph graph(std::move(all));
  const board_entry* root = nullptr;
  std::size_t waiters = 0;
  for (const auto& x : graph.all()) {
    if (x.waits || x.work.empty())
      continue;
    const auto since = std::max(x.since_ns, anew_ns_);
    const auto found = computes_.find(x.number);
    const bool is_computing
        = found != computes_.end() && now_ns - found->second < suspicion_ns_ / 2;
    const double patience = x.patience * (is_computing ? slow : 1);
    if (since >= now_ns || double(now_ns - since) < patience * double(suspicion_ns_))
      continue;
    const auto wait = graph.waiters_of(x.who);
    if (root == nullptr || wait > waiters || (wait == waiters && x.since_ns < root->since_ns)) {
      root = &x;
      waiters = wait;
    }
  }
  if (root == nullptr)
    return look_for_ring(graph, now_ns);
  return verdict{*root, double(now_ns - root->since_ns) / 1e9, graph.text(root->who, now_ns)};
}

// HANG-3
std::optional<hang_judge::verdict> hang_judge::look_for_ring(const wait_graph& graph,
                                                             std::uint64_t now_ns) const {
  const auto ring = graph.ring();
  const auto is_late = [&](const board_entry& x) {
    const auto since = std::max(x.since_ns, anew_ns_);
    return since < now_ns && now_ns - since >= patience_with_rings * suspicion_ns_;
  };
  if (ring.empty() || !std::all_of(ring.begin(), ring.end(), is_late))
    return std::nullopt;
  const auto& root = *std::min_element(ring.begin(), ring.end(), [](const auto& a, const auto& b) {
    return std::pair(a.actor, a.since_ns) < std::pair(b.actor, b.since_ns);
  });
  std::string text = ring.front().who;
  for (std::size_t i = 1; i <= ring.size(); ++i)
    text += fmt::format("{} waits for {}", i == 1 ? "" : ", which", ring[i % ring.size()].who);
  return verdict{
      root,
      double(now_ns - root.since_ns) / 1e9,
      fmt::format(
          "\n  a deadlock: {}; {} is replaced{}", text, root.who, graph.text(root.who, now_ns)),
      text};
}

}  // namespace troupe::runtime
