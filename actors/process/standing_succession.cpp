// How a standing node goes on with a run whose supervisor's host is gone.

#include "actors/process/standing_node.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/agent_messages.hpp"
#include "runtime/process/child_process.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace troupe::actors {
namespace {

constexpr int most_successors = 3;
constexpr auto apart = std::chrono::milliseconds(250);  ///< one host's attempt from the next one's

/// By a standing node, for the next launcher of a run, whose process has to be started, as those
/// are that join.
std::chrono::milliseconds held_for(std::chrono::milliseconds suspicion) {
  return std::max<std::chrono::milliseconds>(3 * suspicion, std::chrono::seconds(15));
}

/// For one that its own host starts, which knows at once that it is needed.
std::chrono::milliseconds patience_with_its_host(std::chrono::milliseconds suspicion) {
  return held_for(suspicion) / 3;
}

}  // namespace

template <class Message>
void standing_node_state::take_copy(const Message& x) {
  try {
    copy_->keep(x);
  } catch (const runtime::error& failure) {
    runtime::log_warning(
        "this host could not go on with the run {}: {}", job_->run, failure.what());
    copy_.reset();
  }
}

void standing_node_state::receive(const messages::keep_run& x) {
  if (!is_from_launcher() || ending_ || !settings_.successor)
    return;
  if (copy_)
    return take_copy(x);
  try {
    copy_.emplace(settings_.run, x);
    if (const auto why = copy_->why_not(); !why.empty())
      runtime::log_warning(
          "if the host of the supervisor of the run {} were lost, this one could not go on with "
          "it: "
          "{}",
          job_->run,
          why);
  } catch (const std::exception& failure) {
    runtime::log_warning(
        "this host could not go on with the run {}: {}", job_->run, failure.what());
  }
}

void standing_node_state::receive(const messages::keep_ledger& x) {
  if (is_from_launcher() && copy_)
    take_copy(x);
}

// Who connects with all the others may have to wait for some that are gone, too.
void standing_node_state::hold() {
  const bool may_succeed = copy_ && copy_->why_not().empty();
  const auto time = held_for(patience()) * (may_succeed ? 2 : 1);
  runtime::log_warning(
      "the launcher of the run {} is gone; whom it has started here is held for its "
      "successor for {} s",
      job_->run,
      std::chrono::duration<double>(time).count());
  path_->send_later(self_,
                    messages::standing_node_actor(self_),
                    time,
                    messages::hold_is_over{jobs_, job_->incarnation});
  successors_ = 0;
  if (may_succeed)
    path_->send_later(self_,
                      messages::standing_node_actor(self_),
                      patience_with_its_host(patience()) + job_->host * apart,
                      messages::succeed_here{jobs_, job_->incarnation});
}

void standing_node_state::receive(const messages::succeed_here& x) {
  if (!held_ || x.job != jobs_ || x.incarnation != job_->incarnation || !copy_ || over_)
    return;
  try {
    start_successor();
  } catch (const runtime::error& failure) {
    runtime::log_warning("this host cannot go on with the run {}: {}", job_->run, failure.what());
  }
}

// In no group and session of ours, and no child of the agent: it lives on when this node does not,
// and when its job is over here. Whether it may go on the run's arbiter tells it.
void standing_node_state::start_successor() {
  ++successors_;
  const auto& folder = copy_->folder();
  runtime::log_warning("nobody has gone on with the run {}: this host tries to, in '{}'",
                       job_->run,
                       folder.path().string());
  auto child = std::make_shared<runtime::child_process>(runtime::child_program{
      .command = settings_.successor(*copy_), .output = folder.log_of(runtime::successor_name)});
  messages::successor_ended out{.job = jobs_, .incarnation = job_->incarnation};
  runtime::start_thread("successor",
                        [child,
                         out,
                         me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
                         path = path_]() mutable {
                          const auto end = child->wait();
                          out.how = runtime::text_of(end);
                          out.failed = end.exit_code != 0;
                          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
                            path->send_from_outside(
                                caf::actor_cast<messages::standing_node_actor>(alive), out);
                        })
      .detach();
}

// While another one goes on with it, that one serves this node soon. Where it has come up itself
// its own host starts the next.
void standing_node_state::receive(const messages::successor_ended& x) {
  if (!held_ || x.job != jobs_ || x.incarnation != job_->incarnation)
    return;
  runtime::log_warning(
      "the process that was to go on with the run {} here has ended: {}{}",
      job_->run,
      x.how,
      copy_ ? "; its log: '" + copy_->folder().log_of(runtime::successor_name).string() + "'" : "");
  if (x.failed && successors_ < most_successors)
    path_->send_later(self_,
                      messages::standing_node_actor(self_),
                      std::chrono::seconds(1),
                      messages::succeed_here{x.job, x.incarnation});
}

void standing_node_state::forget_copy() {
  if (copy_ && successors_ == 0)
    copy_->remove();
  copy_.reset();
  successors_ = 0;
}

}  // namespace troupe::actors
