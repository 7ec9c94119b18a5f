#include "actors/replica/replica.hpp"

#include "actors/host/merged_reports.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "actors/support/owners_of_copies.hpp"
#include "actors/support/reports.hpp"
#include "runtime/core/error.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace troupe::actors {

namespace {

constexpr const char* one_of_each_stage
    = "REPLICA-1: stages report of one step at a time, each once";

/// STEP-6: takes out all copies but those of experts with an owner in another replica. Of shares,
/// which are compared as sums over replicas, it leaves all of experts. Returns the name of a copy
/// that differs from its owner; empty: none.
std::string take_copies(std::vector<messages::updated_state>& parts, bool are_shares) {
  std::string out;
  for (auto& part : parts)
    std::erase_if(part.copies, [&](const auto& copy) {
      const auto equal = equals_owner(copy.first, copy.second, parts);
      const bool of_experts = part.layers == runtime::axis_view::experts;
      if (!equal && of_experts)
        return false;
      if (!equal.value_or(false) && out.empty())
        out = copy.first;
      return !(of_experts && are_shares);
    });
  return out;
}

/// Digest of everything that a rank reports.
runtime::digest whole(const messages::updated_state& x) {
  runtime::digester out;
  const auto add = [&out](const auto& all) {
    for (const auto& [name, digest] : all)
      out.add(name).add(digest);
  };
  add(x.own);
  add(x.copies);
  return out.result();
}

}  // namespace

void replica_state::start(messages::spawn_replica told,
                          std::shared_ptr<const shared_resources> context) {
  told_ = std::move(told);
  context_ = std::move(context);
  who_ = "replica:" + std::to_string(told_.replica);
  end_on_exception(self_, who_);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  job_ = context_->jobs->open(told_.job);
  ranks_ = job_->seats.replica(told_.replica);
  stages_.resize(ranks_.size());
  for (int s = 0; s < stages(); ++s)
    context_->messages
        ->request(self_,
                  host_of(s).node,
                  caf::infinite,
                  messages::spawn_stage{.generation = told_.generation,
                                        .job = told_.job,
                                        .source = host_of(s).source,
                                        .rank = ranks_[std::size_t(s)],
                                        .name = job_->seats.name(ranks_[std::size_t(s)])})
        .then([this, s](const messages::stage_spawned& x) { add(s, x.stage); },
              [this](const caf::error& why) { refuse(why); });
  told_.job = {};  // its texts are of no more use
  if (context_->env.own_threads && job_->job.recovery.on) {
    place_ = context_->lanes->add(
        {.who = who_, .generation = value(told_.generation), .shares_thread = true});
    place_->describe_by([this] { return waits_for(); });
  }
}

int replica_state::process_of(int stage_index) const {
  return job_->placed.process_of(ranks_[std::size_t(stage_index)]);
}

messages::hosting_process* replica_state::find_process(int process) {
  auto& all = told_.processes;
  const auto found
      = std::ranges::lower_bound(all, process, {}, &messages::hosting_process::process);
  return found == all.end() || found->process != process ? nullptr : &*found;
}

const messages::hosting_process& replica_state::host_of(int stage_index) {
  const auto* const found = find_process(process_of(stage_index));
  runtime::ensure(found != nullptr, "REPLICA-2: a replica is told of each process of its stages");
  return *found;
}

void replica_state::add(int stage_index, const messages::stage_actor& stage) {
  stages_[std::size_t(stage_index)] = stage;
  context_->messages->monitor(self_, stage);
  if (++spawned_ == stages())
    introduce();
}

// A node that has ended this generation ends this replica, too. An unreachable node does not.
void replica_state::refuse(const caf::error& why) {
  if (!is(why, messages::ec::cancelled))
    self_->quit(because_of(who_, why));
}

void replica_state::introduce() {
  const auto& seats = job_->seats;
  const auto at = [&](int rank) { return stages_[std::size_t(seats.stage_index(rank))]; };
  for (int index = 0; index < stages(); ++index) {
    const int rank = ranks_[std::size_t(index)];
    messages::meet peers{.generation = told_.generation,
                         .replica = messages::replica_actor(self_),
                         .loader = host_of(index).loader,
                         .checkpointer = told_.checkpointer,
                         .keeper = host_of(index).keeper,
                         .holder = host_of(index).holder};
    for (int p = 0; p < job_->pipeline_ranks(); ++p)
      peers.pipeline.push_back(at(seats.beside(rank, runtime::axis::pipeline, p)));
    for (const int other : seats.followers(rank))
      peers.followers.push_back(at(other));
    context_->messages->send(self_, at(rank), std::move(peers));
  }
  for (const auto& x : std::exchange(opened_, {}))
    tell_members(x);
}

// The first member has sent it.
void replica_state::tell_members(const messages::group_opened& x) {
  for (const int member : x.members)
    if (member != x.members.front() && is_here(member))
      context_->messages->send(self_, stages_[std::size_t(job_->seats.stage_index(member))], x);
}

void replica_state::receive(const messages::group_opened& x) {
  if (x.generation != told_.generation || x.members.empty())
    return;
  if (is_here(x.members.front())
      && !std::ranges::all_of(x.members, [this](int rank) { return is_here(rank); }))
    context_->messages->send(self_, told_.supervisor, x);
  if (spawned_ == stages())
    tell_members(x);
  else
    opened_.push_back(x);
}

void replica_state::lose(const caf::down_msg& x) {
  if (is(x.reason, messages::ec::cancelled))
    return;
  self_->quit(because_of(who_, x.reason));
}

runtime::lane_board::place::waiting replica_state::waits_for() const {
  runtime::lane_board::place::waiting out{.step = runtime::value(step_)};
  const auto stages_without = [&](const char* what, const auto& is_here) {
    out.what.what = what;
    for (int s = 0; s < stages(); ++s)
      if (!is_here(s))
        out.what.whom.push_back(job_->stage_name(ranks_[std::size_t(s)]));
  };
  const auto has = [this](const auto& reports) {
    return [&reports, this](int s) { return reports.contains(ranks_[std::size_t(s)]); };
  };
  switch (awaits_) {
    case awaited::ready:
      stages_without("ranks that are built", [](int) { return false; });
      break;
    case awaited::votes:
      stages_without("a vote", has(votes_));
      break;
    case awaited::applied:
      stages_without("the updated state", has(applied_));
      break;
    case awaited::nothing:
      out.what = {"the next order", {"supervisor"}};
      break;
  }
  return out;
}

template <class Order>
void replica_state::pass_down(const Order& x) {
  if (x.generation != told_.generation)
    return;
  for (const auto& stage : stages_)
    context_->messages->send(self_, stage, x);
}

void replica_state::receive(const messages::run_step& x) {
  if (x.generation != told_.generation)
    return;
  awaits_ = awaited::votes;
  step_ = x.step;
  lists_checks_ = x.lists_checks;
  pass_down(x);
}

void replica_state::receive(const messages::decision& x) {
  if (x.generation != told_.generation)
    return;
  awaits_ = awaited::applied;
  pass_down(x);
}

void replica_state::receive(const messages::take_snapshot& x) {
  if (job_->has_writer(told_.replica))
    pass_down(x);
}

void replica_state::receive(const messages::drop_snapshot& x) {
  pass_down(x);
}

template <class Order>
void replica_state::pass_to_process(const Order& x) {
  if (x.generation != told_.generation)
    return;
  for (int s = 0; spawned_ == stages() && s < stages(); ++s)
    if (process_of(s) == x.process)
      context_->messages->send(self_, stages_[std::size_t(s)], x);
}

void replica_state::receive(const messages::use_loader& x) {
  if (auto* const at = find_process(x.process))
    at->loader = x.loader;
  pass_to_process(x);
}

void replica_state::receive(const messages::use_keeper& x) {
  if (auto* const at = find_process(x.process)) {
    at->keeper = x.keeper;
    if (x.holder)
      at->holder = x.holder;
  }
  pass_to_process(x);
}

void replica_state::receive(const messages::use_checkpointer& x) {
  told_.checkpointer = x.checkpointer;
  pass_down(x);
}

void replica_state::receive(const messages::ready& x) {
  if (x.generation != told_.generation)
    return;
  ready_.push_back(x);
  if (ready_.size() < stages_.size())
    return;
  awaits_ = awaited::nothing;
  messages::ready all{told_.generation, told_.replica};
  for (const auto& part : ready_)
    all.transfer = std::max(all.transfer, part.transfer);
  context_->messages->send(self_, told_.reports_to, std::move(all));
}

void replica_state::receive(const messages::vote& x) {
  if (x.generation != told_.generation
      || !complete(votes_, x, &messages::vote::rank, std::size_t(stages()), one_of_each_stage))
    return;
  messages::vote all{.generation = x.generation, .step = x.step, .replica = told_.replica};
  for (auto& [rank, part] : votes_)
    merge(all, std::move(part), *job_);
  if (!lists_checks_)
    std::erase_if(all.checked, [](const auto& pass) { return pass.agrees(); });
  votes_.clear();
  awaits_ = awaited::nothing;
  context_->messages->send(self_, told_.reports_to, std::move(all));
}

void replica_state::receive(const messages::check_pass& x) {
  if (x.at.generation != told_.generation || x.stage_index < 0 || x.stage_index >= stages())
    return;
  if (x.by == told_.replica)
    context_->messages->send(self_, stages_[std::size_t(x.stage_index)], x);
  else
    context_->messages->send(self_, told_.supervisor, x);
}

void replica_state::receive(const messages::applied& x) {
  if (x.generation != told_.generation
      || !complete(applied_, x, &messages::applied::rank, std::size_t(stages()), one_of_each_stage))
    return;
  messages::applied parts,
      all{.generation = x.generation, .step = x.step, .replica = told_.replica};
  for (auto& [rank, part] : applied_)
    std::ranges::move(part.state, std::back_inserter(parts.state));
  for (auto& part : parts.state)
    part.bits = whole(part);
  parts.unlike = take_copies(parts.state, job_->job.reduction.distributed_optimizer);
  parts.replica = told_.replica;
  merge(all, std::move(parts), *job_);
  applied_.clear();
  awaits_ = awaited::nothing;
  context_->messages->send(self_, told_.reports_to, std::move(all));
}

messages::replica_actor::behavior_type replica(
    messages::replica_actor::stateful_pointer<replica_state> self,
    messages::spawn_replica told,
    std::shared_ptr<const shared_resources> context) {
  self->state.start(std::move(told), std::move(context));
  return {
      receives<messages::group_opened>(self),
      receives<messages::run_step>(self),
      receives<messages::decision>(self),
      receives<messages::take_snapshot>(self),
      receives<messages::drop_snapshot>(self),
      receives<messages::use_loader>(self),
      receives<messages::use_keeper>(self),
      receives<messages::use_checkpointer>(self),
      receives<messages::ready>(self),
      receives<messages::vote>(self),
      receives<messages::applied>(self),
      receives<messages::check_pass>(self),
  };
}

}  // namespace troupe::actors
