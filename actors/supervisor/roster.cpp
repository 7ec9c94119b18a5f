#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/layout/keepers.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

void roster::form(const order_form& x) {
  forming_ = x;
  ranks_asked_for_ = false;
  replicas_.resize(std::size_t(run_.job->replicas()));
  connect_processes();
  spawn_services();
  spawn_ranks_if_served();
}

void roster::forget_ranks() {
  forming_.reset();
  connecting_.clear();
  replicas_.clear();
  opened_.clear();
  std::erase_if(watched_, [](const auto& x) { return x.second.where.role == member_role::rank; });
}

void roster::forgo_monitor() {
  monitor_ = nullptr;
  without_monitor_ = true;
}

void roster::join(const messages::process_started& x) {
  auto& at = processes_[std::size_t(x.process)];
  if (at.node)
    process_of_node_.erase(at.node.address());
  at.node = x.node;
  process_of_node_[x.node.address()] = x.process;
  at.connector = x.connector;
  at.where = x.where;
  at.connected_in = {};
  at.host = x.host;
  at.domain = x.domain;
  run_.show_process(x.process, "running");
  tell_monitor_of_processes();
  run_.context->messages->monitor(run_.self, at.node);
  settle_keepers();
}

// KEEPER-3: chosen when all processes are there, and again when some have moved. Kept states stay
// in place until the new keeper has them.
void roster::settle_keepers() {
  const auto is_here = [this](std::size_t p) { return bool(processes_[p].node); };
  if (!run_.keeps() || !all_here_(processes_.size(), is_here))
    return;
  std::vector<runtime::process_site> sites;
  for (const auto& x : processes_)
    sites.emplace_back(x.host, x.domain);
  const auto before = run_.context->ledger->keepers();
  const auto keepers = runtime::keepers_again(before, sites);
  if (keepers != before) {
    run_.pen()->keepers(keepers);
    tell_keepers(before);
  }
  show_keepers(keepers);
  std::set<int> moved;
  for (int p = 0; p < run_.processes(); ++p) {
    auto& x = processes_[std::size_t(p)];
    if (std::exchange(x.kept_in, keepers[std::size_t(p)]) == keepers[std::size_t(p)])
      continue;
    // Its node ends the old keeper when it spawns the next.
    x.keeper = nullptr;
    moved.insert(p);
  }
  if (moved.empty())
    return;
  const auto has_moved = [&](const residence& where) {
    return where.role == member_role::keeper && moved.contains(where.serves);
  };
  std::erase_if(watched_, [&](const auto& one) { return has_moved(one.second.where); });
  std::erase_if(pending_spawns_, [&](const auto& one) { return has_moved(one.second); });
}

// Logs what a death will cost. `before`: the keepers until now; empty: before the first step. In a
// large run, viewers show the keepers.
void roster::tell_keepers(const std::vector<int>& before) const {
  const auto keepers = run_.context->ledger->keepers();
  std::string shared;
  int left = 16;  // most lines
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    const auto& own = processes_[p];
    const auto& other = processes_[std::size_t(keepers[p])];
    if (own.domain == other.domain && own.host == other.host)
      shared = "host";
    else if (own.domain == other.domain && !own.domain.empty() && shared.empty())
      shared = "failure domain";
    if (!before.empty() && before[p] == keepers[p])
      continue;
    if (--left < 0)
      continue;
    if (!before.empty())
      runtime::log_info(
          " the states of process {}'s ranks (host '{}') are kept in process {} (host '{}') from "
          "now on, instead of process {} (host '{}'): processes have moved",
          p,
          own.host,
          keepers[p],
          other.host,
          before[p],
          processes_[std::size_t(before[p])].host);
    else
      runtime::log_info(
          " the states of process {}'s ranks (host '{}') are kept in process {} (host '{}')",
          p,
          own.host,
          keepers[p],
          other.host);
  }
  if (left < 0)
    runtime::log_info(" the states of {} more are kept in other processes",
                      runtime::counted(-left, "process", "processes"));
  if (!shared.empty())
    runtime::log_info(
        " processes of one {0} keep each other's states: when that {0} dies, the run resumes from "
        "its newest checkpoint{1}",
        shared,
        run_.job->job.checkpoints.save.empty() ? ", and it saves none: from its start" : "");
}

void roster::show_keepers(const std::vector<int>& of) const {
  if (!run_.context->records)
    return;
  run_.context->records->add_newest("keepers", "run", [of] {
    auto all = nlohmann::json::array();
    for (std::size_t p = 0; p < of.size(); ++p)
      all.push_back(
          nlohmann::json{{"of", fmt::format("node-{}", p)}, {"by", fmt::format("node-{}", of[p])}});
    return runtime::json_text(nlohmann::json{{"keepers", std::move(all)}});
  });
}

void roster::forget_process(int process) {
  for (const auto& [address, x] : watched_)
    if (x.where.lives_in == process)
      run_.show_member(x.where, "dead", fmt::format("process {} is gone", process));
  auto& at = processes_[std::size_t(process)];
  if (at.node)
    process_of_node_.erase(at.node.address());
  at.node = nullptr;
  at.connector = nullptr;
  at.loader = nullptr;
  at.writer = nullptr;
  for (auto& x : processes_)
    if (x.kept_in == process)
      x.keeper = nullptr;
  std::erase_if(watched_, [&](const auto& x) { return x.second.where.lives_in == process; });
  std::erase_if(pending_spawns_, [&](const auto& x) { return x.second.lives_in == process; });
  tell_monitor_of_processes();
}

void roster::end_processes() {
  if (run_.processes() > 1)
    for (const auto& x : processes_)
      if (x.node)
        run_.send_at_once(x.node, messages::shut_down{run_.generation()});
}

void roster::tell_monitor_of_processes() {
  if (!run_.context->records || !monitor_ || run_.processes() == 1)
    return;
  messages::use_processes told{.generation = run_.generation()};
  for (const auto& x : processes_)
    told.nodes.push_back(x.node);
  run_.send_at_once(monitor_, std::move(told));
}

std::string roster::name_and_host_of(int process) const {
  return fmt::format("process {} (host '{}')", process, roster::process(process).host);
}

std::optional<int> roster::process_of_node(const caf::actor_addr& x) const {
  const auto found = process_of_node_.find(x);
  return found == process_of_node_.end() ? std::nullopt : std::optional(found->second);
}

bool roster::owes_answer(int process) const {
  return connecting_.contains(process)
         || std::any_of(pending_spawns_.begin(), pending_spawns_.end(), [process](const auto& x) {
              return x.second.lives_in == process;
            });
}

std::optional<roster::watched_actor> roster::watched(const caf::actor_addr& x) const {
  const auto found = watched_.find(x);
  return found == watched_.end() ? std::nullopt : std::optional(found->second);
}

void roster::forget(const caf::actor_addr& x) {
  watched_.erase(x);
}

void roster::tell(const runtime::run_event& x) {
  const auto fact = run_.pen()->tell(x);
  if (monitor_)
    run_.send_at_once(monitor_, messages::happened{x, fact, run_.generation()});
}

}  // namespace troupe::actors
