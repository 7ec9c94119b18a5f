#include "runtime/device/wait_graph.hpp"

#include <algorithm>
#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::runtime {
namespace {

/// Of a processor, in hundredths: who uses less does not compute.
constexpr std::uint64_t least_share = 1;
/// Times the patience with one that computes.
constexpr double slow = 4;

std::string line_of(const board_entry& x, std::uint64_t now_ns) {
  std::string out = x.who;
  if (x.step > 0)
    out += fmt::format(" step {}", x.step);
  if (!x.work.empty())
    out += fmt::format(" '{}'", x.work);
  const auto seconds = double(now_ns - std::min(x.since_ns, now_ns)) / 1e9;
  if (!x.waits)
    return out + fmt::format(": at it for {:.2f} s", seconds);
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
        if (const auto to = out.find(y); x.waits && to != out.end()) {
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
      return other.waits && std::count(other.whom.begin(), other.whom.end(), x.who) > 0;
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
    return std::nullopt;
  return verdict{*root, double(now_ns - root->since_ns) / 1e9, graph.text(root->who, now_ns)};
}

}  // namespace troupe::runtime
