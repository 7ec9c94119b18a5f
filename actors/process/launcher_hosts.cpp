// The launcher's handling of hosts that come and go.

#include "actors/process/launcher.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/device/backend_kind.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors {

// The sender of a join, or a host's standing node, is gone.
void launcher_state::lose(const caf::down_msg& x) {
  if (const int host = sites_->host_of(x.source); host >= 0)
    return lose_host(host,
                     sites_->name_of_host(host)
                         + " is gone with its processes: it has ended, or cannot be reached");
  for (const auto& [who, it] : known_)
    if (it.joined_by == x.source)
      return carry_out(machine_->late(who, "it stopped responding while it prepared"));
}

// When another host may continue the run, because this host is the lost one, that is decided first.
void launcher_state::lose_host(int host, const std::string& why) {
  sites_->lose(host);
  copies_.erase(host);
  std::erase(returned_, host);
  if (!machine_->is_over())
    runtime::log_warning("{}", why);
  if (!kept_run_ || machine_->is_over()) {
    carry_out(machine_->host_gone(host, why));
    return;
  }
  undecided_.emplace_back(host, why);
  decide_round();
}

void launcher_state::find_host(int host) {
  if (machine_->is_over()) {
    sites_->end_agent(host);
    return;
  }
  if (is_deciding_ || has_resigned_) {
    returned_.push_back(host);
    return decide_round();
  }
  runtime::log_info(" {} is available again, as a spare", sites_->name_of_host(host));
  carry_out(machine_->host_back(host));
}

void launcher_state::compare_cores(int host, int cores) const {
  const auto opened = context_->jobs->open(told_);
  const auto& job = opened->job;
  const auto first = sites_->agents();
  int workers = 0;
  for (std::size_t p = 0; p < first.size(); ++p)
    workers += first[p] == host ? int(opened->placed.ranks_of(int(p)).size()) : 0;
  if (cores > 0 && workers * job.threads_per_worker > cores
      && job.backend != runtime::backend_kind::cuda)
    runtime::log_info(" {} has {}, which {} of {} share: each step waits for them",
                      sites_->name_of_host(host),
                      runtime::counted(cores, "core"),
                      runtime::counted(workers, "worker"),
                      runtime::counted(job.threads_per_worker, "thread"));
}

void launcher_state::receive(const messages::look_for_node& x) {
  if (!machine_->is_over())
    sites_->look(x);
}

void launcher_state::carry_out(const launch_action::relocate& x) {
  const auto to = sites_->name_of_host(x.to);
  const auto cause = x.why.empty() ? "" : fmt::format(" ({})", x.why);
  if (x.beside.empty())
    return runtime::log_warning("process:{} moves to {}{}", x.process, to, cause);
  auto places = x.beside;
  places.push_back(x.process);
  std::sort(places.begin(), places.end());
  runtime::log_warning(
      "process:{} moves to {}, as no node has a free slot{}: that node now hosts the processes {} "
      "and needs the memory of all of them; when another node is started, processes move there",
      x.process,
      to,
      cause,
      runtime::ranges_of(places, {.to = " to ", .single_alone = true}));
}

void launcher_state::carry_out(const launch_action::offer_move& x) {
  const auto& to = asked_[x.who.process];
  if (to.supervisor)
    context_->messages->send(
        self_,
        to.supervisor,
        messages::process_may_move{
            to.generation, x.who.process, x.who.incarnation, sites_->name_of_host(x.to)});
}

void launcher_state::carry_out(const launch_action::withdraw_offer& x) {
  const auto& to = asked_[x.who.process];
  if (to.supervisor)
    context_->messages->send(
        self_,
        to.supervisor,
        messages::process_may_move{to.generation, x.who.process, x.who.incarnation, {}});
}

}  // namespace troupe::actors
