// Ballots of a cross check, from what ranks report of their gradients and states.

#pragma once

#include "actors/host/opened_job.hpp"
#include "actors/supervisor/cross_check.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors {

template <class Value>
void note_differing(const std::map<std::string, Value>& one,
                    const std::map<std::string, Value>& other,
                    std::set<std::string>& to) {
  for (const auto& [name, x] : one)
    if (const auto found = other.find(name); found == other.end() || found->second != x)
      to.insert(name);
  for (const auto& [name, x] : other)
    if (!one.contains(name))
      to.insert(name);
}

/// The ballots of merged entries, sorted and complete. Notes the parameters whose `values` differ
/// from those of the first of these ranks, unless each has a share. `all`: also ballots in which
/// all agree.
template <class Entry, class Value>
std::vector<ballot> ballots_of(const std::vector<Entry>& entries,
                               std::map<std::string, Value> Entry::*values,
                               const opened_job& job,
                               bool all) {
  std::vector<ballot> out;
  const auto first_of
      = [&](const Entry& x) { return job.first_alike[x.layers][std::size_t(x.rank)]; };
  for (auto x = entries.begin(); x != entries.end();) {
    const auto& lowest = *x;
    auto end = x;
    while (end != entries.end() && end->layers == x->layers && first_of(*end) == first_of(*x))
      ++end;
    if (!all && end - x == 1) {
      x = end;
      continue;
    }
    auto& to = out.emplace_back(ballot{
        .first = first_of(lowest),
        .what = std::uint64_t(lowest.layers),
        .ranks = job.seats.alike(lowest.rank, lowest.layers),
        .digests = std::vector<runtime::digest>(std::size_t(job.alike_each[lowest.layers]))});
    for (; x != end; ++x) {
      for (const auto& [begin, until] : x->alike)
        std::fill(to.digests.begin() + begin, to.digests.begin() + until, x->bits);
      if (!job.job.reduction.distributed_optimizer)
        note_differing(lowest.*values, (*x).*values, to.parameters);
    }
  }
  return out;
}

}  // namespace troupe::actors
