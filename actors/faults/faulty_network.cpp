#include "actors/faults/faulty_network.hpp"

#include "actors/host/rank_states.hpp"
#include "messages/core/error.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/actor_cast.hpp>
#include <caf/local_actor.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <tuple>
#include <utility>

namespace troupe::actors {

using moment = runtime::moment_of_step;

/// Messages received and sent by one actor; used by that actor only.
struct faulty_network::member {
  struct coming {
    moment at;
    std::uint64_t step;
  };
  /// The next moment: `late` when the handler returns, `early` also before it sends to a
  /// non-watcher.
  std::optional<coming> late = {}, early = {};
  bool validates = false;  ///< of the newest run_step

  // Supervisors: the current step.
  messages::run_step now = {};
  std::size_t told = 0, decided = 0;                       ///< number of replicas
  std::set<std::pair<int, int>> voted = {}, applied = {};  ///< by vote::reporter

  // Checkpointers: by generation, step and attempt.
  using save_key = std::tuple<runtime::generation_id, runtime::step_id, std::uint64_t>;
  std::map<save_key, std::size_t> parts = {};
  std::map<save_key, std::set<int>> given = {};
};

namespace {

std::string_view kind_of(const std::string& who) {
  return std::string_view(who).substr(0, who.find(':'));
}

/// Messages to watchers and keepers leave before a step counts as acknowledged.
bool is_of_commit(const message_view& what) {
  return what.as<messages::committed>() != nullptr || what.as<messages::happened>() != nullptr
         || what.as<messages::store_kept>() != nullptr;
}

template <class... Spawn>
std::optional<std::uint64_t> iteration_in(const message_view& what) {
  std::optional<std::uint64_t> out;
  const auto look = [&](const auto* x) {
    if (x != nullptr)
      out = x->job.iteration;
  };
  (look(what.as<Spawn>()), ...);
  return out;
}

}  // namespace

faulty_network::faulty_network(std::shared_ptr<const fault_injector> faults,
                               std::shared_ptr<message_network> inner)
    : faults_(std::move(faults)), inner_(std::move(inner)) {}

faulty_network::~faulty_network() = default;

std::optional<std::chrono::nanoseconds> faulty_network::transit(caf::actor_id from,
                                                                caf::actor_id to,
                                                                caf::actor_clock::time_point now) {
  if (inner_)
    return inner_->transit(from, to, now);
  return faults_->delays_messages() ? faults_->message_delay(from, to, now)
                                    : std::chrono::nanoseconds(0);
}

bool faulty_network::reaches(caf::actor_id from, caf::actor_id to) const {
  return !inner_ || inner_->reaches(from, to);
}

caf::actor faulty_network::nowhere() {
  return inner_ ? inner_->nowhere() : caf::actor();
}

bool faulty_network::watch(const caf::actor_addr& watcher, const caf::actor& watched) {
  return inner_ && inner_->watch(watcher, watched);
}

void faulty_network::introduce(const caf::actor& who, const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    names_.insert_or_assign(who.id(), name);
  }
  faults_->enlist(
      name, [weak = caf::actor_cast<caf::weak_actor_ptr>(who), name](const std::string& why) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
          caf::anon_send(caf::actor_cast<caf::actor>(alive),
                         caf::exit_msg{alive->address(),
                                       messages::make_error(messages::ec::protocol_violated,
                                                            name + ": " + why)});
      });
}

// An actor without a given name is named after its kind: supervisor, node or shard_writer.
faulty_network::known faulty_network::know(const caf::local_actor& x) {
  const std::lock_guard lock(mutex_);
  auto& state = members_[x.id()];
  if (!state)
    state = std::make_unique<member>();
  const auto named = names_.find(x.id());
  return {*state, named == names_.end() ? std::string(x.name()) : named->second};
}

void faulty_network::come_to(const std::string& who, std::uint64_t step, moment at) const {
  faults_->pass(who, step, at);
}

std::uint64_t faulty_network::start_of(const std::string& who) const {
  const std::lock_guard lock(mutex_);
  const auto found = starts_.find(runtime::without_tensor_zero(who));
  return found == starts_.end() ? 1 : found->second;
}

void faulty_network::note_start(const std::string& who, runtime::step_id source) {
  const std::lock_guard lock(mutex_);
  starts_[runtime::without_tensor_zero(who)] = value(source) + 1;
}

bool faulty_network::arrives(const caf::local_actor& at, const message_view& what) {
  const auto me = know(at);
  if (what.as<caf::exit_msg>() != nullptr)
    return !faults_->hang_instead(me.name);
  const auto kind = kind_of(me.name);
  if (kind == "stage")
    stage_receives(me, what);
  else if (kind == "replica")
    replica_receives(me, what);
  else if (kind == "supervisor")
    supervisor_receives(me, what);
  else if (kind == "node")
    node_receives(what);
  else if (kind == "checkpointer")
    checkpointer_receives(me, what);
  else
    service_receives(me, what);
  return true;
}

void faulty_network::handled(const caf::local_actor& at, const message_view&) {
  const auto me = know(at);
  for (auto* coming : {&me.state.early, &me.state.late})
    if (const auto x = std::exchange(*coming, {}))
      come_to(me.name, x->step, x->at);
}

void faulty_network::leaves(const caf::local_actor& from, const message_view& what) {
  const auto me = know(from);
  const auto kind = kind_of(me.name);
  if (kind == "supervisor")
    return supervisor_sends(me, what);
  if (kind != "stage" && kind != "replica")
    return;
  if (what.as<messages::ready>() != nullptr && kind == "replica")
    come_to(me.name, start_of(me.name), moment::restore);
  else if (const auto* const voted = what.as<messages::vote>();
           voted != nullptr && (kind == "replica" || !me.state.validates))
    come_to(me.name, value(voted->step), moment::vote);
  else if (const auto* const x = what.as<messages::applied>()) {
    come_to(me.name, value(x->step), moment::updated);
    if (kind == "stage")
      me.state.late = {moment::acknowledged, value(x->step)};
  }
}

void faulty_network::left(const caf::local_actor& from, const message_view& what) {
  const auto* const x = what.as<messages::applied>();
  const auto* const decision = what.as<messages::decision>();
  const auto* const kept = what.as<messages::kept>();
  if (x == nullptr && decision == nullptr && kept == nullptr)
    return;
  const auto me = know(from);
  const auto kind = kind_of(me.name);
  if (x != nullptr && kind == "replica")
    come_to(me.name, value(x->step), moment::acknowledged);
  else if (decision != nullptr && kind == "supervisor" && ++me.state.decided == me.state.told)
    come_to(me.name, value(decision->step), moment::decided);
  else if (kept != nullptr && kind == "keeper")
    come_to(me.name, value(kept->step), moment::acknowledged);
}

void faulty_network::stage_receives(const known& me, const message_view& what) const {
  if (what.as<messages::meet>() != nullptr) {
    come_to(me.name, start_of(me.name), moment::restore);
  } else if (const auto* const x = what.as<messages::run_step>()) {
    me.state.validates = x->validation;
    faults_->inject(me.name, value(x->step));
    come_to(me.name, value(x->step), x->validation ? moment::validate : moment::forward);
  } else if (const auto* const decision = what.as<messages::decision>()) {
    come_to(me.name, value(decision->step), moment::decided);
  } else if (const auto* const order = what.as<messages::take_snapshot>()) {
    come_to(me.name, value(order->step), moment::snapshot);
  }
}

void faulty_network::replica_receives(const known& me, const message_view& what) const {
  const auto comes = [&](runtime::step_id step, moment at) {
    faults_->inject(me.name, value(step));
    come_to(me.name, value(step), at);
  };
  if (const auto* const x = what.as<messages::run_step>())
    comes(x->step, x->validation ? moment::validate : moment::forward);
  else if (const auto* const decision = what.as<messages::decision>())
    comes(decision->step, moment::decided);
  else if (const auto* const order = what.as<messages::take_snapshot>())
    comes(order->step, moment::snapshot);
}

void faulty_network::supervisor_receives(const known& me, const message_view& what) const {
  auto& state = me.state;
  const auto is_now = [&](const auto& x) {
    return x.generation == state.now.generation && x.step == state.now.step && state.told > 0;
  };
  if (const auto* const x = what.as<messages::vote>(); x != nullptr && is_now(*x)) {
    state.voted.insert(x->reporter());
    if (state.voted.size() < state.told)
      return;
    if (state.now.validation)  // another round may follow
      state.told = 0;
    come_to(me.name, value(x->step), state.now.validation ? moment::validate : moment::vote);
  } else if (const auto* const done = what.as<messages::applied>();
             done != nullptr && is_now(*done)) {
    state.applied.insert(done->reporter());
    if (state.applied.size() < state.told)
      return;
    come_to(me.name, value(done->step), moment::updated);
    state.early = {moment::acknowledged, value(done->step)};
  } else if (const auto* const saved = what.as<messages::saved>()) {
    state.early = {moment::save, value(saved->step)};
  }
}

void faulty_network::supervisor_sends(const known& me, const message_view& what) {
  if (!is_of_commit(what))
    if (const auto x = std::exchange(me.state.early, {});
        x && what.as<messages::end_generation>() == nullptr)
      come_to(me.name, x->step, x->at);
  if (const auto* const order = what.as<messages::spawn_replica>())
    note_start(me.name, order->processes.front().source.step);
  else if (what.as<messages::all_restored>() != nullptr)
    come_to(me.name, start_of(me.name), moment::restore);
  else if (const auto* const x = what.as<messages::run_step>())
    supervisor_runs(me, *x);
  else if (const auto* const save = what.as<messages::save>())
    come_to(me.name, value(save->step), moment::snapshot);
}

void faulty_network::supervisor_runs(const known& me, const messages::run_step& x) const {
  auto& state = me.state;
  const bool same = state.told > 0 && state.voted.empty() && state.now == x;
  if (!same) {
    state.now = x;
    state.told = state.decided = 0;
    state.voted.clear();
    state.applied.clear();
    if (!x.validation) {
      faults_->inject(me.name, value(x.step));
      come_to(me.name, value(x.step), moment::forward);
    } else if (!x.test) {
      come_to(me.name, value(x.step), moment::validate);
    }
  }
  ++state.told;
}

void faulty_network::node_receives(const message_view& what) {
  if (const auto* const x = what.as<messages::spawn_stage>())
    note_start("stage:" + x->name, x->source.step);
  else if (const auto* const order = what.as<messages::spawn_replica>())
    note_start(fmt::format("replica:{}", order->replica), order->processes.front().source.step);
  if (const auto iteration = iteration_in<messages::spawn_loader,
                                          messages::spawn_keeper,
                                          messages::spawn_checkpointer,
                                          messages::spawn_shard_writer,
                                          messages::spawn_monitor,
                                          messages::spawn_viewer,
                                          messages::spawn_replica,
                                          messages::spawn_stage>(what))
    faults_->inject("node", *iteration + 1);
}

void faulty_network::checkpointer_receives(const known& me, const message_view& what) const {
  auto& state = me.state;
  member::save_key which;
  if (const auto* const x = what.as<messages::save>()) {
    which = {x->generation, x->step, x->attempt};
    faults_->inject(me.name, value(x->step));
    come_to(me.name, value(x->step), moment::snapshot);
    state.parts = {{which, std::size_t(x->parts)}};
  } else if (const auto* const part = what.as<messages::snapshot>()) {
    which = {part->generation, part->step, part->attempt};
    state.given[which].insert(part->rank);
  } else {
    return;
  }
  const auto expected = state.parts.find(which);
  if (expected == state.parts.end() || state.given[which].size() < expected->second)
    return;
  state.parts.erase(expected);
  state.given.erase(which);
  come_to(me.name, value(std::get<runtime::step_id>(which)), moment::save);
}

void faulty_network::service_receives(const known& me, const message_view& what) {
  if (const auto* const x = what.as<messages::request_batch>()) {
    faults_->inject(me.name, value(x->at.step));
    faults_->hang(me.name, value(x->at.step), moment::forward);
  } else if (const auto* const told = what.as<messages::committed>();
             told && me.name == "monitor") {
    faults_->inject(me.name, told->report.iteration);
    come_to(me.name, told->report.iteration, moment::acknowledged);
  } else if (const auto* const state = what.as<messages::keep>()) {
    const std::lock_guard lock(mutex_);
    keeping_ = *state;
  } else if (const auto* const order = what.as<messages::write_shards>()) {
    writing_ = value(order->step);
  }
}

std::optional<messages::keep> faulty_network::kept_with(
    std::span<const runtime::ticket> tickets) const {
  const std::lock_guard lock(mutex_);
  if (!keeping_ || tickets.empty())
    return std::nullopt;
  const auto of_state = tickets_of(keeping_->state);
  return std::ranges::equal(of_state, tickets) ? keeping_ : std::nullopt;
}

void faulty_network::come_between_files() const {
  if (writing_ > 0)
    come_to("shard_writer", writing_, moment::save);
}

}  // namespace troupe::actors
