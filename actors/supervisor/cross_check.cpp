#include "actors/supervisor/cross_check.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using runtime::digest;

bool are_alike(const std::vector<digest>& x) {
  return std::adjacent_find(x.begin(), x.end(), std::not_equal_to<>()) == x.end();
}

/// The value that more than half of them have; null: none.
const digest* majority(const std::vector<digest>& x) {
  for (const auto& one : x)
    if (2 * std::count(x.begin(), x.end(), one) > std::ptrdiff_t(x.size()))
      return &one;
  return nullptr;
}

/// The ranks with another value.
std::vector<int> others_than(const digest& right,
                             const ballot& who,
                             const std::vector<digest>& had) {
  std::vector<int> out;
  for (std::size_t i = 0; i < had.size(); ++i)
    if (had[i] != right)
      out.push_back(who.ranks[i]);
  return out;
}

wrong_bits found(bits_verdict verdict,
                 const ballot& of,
                 std::vector<int> ranks,
                 std::vector<int> replaced = {}) {
  return {verdict, of.first, of.what, std::move(ranks), std::move(replaced)};
}

}  // namespace

std::string to_string(bits_verdict x) {
  switch (x) {
    case bits_verdict::undecided:
      return "undecided";
    case bits_verdict::outvoted:
      return "outvoted";
    case bits_verdict::transient:
      return "transient";
    case bits_verdict::persistent:
      return "persistent";
    case bits_verdict::reproducible:
      return "reproducible";
    default:
      return "irreproducible";
  }
}

void cross_check::blame(const wrong_bits& x) {
  if (x.verdict != bits_verdict::undecided && x.verdict != bits_verdict::irreproducible)
    blamed_.insert(x.ranks.begin(), x.ranks.end());
}

// Several places now agree on a value, so the ranks that had another value were wrong.
wrong_bits cross_check::settle(const open_case& open, const ballot& now) {
  auto guilty = others_than(now.digests.front(), now, open.before);
  const auto verdict = guilty.size() == open.before.size() ? bits_verdict::irreproducible
                       : open.again                        ? bits_verdict::persistent
                                                           : bits_verdict::transient;
  return found(verdict, now, std::move(guilty));
}

// VERIFY-1.
wrong_bits cross_check::differ(const key& which, const ballot& now) {
  if (const auto* const right = majority(now.digests)) {
    const auto guilty = others_than(*right, now, now.digests);
    return found(bits_verdict::outvoted, now, guilty, guilty);
  }
  auto& open = open_[which];
  open.before = now.digests;
  // Without a majority: exchanges the one rank that was wrong before.
  std::vector<int> replaced;
  for (const int r : now.ranks)
    if (blamed_.contains(r))
      replaced.push_back(r);
  if (replaced.size() != 1)
    replaced.clear();
  open.exchanged.insert(replaced.begin(), replaced.end());
  return found(bits_verdict::undecided, now, now.ranks, replaced);
}

wrong_bits cross_check::differ_again(open_case& open, const ballot& now) {
  std::vector<int> changed;
  for (std::size_t i = 0; i < now.digests.size(); ++i)
    if (now.digests[i] != open.before[i])
      changed.push_back(now.ranks[i]);
  open.again = true;
  open.before = now.digests;
  if (changed.size() == now.digests.size())
    return found(bits_verdict::irreproducible, now, changed);
  if (!changed.empty()) {  // the same computation gave another result
    open.exchanged.insert(changed.begin(), changed.end());
    return found(bits_verdict::persistent, now, changed, changed);
  }
  // All repeat their values. Exchanges one place after the other, so that the states of both are
  // never lost at once. The rank that then changes its value was wrong.
  for (const int r : now.ranks)
    if (open.exchanged.insert(r).second)
      return found(bits_verdict::undecided, now, now.ranks, {r});
  return found(bits_verdict::undecided, now, now.ranks);
}

cross_check::answer cross_check::compare(std::uint64_t step,
                                         checked_bits what,
                                         const std::vector<ballot>& all) {
  answer out;
  for (const auto& now : all) {
    const key which{what, step, now.first, now.what};
    auto known = open_.find(which);
    if (known != open_.end() && known->second.before.size() != now.digests.size()) {
      open_.erase(known);
      known = open_.end();
    }
    if (are_alike(now.digests)) {
      if (known == open_.end())
        continue;
      out.found.push_back(settle(known->second, now));
      out.found.back().parameters = known->second.parameters;
      open_.erase(known);
    } else {
      out.alike = false;
      out.found.push_back(known == open_.end() ? differ(which, now)
                                               : differ_again(known->second, now));
      out.found.back().parameters = now.parameters;
      if (const auto open = open_.find(which); open != open_.end())
        open->second.parameters = now.parameters;
    }
    blame(out.found.back());
  }
  // All cases of earlier steps are settled.
  if (out.alike)
    std::erase_if(open_, [&](const auto& one) { return one.first.step < step; });
  return out;
}

}  // namespace troupe::actors
