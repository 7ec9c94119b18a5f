#include "runtime/schedule/accumulation.hpp"

#include "runtime/schedule/check.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {
namespace {

/// Calls `each` for the first W of each chunk and copy that adds a micro-batch out of ascending
/// order.
template <class Each>
void for_each_disorder(const plan& x, Each&& each) {
  std::vector<std::size_t> first_block{0};
  for (int c = 0; c < x.chunks; ++c)
    first_block.push_back(first_block.back()
                          + (x.blocks.empty() ? 1 : x.blocks[std::size_t(c)].size()));
  const auto unit = [&](const action& a) {
    return value(a.copy) * first_block.back() + first_block[value(a.chunk)] + a.block;
  };
  std::vector<std::int64_t> last(first_block.back() * std::size_t(x.copies), -1);
  std::vector<char> told_of(x.placement.size());
  for (const auto& row : x.ranks)
    for (const auto& a : row)
      if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradients) {
        auto& before = last[unit(a)];
        auto& known = told_of[value(a.copy) * std::size_t(x.chunks) + value(a.chunk)];
        if (std::int64_t(value(a.microbatch)) < before && !known) {
          known = 1;
          each(row, a);
        }
        before = value(a.microbatch);
      }
}

/// "3, 2, ..." around the place where the order breaks.
std::string order_around(const std::vector<action>& row, const action& at) {
  std::vector<std::uint32_t> order;
  std::size_t place = 0;
  for (const auto& a : row)
    if ((a.kind == action_kind::backward || a.kind == action_kind::weight_gradients)
        && a.chunk == at.chunk && a.copy == at.copy && a.block == at.block) {
      if (a == at)
        place = order.size();
      order.push_back(value(a.microbatch));
    }
  const auto from = place < 2 ? 0 : place - 2, to = std::min(order.size(), place + 3);
  std::string out = from > 0 ? "..., " : "";
  for (auto i = from; i < to; ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i == from ? "" : ", ", order[i]);
  return out + (to < order.size() ? ", ..." : "");
}

}  // namespace

std::vector<std::string> accumulation_notes(const plan& x) {
  std::vector<std::string> out;
  if (!x.training)
    return out;
  if (x.copies > 1)
    out.push_back(
        fmt::format("PLAN-4: {} copies of the model add the gradients of their own "
                    "micro-batches, and then their sums: the bits differ from those of "
                    "single-copy schedules",
                    x.copies));
  std::size_t others = 0;
  std::string first;
  for_each_disorder(x, [&](const std::vector<action>& row, const action& at) {
    if (first.empty())
      first
          = fmt::format("stage {}{} are added in the order {}",
                        value(at.chunk),
                        x.copies > 1 ? fmt::format(" of copy {}", char('a' + value(at.copy))) : "",
                        order_around(row, at));
    else
      ++others;
  });
  if (!first.empty())
    out.push_back(fmt::format(
        "PLAN-4: weight gradients of {}{}: the bits differ from those of other schedules",
        first,
        others == 0 ? "" : fmt::format(" (and those of {} more stages in such an order)", others)));
  return out;
}

bool accumulates_in_order(const plan& x) {
  bool ascending = x.copies == 1;
  for_each_disorder(x, [&](const auto&, const auto&) { ascending = false; });
  return ascending || !x.training;
}

}  // namespace troupe::runtime
