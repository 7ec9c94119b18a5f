// Continues a run from a standing node after the supervisor's host is lost.

#include "actors/process/standing_node.hpp"
#include "actors/support/outside_sender.hpp"
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

constexpr int most_failed_tries = 3;
constexpr auto apart = std::chrono::milliseconds(250);  ///< between the attempts of two hosts
constexpr auto between_tries = std::chrono::seconds(1);

/// Time for the lost host to start a successor itself, when it is not really lost; that is needed
/// soon.
std::chrono::milliseconds patience_with_its_host(std::chrono::milliseconds suspicion) {
  return longest_hold(suspicion) / 6;
}

void warn_that_not_here(const std::string& run, const std::string& why) {
  runtime::log_warning(
      "this host cannot continue the run {} if the supervisor's host is lost: {}", run, why);
}

}  // namespace

// A thread tests whether this host could continue the run, so that a hanging file system does not
// block the node.
void standing_node_state::receive(const messages::keep_run& x) {
  if (!is_from_launcher() || ending_ || !settings_.successor)
    return;
  try {
    if (copy_)
      return copy_->keep(x);
    copy_.emplace(settings_.copies, settings_.run, x);
    fits_ = std::make_shared<std::atomic<bool>>(false);
    runtime::start_thread("look",
                          [fits = fits_, run = job_->run, x, copy = copy_->folder().path()] {
                            try {
                              const auto why = why_not_here(x, copy);
                              fits->store(why.empty());
                              if (!why.empty())
                                warn_that_not_here(run, why);
                            } catch (const std::exception& failure) {
                              warn_that_not_here(run, failure.what());
                            }
                          })
        .detach();
  } catch (const std::exception& failure) {
    warn_that_not_here(job_->run, failure.what());
  }
}

messages::ledger_kept standing_node_state::receive(const messages::keep_ledger& x) {
  if (!is_from_launcher() || !copy_)
    return {x.at + x.lines.size()};  // asks for nothing again
  try {
    return {copy_->keep(x)};
  } catch (const runtime::error& failure) {
    if (!std::exchange(refused_copy_, true))
      warn_that_not_here(job_->run, failure.what());
    return {copy_->ledger_bytes()};
  }
}

void standing_node_state::hold() {
  const bool fits = copy_ && fits_ && fits_->load();
  const bool may_succeed = fits && copy_->is_complete();
  if (fits && !may_succeed)
    warn_that_not_here(job_->run, "its copy of the run's ledger is incomplete");
  const auto time = may_succeed ? longest_hold(patience()) : longest_hold(patience()) / 2;
  runtime::log_warning(
      "the launcher of the run {} is gone; its processes here are held for its successor for {} s",
      job_->run,
      std::chrono::duration<double>(time).count());
  path_->send_later(self_,
                    messages::standing_node_actor(self_),
                    time,
                    messages::hold_is_over{jobs_, job_->incarnation});
  failures_ = 0;
  if (may_succeed)
    succeed_later(patience_with_its_host(patience()) + job_->host * apart);
}

void standing_node_state::succeed_later(std::chrono::milliseconds pause) {
  path_->send_later(self_,
                    messages::standing_node_actor(self_),
                    pause,
                    messages::succeed_here{jobs_, job_->incarnation});
}

void standing_node_state::receive(const messages::succeed_here& x) {
  if (!held_ || x.job != jobs_ || x.incarnation != job_->incarnation || !copy_ || over_
      || lent_for_)
    return;
  try {
    start_successor();
  } catch (const std::exception& failure) {
    runtime::log_warning("this host cannot continue the run {}: {}", job_->run, failure.what());
    try_again();
  }
}

void standing_node_state::try_again() {
  if (++failures_ < most_failed_tries)
    return succeed_later(between_tries);
  try {
    runtime::start_thread("resign", [told = copy_->told(), copy = copy_->folder().path()] {
      try {
        resign_here(told, copy);
      } catch (const std::exception& failure) {
        runtime::log_warning("{}", failure.what());
      }
    }).detach();
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

// The successor has its own group and session and is not a child of the agent: it survives this
// node and the end of its job here. It asks the run's arbiter whether it may continue the run.
void standing_node_state::start_successor() {
  const auto& folder = copy_->folder();
  runtime::log_info(" no process has continued the run {} yet: this host tries to, in '{}'",
                    job_->run,
                    folder.path().string());
  const auto child = std::make_shared<runtime::child_process>(runtime::child_program{
      .command = settings_.successor(*copy_), .output = folder.log_of(runtime::successor_name)});
  runtime::start_thread(
      "successor",
      [child,
       out = messages::successor_ended{.job = jobs_, .incarnation = job_->incarnation},
       tell = outside_sender(messages::standing_node_actor(self_), path_)]() mutable {
        try {
          const auto end = child->wait();
          out.how = runtime::text_of(end);
          out.failed = end.exit_code != 0;
        } catch (const std::exception& failure) {
          out.how = failure.what();
          out.failed = true;
        }
        tell(std::move(out));
      })
      .detach();
  lent_for_ = {jobs_, job_->incarnation};
}

// A successor that lost is retried while the job is held, because the winner may resign. A winner
// soon serves this node, and its own host starts its successors. When a winner died, the next
// process here has its round as well; after the last attempt the other hosts take over.
void standing_node_state::receive(const messages::successor_ended& x) {
  const messages::succeed_here of{x.job, x.incarnation};
  if (lent_for_ == of)
    lent_for_.reset();
  std::erase_if(dropped_, [&of](auto& copy) {
    if (copy.first == of)
      copy.first.reset();
    return !copy.first && copy.second.remove_unless_used();
  });
  if (!held_ || x.job != jobs_ || x.incarnation != job_->incarnation || !copy_)
    return;
  if (x.failed)
    runtime::log_warning(
        "the process that should continue the run {} here has ended: {} (its log: '{}')",
        job_->run,
        x.how,
        copy_->folder().log_of(runtime::successor_name).string());
  if (x.failed)
    return try_again();
  succeed_later(between_tries);
}

// A copy that a process uses is removed when that process has ended and found that it has lost.
void standing_node_state::forget_copy() {
  if (copy_ && (lent_for_ || !copy_->remove_unless_used()))
    dropped_.emplace_back(lent_for_, *copy_);
  copy_.reset();
  lent_for_.reset();
  fits_.reset();
  refused_copy_ = false;
}

}  // namespace troupe::actors
