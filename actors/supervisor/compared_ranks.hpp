// Ballots of a cross check, from what ranks report of their gradients and states.

#pragma once

#include "actors/host/opened_job.hpp"
#include "actors/supervisor/cross_check.hpp"
#include "actors/supervisor/reported_ranks.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Collects what ranks reported, by the ranks that must be alike. `Value`: of a parameter.
template <class Value>
class compared_ranks {
 public:
  using by_parameter = std::map<std::string, Value>;

  explicit compared_ranks(const opened_job& job) : job_(job) {}

  /// Notes the parameters whose values differ from those of the first of these ranks, unless each
  /// has a share. `values` outlives this object.
  template <class Report>
  void add(const Report& x, const by_parameter& values) {
    const int first = job_.first_alike[x.layers][std::size_t(x.rank)];
    ballot empty{.first = first, .what = std::uint64_t(x.layers)};
    auto& [to, of_first]
        = found_.try_emplace({x.layers, first}, std::move(empty), &values).first->second;
    to.ranks.push_back(x.rank);
    to.digests.push_back(x.bits);
    if (!job_.job.reduction.distributed_optimizer)
      note_differing(*of_first, values, to.parameters);
  }
  /// Breaks STEP-11 if a rank with equal parameters is missing.
  std::vector<ballot> ballots() const {
    std::vector<ballot> out;
    for (const auto& [key, x] : found_) {
      const auto& [layers, first] = key;
      runtime::ensure(x.first.ranks.size() == job_.seats.alike(first, layers).size(),
                      each_rank_once);
      out.push_back(x.first);
    }
    return out;
  }

 private:
  static void note_differing(const by_parameter& one,
                             const by_parameter& other,
                             std::set<std::string>& to) {
    for (const auto& [name, x] : one)
      if (const auto found = other.find(name); found == other.end() || found->second != x)
        to.insert(name);
    for (const auto& [name, x] : other)
      if (!one.contains(name))
        to.insert(name);
  }

  const opened_job& job_;
  std::map<std::pair<runtime::axis_view, int>, std::pair<ballot, const by_parameter*>> found_;
};

}  // namespace troupe::actors
