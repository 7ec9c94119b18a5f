// Connects the processes of a generation with their neighbours.

#include "actors/supervisor/supervisor.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::actors {
namespace {

/// One of two neighbours calls the other. Each process calls about half of its neighbours.
bool calls(int process, int other) {
  return (process + other) % 2 == 0 ? process < other : process > other;
}

}  // namespace

// A keeper pulls the states of its process, and the ranks of a process may fetch theirs from
// another keeper. Orders and reports go along the tree. Other pairs that no layout implies belong
// here too.
std::vector<std::pair<int, int>> roster::other_pairs() const {
  std::vector<std::pair<int, int>> out;
  for (int p = 0; p < run_.processes(); ++p) {
    if (run_.keeps())
      out.emplace_back(p, process(p).kept_in);
    if (const auto from = holding_process(p))
      out.emplace_back(p, *from);
    if (const int parent = tree_.parent(p); parent != runtime::process_tree::root)
      out.emplace_back(parent, p);
  }
  return out;
}

// PROCESS-2. A process that stays is told what has changed: with the addresses of all neighbours,
// the orders of a recovery would grow with the square of a group.
void roster::connect_processes() {
  for (int p = 0; p < run_.processes(); ++p)
    if (process(p).connector)
      connecting_.insert(p);
  if (connecting_.empty())
    return;
  if (neighbours_.empty())
    neighbours_ = runtime::neighbours_of(run_.job->pipeline, run_.job->seats, run_.job->placed);
  const auto before = std::exchange(connected_, {run_.generation(), other_pairs()});
  for (const auto& x : processes_)
    connected_.who.push_back(x.where.who);
  const auto all = runtime::with_pairs(neighbours_, connected_.others);
  const auto all_before = runtime::with_pairs(neighbours_, before.others);
  for (const int p : std::set(connecting_)) {
    messages::connect_to told{.generation = run_.generation()};
    const auto& others = all[std::size_t(p)];
    const auto& others_before = all_before[std::size_t(p)];
    if (value(before.generation) != 0 && process(p).connected_in == before.generation) {
      told.since = before.generation;
      std::ranges::set_difference(others_before, others, std::back_inserter(told.no_more));
    }
    const auto is_known = [&](int other) {
      return value(told.since) != 0 && std::ranges::binary_search(others_before, other)
             && before.who[std::size_t(other)] == process(other).where.who;
    };
    for (const int other : others) {
      if (is_known(other))
        continue;
      told.others.push_back(process(other).where);
      if (!calls(p, other))
        told.others.back().port = 0;
    }
    const auto of = run_.generation();
    run_.request(process(p).connector, std::move(told))
        .then(
            [this, p, of](const messages::connected& x) {
              const auto turn = run_.take_turn("connected");
              if (of != run_.generation() || !connecting_.contains(p))
                return;  // its generation has ended
              if (!x.failure.empty())
                return recovery_.cannot_connect(p, x.other, x.failure);
              connecting_.erase(p);
              processes_[std::size_t(p)].connected_in = of;
              spawn_ranks_if_served();
            },
            [this, p, of](const caf::error&) {
              const auto turn = run_.take_turn("error");
              if (of == run_.generation() && connecting_.contains(p))
                recovery_.lose_node(p, caf::exit_reason::remote_link_unreachable);
            });
  }
}

}  // namespace troupe::actors
