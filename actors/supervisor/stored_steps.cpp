#include "actors/supervisor/stored_steps.hpp"

#include "runtime/optim/optimizer_state.hpp"

#include <fmt/format.h>
#include <set>

namespace troupe::actors {
namespace {

using digests_by_name = std::map<std::string, runtime::digest>;

const messages::stored_states* find(const found_on_disks& found,
                                    int holder,
                                    int process,
                                    std::uint64_t step) {
  const auto at = found.find(holder);
  if (at == found.end())
    return nullptr;
  for (const auto& x : at->second)
    if (x.process == process && value(x.step) == step)
      return &x;
  return nullptr;
}

/// What the states of a step are of, all ranks together; or why that is not the ledger's.
std::string complaint_about(const std::map<int, digests_by_name>& own,
                            const std::vector<std::vector<int>>& replicas,
                            bool sharded,
                            const runtime::digest& committed) {
  digests_by_name sum;
  for (const auto& ranks : replicas) {
    for (const int rank : ranks) {
      const auto at = own.find(rank);
      if (at == own.end())
        return fmt::format("that of rank {} is missing", rank);
      for (const auto& [name, part] : at->second)
        sum[name] += part;
    }
    if (sharded)
      continue;
    if (runtime::combine(sum) != committed)
      return "they are not those that the ledger has of it";
    sum.clear();
  }
  return !sharded || runtime::combine(sum) == committed
             ? ""
             : "they are not those that the ledger has of it";
}

}  // namespace

stored_search newest_stored(const found_on_disks& found,
                            const std::vector<int>& holders,
                            const std::vector<std::vector<int>>& replicas,
                            bool sharded,
                            const std::function<runtime::digest(std::uint64_t)>& committed,
                            std::optional<std::uint64_t> before) {
  std::set<std::uint64_t> steps;
  for (const auto& [holder, all] : found)
    for (const auto& x : all)
      if (!before || value(x.step) < *before)
        steps.insert(value(x.step));
  stored_search out;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto state = committed(*step);
    if (state == runtime::digest{})
      continue;  // of another run, or before this one's beginning
    std::map<int, digests_by_name> own;
    std::string why;
    for (int p = 0; p < int(holders.size()) && why.empty(); ++p) {
      const auto* const there = find(found, holders[std::size_t(p)], p, *step);
      if (there == nullptr)
        why = fmt::format("those of process {} are missing", p);
      else
        for (const auto& x : there->ranks)
          own[x.rank] = x.own;
    }
    if (why.empty())
      why = complaint_about(own, replicas, sharded, state);  // MEMBER-6
    if (why.empty()) {
      out.newest = stored_everywhere{*step, holders};
      return out;
    }
    out.passed_over.push_back(
        fmt::format("the local states of iteration {} are not used: {}", *step, why));
  }
  return out;
}

}  // namespace troupe::actors
