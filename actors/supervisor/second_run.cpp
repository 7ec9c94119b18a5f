#include "actors/supervisor/second_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace troupe::actors {

run_of_step run_of(const messages::vote& all, int replicas_each, int replicas) {
  run_of_step out{.of_ranks = all.of_ranks};
  for (const auto& part : all.losses)
    out.losses.push_back(
        {part.number / replicas_each % replicas, std::bit_cast<std::uint64_t>(part.total)});
  std::ranges::stable_sort(out.losses, {}, &run_of_step::loss::replica);
  return out;
}

// VERIFY-3.
second_runs::answer second_runs::compare(std::uint64_t step, run_of_step now) {
  const auto known = first_.find(step);
  if (known == first_.end()) {
    const auto judged = judged_.find(step);
    if (now.fault.empty() || (judged != judged_.end() && now.has_bits_of(judged->second)))
      return {};
    first_.emplace(step, std::move(now));
    return {.again = true};
  }
  const auto before = std::move(known->second);
  first_.erase(known);
  finding out{.verdict = now.fault.empty()         ? bits_verdict::transient
                         : now.has_bits_of(before) ? bits_verdict::reproducible
                                                   : bits_verdict::persistent,
              .fault = before.fault,
              .where = before.where};
  for (std::size_t i = 0; i < std::min(now.losses.size(), before.losses.size()); ++i) {
    const auto& loss = before.losses[i];
    const bool accused = out.verdict == bits_verdict::reproducible
                             ? !std::isfinite(std::bit_cast<double>(loss.bits))
                             : loss != now.losses[i];
    if (accused && (out.replicas.empty() || out.replicas.back() != loss.replica))
      out.replicas.push_back(loss.replica);
  }
  if (out.verdict == bits_verdict::transient)
    for (const int r : out.replicas)
      out.transients = std::max(out.transients, ++transients_[r]);
  else
    judged_.insert_or_assign(step, std::move(now));
  return {.found = std::move(out)};
}

}  // namespace troupe::actors
