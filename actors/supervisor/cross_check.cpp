#include "actors/supervisor/cross_check.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using runtime::digest;

bool are_alike(const std::vector<digest>& x) {
  return std::adjacent_find(x.begin(), x.end(), std::not_equal_to<>()) == x.end();
}

/// That more than half of them have; null: none.
const digest* majority(const std::vector<digest>& x) {
  for (const auto& one : x)
    if (2 * std::count(x.begin(), x.end(), one) > std::ptrdiff_t(x.size()))
      return &one;
  return nullptr;
}

/// Who has something else.
std::vector<int> others_than(const digest& right, const std::vector<digest>& x) {
  std::vector<int> out;
  for (std::size_t r = 0; r < x.size(); ++r)
    if (x[r] != right)
      out.push_back(int(r));
  return out;
}

std::vector<int> everybody(const std::vector<digest>& x) {
  std::vector<int> out;
  for (std::size_t r = 0; r < x.size(); ++r)
    out.push_back(int(r));
  return out;
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
    default:
      return "irreproducible";
  }
}

void cross_check::blame(const wrong_bits& x) {
  if (x.verdict != bits_verdict::undecided && x.verdict != bits_verdict::irreproducible)
    for (const int r : x.replicas)
      blamed_.emplace(r, x.stage);
}

// The value that all have now was computed by several places; who had another one was wrong.
wrong_bits cross_check::settle(const key& which, const open_case& open, const digest& agreed) {
  wrong_bits out{.verdict = open.again ? bits_verdict::persistent : bits_verdict::transient,
                 .stage = which.stage,
                 .replicas = others_than(agreed, open.before)};
  if (out.replicas.size() == open.before.size())
    out.verdict = bits_verdict::irreproducible;
  return out;
}

wrong_bits cross_check::differ(const key& which, const bits& now) {
  if (const auto* const right = majority(now)) {
    wrong_bits out{bits_verdict::outvoted, which.stage, others_than(*right, now)};
    out.replaced = out.replicas;
    return out;
  }
  auto& open = open_[which];
  open.before = now;
  wrong_bits out{bits_verdict::undecided, which.stage, everybody(now)};
  // Of two, one of whom was wrong before.
  for (const int r : out.replicas)
    if (blamed_.contains({r, which.stage}))
      out.replaced.push_back(r);
  if (out.replaced.size() != 1)
    out.replaced.clear();
  open.exchanged.insert(out.replaced.begin(), out.replaced.end());
  return out;
}

wrong_bits cross_check::differ_again(const key& which, open_case& open, const bits& now) {
  std::vector<int> changed;
  for (std::size_t r = 0; r < now.size(); ++r)
    if (now[r] != open.before[r])
      changed.push_back(int(r));
  open.again = true;
  open.before = now;
  if (changed.size() == now.size())
    return {bits_verdict::irreproducible, which.stage, changed};
  if (!changed.empty()) {  // the same computation, another result
    open.exchanged.insert(changed.begin(), changed.end());
    return {bits_verdict::persistent, which.stage, changed, changed};
  }
  // Each insists. One place after the other is exchanged, so that the states of both are never
  // lost at once: who then has another value was wrong.
  wrong_bits out{bits_verdict::undecided, which.stage, everybody(now)};
  for (const int r : out.replicas)
    if (open.exchanged.insert(r).second) {
      out.replaced = {r};
      break;
    }
  return out;
}

cross_check::answer cross_check::compare(const replica_reports& x) {
  answer out;
  if (x.digests.empty())
    return out;
  const auto stages = x.digests.front().size();
  for (std::size_t s = 0; s < stages; ++s) {
    bits now;
    for (const auto& of_replica : x.digests)
      now.push_back(s < of_replica.size() ? of_replica[s] : digest{});
    const key which{x.what, x.step, int(s)};
    auto found = open_.find(which);
    if (found != open_.end() && found->second.before.size() != now.size()) {
      open_.erase(found);
      found = open_.end();
    }
    if (are_alike(now)) {
      if (found == open_.end())
        continue;
      out.found.push_back(settle(which, found->second, now.front()));
      open_.erase(found);
    } else {
      out.alike = false;
      out.found.push_back(found == open_.end() ? differ(which, now)
                                               : differ_again(which, found->second, now));
    }
    blame(out.found.back());
  }
  // What came of an earlier step is known by now.
  if (out.alike)
    std::erase_if(open_, [&](const auto& one) { return one.first.step < x.step; });
  return out;
}

}  // namespace troupe::actors
