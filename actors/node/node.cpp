#include "actors/node/node.hpp"

#include "actors/host/neighbours.hpp"
#include "actors/host/sampling.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/outside_sender.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

caf::actor_clock::duration_type seconds(double x) {
  return std::chrono::duration_cast<caf::actor_clock::duration_type>(
      std::chrono::duration<double>(x));
}

}  // namespace

// Releases every actor that waits for the node and ends those it spawned; runs however the node
// ends.
node_state::~node_state() {
  place_.reset();
  if (context_)
    context_->living->no_longer_tells(this);
  held_->end();
}

void node_state::start(std::shared_ptr<const node_context> context,
                       std::shared_ptr<const spawn_table> recipes) {
  context_ = std::move(context);
  recipes_ = std::move(recipes);
  end_on_exception(self_, "node");
  if (context_->env.watches_lanes)
    place_ = context_->lanes->add({.who = "node", .actor = self_->id(), .shares_thread = true});
  self_->set_down_handler([this](const caf::down_msg& x) {
    const auto turn = take_turn("down_msg");
    lose(x);
  });
  self_->set_exit_handler([this](const caf::exit_msg& x) {
    const auto turn = take_turn("exit_msg");
    if (x.reason && context_->messages->arrives(self_, x))
      self_->quit(x.reason);
  });
  held_->services(services_);
  context_->held->set(held_);
  const outside_sender tell(messages::node_actor(self_), context_->messages);
  context_->living->on_leave(this, [tell] { tell(messages::look_again{}); });
  if (context_->neighbours)
    context_->neighbours->when_broken([tell](const broken_connection& x) {
      tell(messages::suspected{
          .generation = x.generation,
          .who = x.is_control ? name_of_control_connection(x.to) : name_of_connection(x.to),
          .why = x.why});
    });
  if (place_)
    place_->describe_by([this] { return waits_for(); });
}

void node_state::watch_root() {
  if (root_)
    return;
  root_ = caf::actor_cast<caf::actor>(self_->current_sender());
  context_->messages->monitor(self_, root_);
}

void node_state::close_restored(const messages::all_restored& x) {
  if (x.generation == generation_ && context_->restored)
    context_->restored();
  branch_.receive(x);
}

void node_state::use(const messages::use_branches& x) {
  if (!is_of_the_past(x.generation) && x.generation > ended_ && job_)
    branch_.begin(x, job_, context_->messages);
}

void node_state::release_generation() {
  if (!groups_)
    return;
  groups_->token().cancel();
  context_->transport->end_generation(generation_);
}

// The first order of a new supervisor (number 0) ends all older epochs, including their services.
bool node_state::ends_with(const spawned_actor& x, runtime::generation_id last) const {
  return x.generation <= last && (x.what == spawned_kind::rank || runtime::number_of(last) == 0);
}

caf::result<messages::generation_ended> node_state::end(const messages::end_generation& x) {
  if (is_of_the_past(x.last))
    return messages::make_error(messages::ec::cancelled, "NODE-3: a newer supervisor is obeyed");
  if (number_of(x.last) == 0) {
    std::exchange(services_, runtime::cancel_token()).cancel();
    held_->services(services_);
  }
  if (number_of(x.last) == 0)
    root_ = nullptr;  // a new supervisor; we may not know of the old one's death yet
  watch_root();
  job_ = context_->jobs->open(x.job);
  recovery_ = job_->job.recovery;
  ended_ = std::max(ended_, x.last);
  if (generation_ <= x.last)
    release_generation();
  if (context_->neighbours)
    for (const int process : x.broken_with)
      context_->neighbours->renew_connections(process);
  auto promise = self_->make_response_promise<messages::generation_ended>();
  const auto now = self_->clock().now();
  ending_ = ending{x.last, promise, now + seconds(recovery_.suspicion)};
  for (const auto& one : spawned_)
    if (ends_with(one, x.last))
      self_->send_exit(one.actor, caf::exit_reason::user_shutdown);
  context_->messages->send_later(self_,
                                 messages::node_actor(self_),
                                 seconds(recovery_.suspicion) + std::chrono::milliseconds(1),
                                 messages::look_again{x.last});
  answer_if_ended();
  return promise;
}

caf::result<messages::stored_found> node_state::find(const messages::find_stored& x) const {
  messages::stored_found out{.generation = x.generation};
  if (context_->stored)
    for (const auto& found : context_->stored->complete()) {
      auto& told = out.all.emplace_back(
          messages::stored_states{found.process, runtime::step_id(found.iteration), {}});
      for (const auto& [rank, own] : found.own)
        told.ranks.push_back({rank, own});
    }
  return context_->messages->checked(self_->home_system(), std::move(out));
}

caf::result<messages::measured> node_state::measure(const messages::measure& x) const {
  const auto now = self_->home_system().clock().now().time_since_epoch();
  auto out = sample_of(*context_, std::uint64_t(now.count()));
  out.generation = x.generation;
  return context_->messages->checked(self_->home_system(), std::move(out));
}

void node_state::look_again(const messages::look_again&) {
  answer_if_ended();
}

// NODE-2: all actors and lanes have ended, or hanging lanes were left behind.
void node_state::answer_if_ended() {
  if (!ending_)
    return;
  const auto last = ending_->last;
  const bool late = self_->clock().now() >= ending_->deadline;
  const bool present = std::any_of(
      spawned_.begin(), spawned_.end(), [&](const auto& x) { return ends_with(x, last); });
  auto living = context_->living->until(last);
  std::erase_if(living, [&](const auto& x) {
    return (x.service && number_of(last) != 0) || left_behind_.contains({x.generation, x.who});
  });
  const bool known = std::all_of(living.begin(), living.end(), [this](const auto& x) {
    return hung_.contains({x.generation, x.who});
  });
  if (!late && (present || !known))
    return;  // NODE-2
  context_->lanes->leave_behind_until(value(last), number_of(last) == 0);
  messages::generation_ended answer{.last = last};
  std::set<int> left_behind;
  for (const auto& x : living) {
    answer.hung.push_back(x.who);
    left_behind_.emplace(x.generation, x.who);
    if (x.rank >= 0)
      left_behind.insert(x.rank);
  }
  for (const int rank : left_behind)
    context_->estates->leave_behind(rank);
  if (const auto steps = context_->estates->common()) {
    answer.has_state = true;
    answer.ranks = context_->estates->ranks();
    answer.oldest = steps->first;
    answer.newest = steps->second;
  }
  std::set<int> owners;
  for (const int rank : context_->kept->ranks())
    owners.insert(job_->placed.process_of(rank));
  for (const int p : owners)
    if (auto steps = context_->kept->iterations(job_->placed.ranks_of(p)); !steps.empty())
      answer.kept.emplace(p, std::move(steps));
  auto promise = std::move(ending_->promise);
  ending_.reset();
  promise.deliver(context_->messages->checked(self_->home_system(), std::move(answer)));
}

// Ignores a supervisor of an older epoch.
void node_state::shut_down(const messages::shut_down& x) {
  if (epoch_of(x.generation) >= epoch_of(std::max(generation_, ended_)))
    close();
}

void node_state::close() {
  closing_ = true;
  services_.cancel();
  release_generation();
  stop_next();
}

void node_state::stop_next() {
  if (spawned_.empty())
    self_->quit();
  else
    self_->send_exit(spawned_.back().actor, caf::exit_reason::user_shutdown);
}

void node_state::lose(const caf::down_msg& x) {
  const auto who = std::find_if(spawned_.begin(), spawned_.end(), [&](const spawned_actor& one) {
    return one.actor.address() == x.source;
  });
  const bool member
      = who != spawned_.end() && who->what == spawned_kind::rank && who->generation == generation_;
  // Logged here too: the supervisor may get the reason too late, and its log is on another host.
  if (context_->neighbours && member && !closing_ && x.reason
      && !is(x.reason, messages::ec::cancelled) && x.reason != caf::exit_reason::user_shutdown)
    runtime::log_info(" {} ended: {}", who->name, messages::text_of(x.reason));
  if (who != spawned_.end())
    spawned_.erase(who);
  if (root_ && root_.address() == x.source) {
    root_ = nullptr;
    if (!recovery_.on)
      return close();
    release_generation();  // the new supervisor gives the next orders
    return answer_if_ended();
  }
  if (closing_)
    return stop_next();
  if (member)  // peers of the dead rank must not wait for it; its supervisor decides
    release_generation();
  answer_if_ended();
}

}  // namespace troupe::actors
