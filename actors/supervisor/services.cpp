// Spawns the services and the ranks of a generation.

#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::actors {

bool roster::is_served() const {
  return checkpointer_ && all_served_(processes_.size(), [this](std::size_t p) {
           return processes_[p].loader && (!run_.keeps() || processes_[p].keeper);
         });
}

// Replicas are spawned with the services of their ranks, so these must exist.
void roster::spawn_ranks_if_served() {
  if (!forming_ || !connecting_.empty() || !is_served() || ranks_asked_for_
      || run_.members.now() != membership::phase::forming)
    return;
  ranks_asked_for_ = true;
  for (auto& x : processes_) {
    x.told_loader = x.loader;
    x.told_keeper = x.keeper;
  }
  for (int p = 0; p < run_.processes(); ++p)
    processes_[std::size_t(p)].told_holder = holder_for(p);
  told_checkpointer_ = checkpointer_;
  spawn_replicas();
}

void roster::tell_of_services() {
  for (int p = 0; p < run_.processes(); ++p) {
    auto& x = processes_[std::size_t(p)];
    if (x.loader && x.told_loader != x.loader)
      tell_replicas_in(p, messages::use_loader{run_.generation(), p, x.told_loader = x.loader});
    const auto holder = holder_for(p);
    if (!x.keeper || (x.told_keeper == x.keeper && (!holder || x.told_holder == holder)))
      continue;
    x.told_keeper = x.keeper;
    if (holder)
      x.told_holder = holder;
    tell_replicas_in(p, messages::use_keeper{run_.generation(), p, x.keeper, holder});
  }
  if (checkpointer_ && told_checkpointer_ != checkpointer_)
    tell_replicas(
        messages::use_checkpointer{run_.generation(), told_checkpointer_ = checkpointer_});
}

// Updates a replica that was being spawned while a service was replaced.
void roster::tell_of_services(const messages::replica_actor& to,
                              const std::vector<messages::hosting_process>& known) const {
  for (const auto& then : known) {
    const int p = then.process;
    const auto& x = processes_[std::size_t(p)];
    if (x.told_loader && x.told_loader != then.loader)
      run_.send(to, messages::use_loader{run_.generation(), p, x.told_loader});
    if (x.told_keeper && (x.told_keeper != then.keeper || x.told_holder != then.holder))
      run_.send(to, messages::use_keeper{run_.generation(), p, x.told_keeper, x.told_holder});
  }
}

void roster::spawn_services() {
  spawn_viewers();
  std::set<std::pair<member_role, int>> coming;
  for (const auto& [number, x] : pending_spawns_)
    coming.emplace(x.role, x.serves);
  const auto is_coming = [&](member_role role, int process = 0) {
    return coming.contains({role, process});
  };
  if (!monitor_ && !without_monitor_ && !is_coming(member_role::monitor))
    spawn_monitor();
  for (int p = 0; p < run_.processes(); ++p) {
    if (!processes_[std::size_t(p)].loader && !is_coming(member_role::loader, p))
      spawn_loader(p);
    if (run_.keeps() && !processes_[std::size_t(p)].keeper && !is_coming(member_role::keeper, p))
      spawn_keeper(p);
    if (writes_apart() && !processes_[std::size_t(p)].writer
        && !is_coming(member_role::shard_writer, p))
      spawn_shard_writer(p);
  }
  if (!checkpointer_ && !is_coming(member_role::checkpointer))
    spawn_checkpointer();
}

std::string roster::name_of_service(const char* what, int process) const {
  return run_.processes() == 1 ? what : fmt::format("{}:{}", what, process);
}

template <class Handle>
void roster::watch(residence where, const Handle& actor) {
  run_.context->messages->monitor(run_.self, actor);
  run_.show_member(where, "running");
  watched_[actor.address()] = {std::move(where), run_.generation()};
}

// A node answers in the order of the requests. A dead node never answers; its requests are then
// forgotten.
template <class Answer, class Request, class Keep>
void roster::spawn(Request what, residence where, Keep keep) {
  const auto number = ++asked_;
  pending_spawns_.emplace(number, where);
  run_.show_member(where, "starting");
  const auto of = what.generation;
  run_.request(node_in(where.lives_in), std::move(what))
      .then(
          [this, number, where, keep, of](const Answer& x) {
            const auto turn = run_.take_turn("spawned");
            if (pending_spawns_.erase(number) == 0)
              return;  // it has died since
            if (where.role == member_role::rank
                && (of != run_.generation() || run_.members.now() == membership::phase::ending))
              return;  // its generation has ended; what it spawned ends with it
            watch(where, keep(x));
            recovery_.begin_when_ready();
          },
          [this, number](const caf::error& reason) {
            const auto turn = run_.take_turn("error");
            if (pending_spawns_.erase(number) == 0)
              return;
            recovery_.refuse(reason);
            // NODE-1: requested in a generation that is over.
            if (is(reason, messages::ec::cancelled)
                && run_.members.now() == membership::phase::forming)
              spawn_services();
          });
}

void roster::spawn_monitor() {
  spawn<messages::monitor_spawned>(
      messages::spawn_monitor{run_.generation(), run_.told},
      {"monitor", member_role::monitor},
      [this](const messages::monitor_spawned& x) {
        monitor_ = x.monitor;
        tell_monitor_of_processes();
        // Facts that the previous monitor may not have written; it ignores known ones.
        for (auto& [number, fact] : run_.context->ledger->facts()) {
          const auto resend = [this, n = number](auto what) {
            what.fact = n;
            what.generation = run_.generation();
            run_.send_at_once(monitor_, what);
          };
          if (const auto* a = std::get_if<runtime::step_report>(&fact))
            resend(messages::committed{*a});
          else if (const auto* b = std::get_if<runtime::validation_report>(&fact))
            resend(messages::validated{*b});
          else
            resend(messages::happened{std::get<runtime::run_event>(fact)});
        }
        steps_.conclude_again();
        return monitor_;
      });
}

void roster::spawn_loader(int process) {
  spawn<messages::loader_spawned>(
      messages::spawn_loader{run_.generation(), run_.told},
      {name_of_service("loader", process), member_role::loader, run_.host_of(process), process},
      [this, process](const messages::loader_spawned& x) {
        auto& to = processes_[std::size_t(process)];
        to.loader = x.loader;
        spawn_ranks_if_served();
        if (steps_.begun())
          tell_of_services();
        return to.loader;
      });
}

// Ranks may wait for states from the previous keeper.
void roster::spawn_keeper(int process) {
  spawn<messages::keeper_spawned>(
      messages::spawn_keeper{
          run_.generation(), run_.told, process, node_in(processes_[std::size_t(process)].kept_in)},
      {name_of_service("keeper", process),
       member_role::keeper,
       processes_[std::size_t(process)].kept_in,
       process},
      [this, process](const messages::keeper_spawned& x) {
        auto& to = processes_[std::size_t(process)];
        to.keeper = x.keeper;
        spawn_ranks_if_served();
        if (ranks_asked_for_)
          tell_of_services();
        return to.keeper;
      });
}

void roster::spawn_checkpointer() {
  spawn<messages::checkpointer_spawned>(
      messages::spawn_checkpointer{run_.generation(), run_.told, run_.self},
      {"checkpointer", member_role::checkpointer},
      [this](const messages::checkpointer_spawned& x) {
        checkpointer_ = x.checkpointer;
        for (int p = 0; p < run_.processes(); ++p)
          if (processes_[std::size_t(p)].writer)
            tell_of_shard_writer(p);
        spawn_ranks_if_served();
        if (steps_.begun()) {
          tell_of_services();
          steps_.proceed();
        }
        return checkpointer_;
      });
}

void roster::spawn_shard_writer(int process) {
  std::error_code ignored;
  spawn<messages::shard_writer_spawned>(
      messages::spawn_shard_writer{
          run_.generation(),
          run_.told,
          process,
          std::filesystem::is_directory(run_.job->job.checkpoints.save, ignored)},
      {name_of_service("shard_writer", process),
       member_role::shard_writer,
       run_.host_of(process),
       process},
      [this, process](const messages::shard_writer_spawned& x) {
        const auto writer = processes_[std::size_t(process)].writer = x.writer;
        tell_of_shard_writer(process);
        if (steps_.begun())
          steps_.proceed();
        return writer;
      });
}

void roster::tell_of_shard_writer(int process) {
  if (checkpointer_ && writes_apart())
    run_.send(checkpointer_,
              messages::use_shard_writer{
                  run_.generation(), process, processes_[std::size_t(process)].writer});
}

bool roster::can_save() const {
  return checkpointer_
         && (!writes_apart()
             || std::all_of(
                 processes_.begin(), processes_.end(), [](const auto& x) { return x.writer; }));
}

void roster::replace(const order_replace& x) {
  const auto now = run_.members.now();
  const bool at_once = now == membership::phase::running || now == membership::phase::forming;
  switch (x.role) {
    case member_role::monitor:
      monitor_ = nullptr;
      if (at_once)
        spawn_monitor();
      break;
    case member_role::loader:
      processes_[std::size_t(x.process)].loader = nullptr;
      if (at_once && !steps_.gives_up())
        spawn_loader(x.process);
      break;
    case member_role::keeper:
      processes_[std::size_t(x.process)].keeper = nullptr;
      processes_[std::size_t(x.process)].is_keeper_new = true;
      if (at_once && run_.members.stands(processes_[std::size_t(x.process)].kept_in))
        spawn_keeper(x.process);
      break;
    case member_role::checkpointer:
      checkpointer_ = nullptr;
      saves_.lose_checkpointer();
      if (at_once)
        spawn_checkpointer();
      break;
    case member_role::shard_writer:
      processes_[std::size_t(x.process)].writer = nullptr;
      tell_of_shard_writer(x.process);
      if (at_once)
        spawn_shard_writer(x.process);
      break;
    case member_role::rank:
      break;
  }
}

// Viewers only watch, so their deaths are ignored; but the supervisor waits until they are spawned.
void roster::spawn_viewers() {
  if (!viewers_.empty())
    return;
  for (const auto& viewer : run_.told.viewers) {
    const auto number = ++asked_;
    pending_spawns_.emplace(number, residence{.name = viewer});
    run_.request(run_.node, messages::spawn_viewer{run_.generation(), run_.told, viewer, run_.self})
        .then(
            [this, number](const messages::viewer_spawned& x) {
              const auto turn = run_.take_turn("viewer_spawned");
              run_.self->monitor(viewers_.emplace_back(x.viewer));
              pending_spawns_.erase(number);
              recovery_.begin_when_ready();
            },
            [this, number](const caf::error& reason) {
              const auto turn = run_.take_turn("error");
              pending_spawns_.erase(number);
              recovery_.refuse(reason);
            });
  }
}

std::vector<messages::hosting_process> roster::hosting_processes(int replica) const {
  std::set<int> hosts;
  for (const int rank : run_.job->seats.replica(replica))
    hosts.insert(run_.job->placed.process_of(rank));
  std::vector<messages::hosting_process> out;
  for (const int p : hosts) {
    const auto& x = process(p);
    out.push_back({.process = p,
                   .node = node_in(run_.host_of(p)),
                   .loader = x.loader,
                   .keeper = x.keeper,
                   .source = forming_->sources[std::size_t(p)],
                   .holder = holder_for(p)});
  }
  return out;
}

// Each process has one keeper.
messages::keeper_actor roster::keeper_in(int process) const {
  for (const auto& x : processes_)
    if (x.kept_in == process)
      return x.keeper;
  return {};
}

std::optional<int> roster::holding_process(int process) const {
  if (!forming_)
    return std::nullopt;
  const auto& from = forming_->sources[std::size_t(process)];
  const bool has_one
      = from.tier == runtime::state_tier::keeper || from.tier == runtime::state_tier::local;
  return has_one ? std::optional<int>(from.keeper) : std::nullopt;
}

messages::keeper_actor roster::holder_for(int process) const {
  const auto from = holding_process(process);
  return from ? keeper_in(*from) : messages::keeper_actor();
}

int roster::replicas_below(int process) const {
  return int(std::ranges::lower_bound(homes_, tree_.end_of_subtree(process))
             - std::ranges::lower_bound(homes_, process));
}

std::vector<messages::node_actor> roster::top_nodes() const {
  if (run_.processes() == 1)
    return {run_.node};
  std::vector<messages::node_actor> out;
  for (const int p : tree_.children(runtime::process_tree::root))
    out.push_back(process(p).node);
  return out;
}

std::vector<roster::member_below> roster::below() const {
  std::vector<member_below> out;
  if (run_.processes() == 1)
    for (std::size_t r = 0; r < replicas_.size(); ++r)
      out.push_back({replicas_[r], {-1, int(r)}});
  else if (!replicas_.empty())
    for (const int p : tree_.children(runtime::process_tree::root))
      if (replicas_below(p) > 0)
        out.push_back({process(p).node, {p, 0}});
  return out;
}

// Nothing that a node spawns afterwards may overtake this.
void roster::tell_branches() const {
  for (int p = 0; p < run_.processes() && run_.processes() > 1; ++p) {
    messages::use_branches told{
        .generation = run_.generation(), .process = p, .replicas = replicas_below(p)};
    if (const int above = tree_.parent(p); above == runtime::process_tree::root)
      told.above = messages::supervisor_actor(run_.self);
    else
      told.above = process(above).node;
    for (const int child : tree_.children(p))
      told.below.push_back({child, process(child).node, replicas_below(child) > 0});
    run_.send_at_once(process(p).node, std::move(told));
  }
}

// A replica lives in the process of its first rank.
void roster::spawn_replicas() {
  tell_branches();
  for (int r = 0; r < run_.job->replicas(); ++r) {
    const auto known = hosting_processes(r);
    spawn<messages::replica_spawned>(
        messages::spawn_replica{
            .generation = run_.generation(),
            .job = run_.told,
            .replica = r,
            .processes = known,
            .supervisor = run_.self,
            .reports_to = run_.processes() == 1
                              ? messages::report_actor(messages::supervisor_actor(run_.self))
                              : messages::report_actor(node_in(run_.process_of(r, 0))),
            .checkpointer = checkpointer_},
        {fmt::format("replica:{}", r), member_role::rank, run_.host_of(run_.process_of(r, 0))},
        [this, r, known](const messages::replica_spawned& x) {
          replicas_[std::size_t(r)] = x.replica;
          tell_of_services(x.replica, known);
          for (const auto& opened : std::exchange(opened_[r], {}))
            run_.send(x.replica, opened);
          return x.replica;
        });
  }
}

void roster::receive(const messages::group_opened& x) {
  if (x.generation != run_.generation() || x.members.empty())
    return;
  const auto replica_of
      = [this](int rank) { return run_.job->seats.at(rank)[runtime::axis::data]; };
  std::set<int> others;
  for (const int rank : x.members)
    others.insert(replica_of(rank));
  others.erase(replica_of(x.members.front()));  // it has sent it
  for (const int r : others)
    if (const auto to = replica(r))
      run_.send(to, x);
    else
      opened_[r].push_back(x);
}

}  // namespace troupe::actors
