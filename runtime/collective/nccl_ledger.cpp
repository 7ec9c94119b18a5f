#include "runtime/collective/nccl_ledger.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

namespace {

std::int64_t cut(const std::vector<std::int64_t>& ends, int rank) {
  const auto r = std::size_t(rank);
  return r >= ends.size() ? -1 : ends[r] - (r == 0 ? 0 : ends[r - 1]);
}

std::string sizes_differ(
    axis_set along, int from, std::int64_t bytes, int to, std::int64_t expected) {
  return fmt::format(
      "COLLECTIVE-4: a rank sends as much as the other expects: along {} rank {} sends {} bytes to "
      "rank {}, which expects {}",
      short_name(along),
      from,
      bytes,
      to,
      expected);
}

}  // namespace

std::string nccl_ledger::enter(axis_set along,
                               int ranks_here,
                               int rank,
                               const collective_call& call,
                               communicator::offsets to_ends) {
  const auto number = came_[rank]++;
  auto& found = open_[number];
  if (found.arrived++ == 0) {
    found.rank = rank;
    found.call = call;
    found.ends.assign(call.ends.begin(), call.ends.end());
    found.call.ends = found.ends;
  }
  auto wrong = disagreement(along, found.rank, found.call, rank, call);
  if (wrong.empty() && call.cuts_are_own) {
    auto& all = found.sent_and_expected;
    auto& mine = all[rank];
    mine.first.assign(call.ends.begin(), call.ends.end());
    mine.second.assign(to_ends.begin(), to_ends.end());
    for (const auto& [other, theirs] : all)
      for (const auto& [from, sent, to, expected] :
           {std::tuple(rank, cut(mine.first, other), other, cut(theirs.second, rank)),
            std::tuple(other, cut(theirs.first, rank), rank, cut(mine.second, other))})
        if (sent != expected)
          wrong = sizes_differ(along, from, sent, to, expected);
  }
  if (found.arrived == ranks_here)
    open_.erase(number);
  return wrong;
}

std::string nccl_ledger::exchange(axis_set along,
                                  int rank,
                                  std::span<const nccl_send> sends,
                                  std::span<const nccl_receive> receives) {
  const auto meets
      = [](std::deque<std::int64_t>& theirs, std::deque<std::int64_t>& mine, std::int64_t bytes) {
          if (theirs.empty()) {
            mine.push_back(bytes);
            return bytes;
          }
          const auto said = theirs.front();
          theirs.pop_front();
          return said;
        };
  for (const auto& x : sends) {
    auto& of = pairs_[{rank, x.to}];
    if (const auto expected = meets(of.expected, of.sent, x.bytes); expected != x.bytes)
      return sizes_differ(along, rank, x.bytes, x.to, expected);
  }
  for (const auto& x : receives) {
    auto& of = pairs_[{x.from, rank}];
    if (const auto sent = meets(of.sent, of.expected, x.bytes); sent != x.bytes)
      return sizes_differ(along, x.from, sent, rank, x.bytes);
  }
  return "";
}

}  // namespace troupe::runtime
