#include "runtime/schedule/waits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {
namespace {

using node = plan_graph::node;

/// Longer cycles are cut off here.
constexpr std::size_t longest_listed = 12;

struct wait {
  node at = plan_graph::none, of = plan_graph::none;
  std::size_t on = 0;  ///< the rank of the awaited action
};

class standstill {
 public:
  explicit standstill(const plan_graph& graph)
      : graph_(graph), left_(carry_out(graph, [](node, node, std::size_t) {})) {
    for (std::size_t r = 0; r < left_.size(); ++r)
      waits_.push_back(is_blocked(r) ? wait_of(r) : wait{});
  }

  std::vector<std::string> circles() const {
    std::vector<std::string> out;
    std::vector<std::size_t> seen_from(left_.size(), SIZE_MAX);
    std::size_t blocked = 0, in_circles = 0;
    for (std::size_t r = 0; r < left_.size(); ++r) {
      if (!is_blocked(r))
        continue;
      ++blocked;
      std::size_t at = r;
      while (seen_from[at] == SIZE_MAX && waits_[at].of != plan_graph::none) {
        seen_from[at] = r;
        at = waits_[at].on;
      }
      if (waits_[at].of != plan_graph::none && seen_from[at] == r) {
        out.push_back(circle(at));
        in_circles += length(at);
      }
    }
    if (!out.empty() && blocked > in_circles)
      out.back() += blocked - in_circles == 1
                        ? "; one other rank waits for these"
                        : fmt::format("; {} other ranks wait for these", blocked - in_circles);
    return out;
  }

 private:
  bool is_blocked(std::size_t r) const { return left_[r] < graph_.row_end(r); }

  wait wait_of(std::size_t r) const {
    const node n = left_[r];
    const node count = graph_.at(n, r).with_next && n + 1 < graph_.row_end(r) ? 2 : 1;
    for (node i = n; i < n + count; ++i)
      for (const auto& need : graph_.needs_of(i, r)) {
        if (need.of == plan_graph::none)
          continue;
        const auto on = graph_.rank_of(need.of);
        if (need.of >= left_[on])
          return {i, need.of, on};
      }
    return {};
  }

  std::size_t length(std::size_t from) const {
    std::size_t out = 1;
    for (auto r = waits_[from].on; r != from; r = waits_[r].on)
      ++out;
    return out;
  }

  std::string name(node n) const { return to_string(graph_.at(n), graph_.of().copies); }

  std::string circle(std::size_t from) const {
    auto out = fmt::format("rank {}", from);
    const auto ranks = length(from);
    auto r = from;
    for (std::size_t i = 0; i < std::min(ranks, longest_listed); ++i, r = waits_[r].on) {
      const auto& x = waits_[r];
      const bool credit = graph_.credit_of(x.at) == x.of;
      fmt::format_to(std::back_inserter(out),
                     "{} waits at {} for {}{} of rank {}",
                     i == 0 ? "" : ", which",
                     name(x.at),
                     credit ? "the credit of " : "",
                     name(x.of),
                     x.on);
    }
    if (ranks > longest_listed)
      fmt::format_to(std::back_inserter(out),
                     ", and so on over {} more ranks back to rank {}",
                     ranks - longest_listed,
                     from);
    return out;
  }

  const plan_graph& graph_;
  std::vector<node> left_;
  std::vector<wait> waits_;
};

}  // namespace

std::vector<std::string> circular_waits(const plan_graph& graph) {
  return standstill(graph).circles();
}

}  // namespace troupe::runtime
