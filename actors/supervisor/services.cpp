// Spawns the services and the ranks of a generation.

#include "actors/supervisor/supervisor.hpp"
#include "messages/core/error.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace troupe::actors {

bool supervisor_state::is_served() const {
  if (!checkpointer_)
    return false;
  for (const auto& x : processes_)
    if (!x.loader || (keeps() && !x.keeper))
      return false;
  return true;
}

// Replicas are spawned with the services of their ranks, so these must exist.
void supervisor_state::spawn_ranks_if_served() {
  if (!forming_ || !is_served() || ranks_asked_for_
      || members_->now() != membership::phase::forming)
    return;
  ranks_asked_for_ = true;
  for (auto& x : processes_) {
    x.told_loader = x.loader;
    x.told_keeper = x.keeper;
  }
  for (int p = 0; p < int(processes_.size()); ++p)
    processes_[std::size_t(p)].told_holder = holder_for(p);
  told_checkpointer_ = checkpointer_;
  spawn_replicas();
}

void supervisor_state::tell_of_services() {
  for (int p = 0; p < int(processes_.size()); ++p) {
    auto& x = processes_[std::size_t(p)];
    if (x.loader && x.told_loader != x.loader)
      tell_replicas(messages::use_loader{generation(), p, x.told_loader = x.loader});
    const auto holder = holder_for(p);
    if (!x.keeper || (x.told_keeper == x.keeper && (!holder || x.told_holder == holder)))
      continue;
    x.told_keeper = x.keeper;
    if (holder)
      x.told_holder = holder;
    tell_replicas(messages::use_keeper{generation(), p, x.keeper, holder});
  }
  if (checkpointer_ && told_checkpointer_ != checkpointer_)
    tell_replicas(messages::use_checkpointer{generation(), told_checkpointer_ = checkpointer_});
}

// Updates a replica that was being spawned while a service was replaced.
void supervisor_state::tell_of_services(const messages::replica_actor& to,
                                        const std::vector<messages::hosting_process>& known) const {
  for (int p = 0; p < int(processes_.size()); ++p) {
    const auto& x = processes_[std::size_t(p)];
    const auto& then = known[std::size_t(p)];
    if (x.told_loader && x.told_loader != then.loader)
      context_->messages->send(self_, to, messages::use_loader{generation(), p, x.told_loader});
    if (x.told_keeper && (x.told_keeper != then.keeper || x.told_holder != then.holder))
      context_->messages->send(
          self_, to, messages::use_keeper{generation(), p, x.told_keeper, x.told_holder});
  }
}

void supervisor_state::spawn_services() {
  spawn_viewers();
  const auto is_coming = [&](member_role role, int process = 0) {
    return std::any_of(expected_.begin(), expected_.end(), [&](const auto& x) {
      return x.second.role == role && x.second.serves == process;
    });
  };
  if (!monitor_ && !without_monitor_ && !is_coming(member_role::monitor))
    spawn_monitor();
  for (int p = 0; p < int(processes_.size()); ++p) {
    if (!processes_[std::size_t(p)].loader && !is_coming(member_role::loader, p))
      spawn_loader(p);
    if (keeps() && !processes_[std::size_t(p)].keeper && !is_coming(member_role::keeper, p))
      spawn_keeper(p);
    if (writes_apart() && !processes_[std::size_t(p)].writer
        && !is_coming(member_role::shard_writer, p))
      spawn_shard_writer(p);
  }
  if (!checkpointer_ && !is_coming(member_role::checkpointer))
    spawn_checkpointer();
}

std::string supervisor_state::name_of_service(const char* what, int process) const {
  return processes_.size() == 1 ? what : fmt::format("{}:{}", what, process);
}

template <class Handle>
void supervisor_state::watch(residence where, const Handle& actor) {
  context_->messages->monitor(self_, actor);
  show_member(where, "running");
  watched_.push_back({std::move(where), generation(), actor.address()});
}

// A node answers in the order of the requests. A dead node never answers; its requests are then
// forgotten.
template <class Answer, class Request, class Keep>
void supervisor_state::spawn(Request what, residence where, Keep keep) {
  const auto number = ++asked_;
  expected_.emplace(number, where);
  show_member(where, "starting");
  const auto of = what.generation;
  context_->messages->request(self_, node_in(where.lives_in), caf::infinite, std::move(what))
      .then(
          [this, number, where, keep, of](const Answer& x) {
            const auto turn = take_turn("spawned");
            if (expected_.erase(number) == 0)
              return;  // it has died since
            if (where.role == member_role::rank
                && (of != generation() || members_->now() == membership::phase::ending))
              return;  // its generation has ended; what it spawned ends with it
            watch(where, keep(x));
            begin_when_ready();
          },
          [this, number](const caf::error& reason) {
            const auto turn = take_turn("error");
            if (expected_.erase(number) == 0)
              return;
            refuse(reason);
            // NODE-1: requested in a generation that is over.
            if (is(reason, messages::ec::cancelled)
                && members_->now() == membership::phase::forming)
              spawn_services();
          });
}

void supervisor_state::spawn_monitor() {
  spawn<messages::monitor_spawned>(
      messages::spawn_monitor{generation(), told_},
      {"monitor", member_role::monitor},
      [this](const messages::monitor_spawned& x) {
        monitor_ = x.monitor;
        tell_monitor_of_processes();
        // Facts that the previous monitor may not have written; it ignores known ones.
        for (auto& [number, fact] : context_->ledger->facts()) {
          const auto resend = [this, n = number](auto what) {
            what.fact = n;
            what.generation = generation();
            context_->messages->send_at_once(self_, monitor_, what);
          };
          if (const auto* a = std::get_if<runtime::step_report>(&fact))
            resend(messages::committed{*a});
          else if (const auto* b = std::get_if<runtime::validation_report>(&fact))
            resend(messages::validated{*b});
          else
            resend(messages::happened{std::get<runtime::run_event>(fact)});
        }
        if (concluding_) {
          concluding_ = false;
          finish();
        }
        return monitor_;
      });
}

void supervisor_state::spawn_loader(int process) {
  spawn<messages::loader_spawned>(
      messages::spawn_loader{generation(), told_},
      {name_of_service("loader", process), member_role::loader, host_of(process), process},
      [this, process](const messages::loader_spawned& x) {
        auto& to = processes_[std::size_t(process)];
        to.loader = x.loader;
        spawn_ranks_if_served();
        if (begun_)
          tell_of_services();
        return to.loader;
      });
}

// Ranks may wait for states from the previous keeper.
void supervisor_state::spawn_keeper(int process) {
  spawn<messages::keeper_spawned>(messages::spawn_keeper{generation(), told_, process, self_},
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

void supervisor_state::spawn_checkpointer() {
  spawn<messages::checkpointer_spawned>(messages::spawn_checkpointer{generation(), told_, self_},
                                        {"checkpointer", member_role::checkpointer},
                                        [this](const messages::checkpointer_spawned& x) {
                                          checkpointer_ = x.checkpointer;
                                          for (int p = 0; p < int(processes_.size()); ++p)
                                            if (processes_[std::size_t(p)].writer)
                                              tell_of_shard_writer(p);
                                          spawn_ranks_if_served();
                                          if (begun_) {
                                            tell_of_services();
                                            proceed();
                                          }
                                          return checkpointer_;
                                        });
}

void supervisor_state::spawn_shard_writer(int process) {
  std::error_code ignored;
  spawn<messages::shard_writer_spawned>(
      messages::spawn_shard_writer{
          generation(),
          told_,
          process,
          std::filesystem::is_directory(job_->job.checkpoints.save, ignored)},
      {name_of_service("shard_writer", process),
       member_role::shard_writer,
       host_of(process),
       process},
      [this, process](const messages::shard_writer_spawned& x) {
        const auto writer = processes_[std::size_t(process)].writer = x.writer;
        tell_of_shard_writer(process);
        if (begun_)
          proceed();
        return writer;
      });
}

void supervisor_state::tell_of_shard_writer(int process) {
  if (checkpointer_ && writes_apart())
    context_->messages->send(
        self_,
        checkpointer_,
        messages::use_shard_writer{generation(), process, processes_[std::size_t(process)].writer});
}

bool supervisor_state::can_save() const {
  return checkpointer_
         && (!writes_apart()
             || std::all_of(
                 processes_.begin(), processes_.end(), [](const auto& x) { return x.writer; }));
}

void supervisor_state::carry_out(const order_replace& x) {
  const auto now = members_->now();
  const bool at_once = now == membership::phase::running || now == membership::phase::forming;
  switch (x.role) {
    case member_role::monitor:
      monitor_ = nullptr;
      if (at_once)
        spawn_monitor();
      break;
    case member_role::loader:
      processes_[std::size_t(x.process)].loader = nullptr;
      if (at_once && !gives_up_)
        spawn_loader(x.process);
      break;
    case member_role::keeper:
      processes_[std::size_t(x.process)].keeper = nullptr;
      processes_[std::size_t(x.process)].is_keeper_new = true;
      if (at_once && members_->stands(processes_[std::size_t(x.process)].kept_in))
        spawn_keeper(x.process);
      break;
    case member_role::checkpointer:
      checkpointer_ = nullptr;
      saves_.abandon();
      abandoning_.reset();
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
void supervisor_state::spawn_viewers() {
  if (!viewers_.empty())
    return;
  for (const auto& viewer : told_.viewers) {
    const auto number = ++asked_;
    expected_.emplace(number, residence{.name = viewer});
    context_->messages
        ->request(
            self_, node_, caf::infinite, messages::spawn_viewer{generation(), told_, viewer, self_})
        .then(
            [this, number](const messages::viewer_spawned& x) {
              const auto turn = take_turn("viewer_spawned");
              self_->monitor(viewers_.emplace_back(x.viewer));
              expected_.erase(number);
              begin_when_ready();
            },
            [this, number](const caf::error& reason) {
              const auto turn = take_turn("error");
              expected_.erase(number);
              refuse(reason);
            });
  }
}

std::vector<messages::hosting_process> supervisor_state::hosting_processes() const {
  std::vector<messages::hosting_process> out;
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    const auto& x = processes_[p];
    out.push_back({.node = node_in(host_of(int(p))),
                   .loader = x.loader,
                   .keeper = x.keeper,
                   .source = forming_->sources[p],
                   .holder = holder_for(int(p))});
  }
  return out;
}

// Each process has one keeper.
messages::keeper_actor supervisor_state::keeper_in(int process) const {
  for (const auto& x : processes_)
    if (x.kept_in == process)
      return x.keeper;
  return {};
}

messages::keeper_actor supervisor_state::holder_for(int process) const {
  if (!forming_)
    return {};
  const auto& from = forming_->sources[std::size_t(process)];
  const bool has_one
      = from.tier == runtime::state_tier::keeper || from.tier == runtime::state_tier::local;
  return has_one ? keeper_in(from.keeper) : messages::keeper_actor();
}

// A replica lives in the process of its first rank.
void supervisor_state::spawn_replicas() {
  const auto known = hosting_processes();
  for (int r = 0; r < job_->replicas(); ++r)
    spawn<messages::replica_spawned>(
        messages::spawn_replica{.generation = generation(),
                                .job = told_,
                                .replica = r,
                                .processes = known,
                                .supervisor = self_,
                                .checkpointer = checkpointer_},
        {fmt::format("replica:{}", r), member_role::rank, host_of(process_of(r, 0))},
        [this, r, known](const messages::replica_spawned& x) {
          replicas_[std::size_t(r)] = x.replica;
          tell_of_services(x.replica, known);
          return x.replica;
        });
}

}  // namespace troupe::actors
