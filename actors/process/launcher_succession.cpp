// The handover from a launcher to its successor.

#include "actors/process/launcher.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <utility>

namespace troupe::actors {

void launcher_state::find_places(int processes) {
  if (settings_.other_hosts)
    round_ = settings_.other_hosts->round;
  if (settings_.incarnation > 1)
    if (auto before = runtime::find_rendezvous(runtime::run_folder::open(settings_.run)))
      places_ = std::move(before->places);
  places_.resize(std::size_t(processes));
}

// First the processes of an earlier launcher, then the joins that came meanwhile.
void launcher_state::take_up() {
  for (const auto& x : context_->ledger->avoided())
    machine_->avoid(x.process, x.host);
  for (const auto& x : sites_->filled())
    carry_out(machine_->take_over(x));
  for (const auto& [host, why] : sites_->missing())
    if (settings_.incarnation > 1) {
      sites_->lose(host);
      runtime::log_warning("{}", why);
      carry_out(machine_->host_gone(host, why));
    } else {
      sites_->lose(host);
      carry_out(machine_->host_refuses(host, why));
    }
  begun_ = true;
  if (settings_.incarnation == 1 && sites_->missing().empty())
    forget_other_runs();
  for (const auto& x : std::exchange(early_orders_, {}))
    receive(x);
  for (auto& x : std::exchange(early_joins_, {})) {
    auto answer = admit(x.what, x.by);
    if (answer)
      x.answer.deliver(*std::move(answer));
    else
      x.answer.deliver(std::move(answer.error()));
  }
}

void launcher_state::leave_rendezvous() const {
  runtime::write_rendezvous(runtime::run_folder::open(settings_.run),
                            {.incarnation = settings_.incarnation,
                             .address = settings_.address,
                             .port = port_,
                             .places = places_,
                             .round = round_});
}

// A successor must know it even when the host is lost.
void launcher_state::note_start(const messages::process_name& who) {
  if (places_.empty())
    return;
  places_[std::size_t(who.process)] = who.incarnation;
  if (settings_.successor.empty())
    return;
  copy_run();
  try {
    leave_rendezvous();
  } catch (const runtime::error& failure) {
    runtime::log_warning(
        "a successor of this process would not know how often process:{} was "
        "started: {}",
        who.process,
        failure.what());
  }
}

// Recorded before the process is ended, so that a successor that finds it in its old place moves
// it. When another thread is writing, it goes with the next record: a hanging disk does not block
// this actor.
void launcher_state::carry_out(const launch_action::avoid& x) {
  context_->ledger->avoid({x.process, x.agent});
  context_->ledger->flush();
}

caf::result<messages::admitted> launcher_state::receive(const messages::join& x) {
  if (begun_)
    return admit(x, self_->current_sender());
  auto answer = self_->make_response_promise<messages::admitted>();
  early_joins_.push_back({x, self_->current_sender(), answer});
  return answer;
}

}  // namespace troupe::actors
