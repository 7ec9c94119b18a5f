// Chooses the host that starts a place, and moves the places of a lost host.

#include "actors/process/launch_machine.hpp"

#include <algorithm>
#include <tuple>

namespace troupe::actors {

namespace act = launch_action;

std::vector<int> launch_machine::beside(const one& x, int agent) const {
  std::vector<int> out;
  for (const auto& y : all_)
    if (&y != &x && y.agent == agent)
      out.push_back(y.who.process);
  return out;
}

int launch_machine::slots_of(int agent) const {
  return std::size_t(agent) < hosts_.size() ? hosts_[std::size_t(agent)].slots : 1;
}

bool launch_machine::is_same_domain(int agent, int other) const {
  if (agent == other || std::size_t(std::max(agent, other)) >= hosts_.size())
    return agent == other;
  const auto& domain = hosts_[std::size_t(agent)].domain;
  return !domain.empty() && domain == hosts_[std::size_t(other)].domain;
}

// Order of preference:
//   a host that is not avoided;
//   one that exceeds its slots least;
//   the current host;
//   a failure domain that neither keeps the place's states nor has states kept by the place,
//   because the loss of one domain would take both; the host of the place's neighbours, with which
//   it exchanges most data; the fewest places.
std::optional<int> launch_machine::agent_for(const one& x) const {
  const auto keeper_of
      = [&](int p) { return std::size_t(p) < keepers_.size() ? keepers_[std::size_t(p)] : -1; };
  std::vector<int> places(agents_.size()), neighbours(agents_.size());  // besides x
  std::vector<int> peers;  // agents of its keeper and of the place that it keeps
  for (const auto& y : all_) {
    if (&y == &x)
      continue;
    ++places[std::size_t(y.agent)];
    neighbours[std::size_t(y.agent)] += y.first_agent == x.first_agent ? 1 : 0;
    if (keeper_of(x.who.process) == y.who.process || keeper_of(y.who.process) == x.who.process)
      peers.push_back(y.agent);
  }
  std::optional<std::tuple<bool, int, bool, std::int64_t, int, int, int>> best;
  for (int a = 0; a < int(agents_.size()); ++a) {
    if (!agents_[std::size_t(a)].is_usable())
      continue;
    const int others = places[std::size_t(a)];
    const std::tuple here(
        x.avoided.contains(a),
        std::max(0, others + 1 - slots_of(a)),
        a != x.agent,
        std::int64_t(std::count_if(
            peers.begin(), peers.end(), [&](int peer) { return is_same_domain(peer, a); })),
        -neighbours[std::size_t(a)],
        others,
        a);
    if (!best || here < *best)
      best = here;
  }
  if (!best)
    return std::nullopt;
  return std::get<6>(*best);
}

// A place that has stood is no configuration mistake: this host may be at fault. The run ends when
// each host was tried.
bool launch_machine::leave_host(one& x, const std::string& why) {
  if (!x.stood || over_ > 0)
    return false;
  for (std::size_t a = 0; a < agents_.size(); ++a)
    if (int(a) != x.agent && agents_[a].is_usable()) {
      agents_[std::size_t(x.agent)].unfit = why;
      x.failures = 0;
      return true;
    }
  return false;
}

// Offers one move at a time: the supervisor requests the place again, and its process must stand
// before the next offer.
void launch_machine::offer_moves(launch_actions& out) {
  if (over_ > 0
      || !std::all_of(all_.begin(), all_.end(), [](const auto& x) { return x.is == phase::stands; })
      || std::any_of(all_.begin(), all_.end(), [](const auto& x) { return bool(x.offered); }))
    return;
  std::vector<int> places(agents_.size());
  for (const auto& x : all_)
    ++places[std::size_t(x.agent)];
  const auto stays = [&](const one& x) {  // as agent_for decides
    return agents_[std::size_t(x.agent)].is_usable() && !x.avoided.contains(x.agent)
           && places[std::size_t(x.agent)] <= slots_of(x.agent);
  };
  for (const bool back : {true, false})  // first those that were there at the start of the run
    for (auto x = all_.rbegin(); x != all_.rend(); ++x)
      if (const auto at = stays(*x) ? std::nullopt : agent_for(*x);
          at && *at != x->agent && (!back || *at == x->first_agent)) {
        x->offered = *at;
        out.emplace_back(act::offer_move{x->who, *at});
        return;
      }
}

// The host or only the network may be down. The message to a process that still lives there may be
// lost.
launch_actions launch_machine::host_gone(int agent, const std::string& why) {
  launch_actions out;
  auto& by = agents_[std::size_t(agent)];
  if (!by.lost.empty())
    return out;
  by.lost = why;
  by.gone = over_ > 0;
  for (auto& x : all_) {
    if (x.agent != agent || x.is == phase::none)
      continue;
    if (x.present)
      out.emplace_back(act::abandon{x.who});
    lose(x, why, out);
  }
  // The supervisor may not have taken an offer yet; it must not replay for a host that is gone.
  for (auto& x : all_)
    if (x.offered == agent && x.is == phase::stands) {
      x.offered.reset();
      out.emplace_back(act::withdraw_offer{x.who});
    }
  offer_moves(out);
  quit_if_over(out);
  return out;
}

launch_actions launch_machine::host_refuses(int agent, const std::string& why) {
  if (over_ > 0 || std::any_of(all_.begin(), all_.end(), [](const auto& x) { return x.stood; }))
    return host_gone(agent, why);
  launch_actions out;
  agents_[std::size_t(agent)].lost = why;
  for (auto& x : all_)
    if (x.agent == agent)
      x.is = phase::none;  // its requests were never sent
  if (!refused_.empty())
    return out;
  refused_ = why;
  refused_by_ = agent;
  for (const auto& x : all_)
    if (value(x.asked) != 0)
      out.emplace_back(act::refuse{x.who, why, agent, true});
  return out;
}

launch_actions launch_machine::host_back(int agent) {
  launch_actions out;
  if (over_ > 0)
    return out;
  agents_[std::size_t(agent)] = {};
  offer_moves(out);
  return out;
}

}  // namespace troupe::actors
