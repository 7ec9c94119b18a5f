#include "actors/supervisor/stored_steps.hpp"

#include "runtime/optim/optimizer_state.hpp"

#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

using digests_by_name = std::map<std::string, runtime::digest>;

const messages::stored_states* find(const std::vector<messages::stored_states>& found,
                                    int process,
                                    std::uint64_t step) {
  for (const auto& x : found)
    if (x.process == process && value(x.step) == step)
      return &x;
  return nullptr;
}

struct held_states {
  int holder = 0;
  const messages::stored_states* what = nullptr;
};

held_states find(const found_on_disks& found, int keeper, int process, std::uint64_t step) {
  if (const auto at = found.find(keeper); at != found.end())
    if (const auto* const there = find(at->second, process, step))
      return {keeper, there};
  for (const auto& [holder, all] : found)
    if (const auto* const there = find(all, process, step))
      return {holder, there};
  return {};
}

digests_by_name of_layers(runtime::axis_view layers, const opened_job& job, digests_by_name own) {
  std::erase_if(own, [&](const auto& x) { return job.pipeline.layers_of(x.first) != layers; });
  return own;
}

/// Checks the states of a step, all ranks together, against the ledger; returns what is wrong.
std::string complaint_about(const std::map<int, digests_by_name>& own,
                            const opened_job& job,
                            const runtime::digest& committed) {
  digests_by_name sum;
  for (int rank = 0; rank < job.seats.size(); ++rank) {
    const auto here = own.find(rank);
    if (here == own.end())
      return fmt::format("the state of rank {} is missing", rank);
    for (const auto layers : runtime::axis_views) {
      const auto state = of_layers(layers, job, here->second);
      const int first = job.first_alike[layers][std::size_t(rank)];
      if (!job.counts(rank, layers) && state != of_layers(layers, job, own.at(first)))
        return fmt::format("the states of ranks {} and {} differ", first, rank);
      if (job.counts(rank, layers))
        for (const auto& [name, part] : state)
          sum[name] += part;
    }
  }
  return runtime::combine(sum) == committed ? ""
                                            : "they differ from the committed ones in the ledger";
}

}  // namespace

stored_search newest_stored(const found_on_disks& found,
                            const std::vector<int>& keepers,
                            const opened_job& job,
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
      continue;  // of another run, or before the start of this one
    std::map<int, digests_by_name> own;
    std::vector<int> holders;
    std::string why;
    for (int p = 0; p < int(keepers.size()) && why.empty(); ++p) {
      const auto there = find(found, keepers[std::size_t(p)], p, *step);
      if (there.what == nullptr) {
        why = fmt::format("the states of process {} are missing", p);
        continue;
      }
      holders.push_back(there.holder);
      for (const auto& x : there.what->ranks)
        own[x.rank] = x.own;
    }
    if (why.empty())
      why = complaint_about(own, job, state);  // MEMBER-6
    if (why.empty()) {
      out.newest = stored_everywhere{*step, std::move(holders)};
      return out;
    }
    out.passed_over.push_back(
        fmt::format("the local states of iteration {} are not used: {}", *step, why));
  }
  return out;
}

}  // namespace troupe::actors
