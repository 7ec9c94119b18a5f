// The part of a standing node that decides which launcher it serves.

#include "actors/process/standing_node.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/ranges_text.hpp"
#include "runtime/job/build.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// "serves process 2", "serves processes 2 to 3"
std::string serves(const messages::serve& x) {
  return fmt::format("serves {} {}",
                     x.places.size() == 1 ? "process" : "processes",
                     runtime::ranges_of(x.places, {.to = " to ", .single_alone = true}));
}

}  // namespace

std::string standing_node_state::unfit_for(const messages::serve& x) const {
  if (x.protocol != messages::process_protocol || x.program != runtime::version_text())
    return fmt::format(
        "its program is '{}' (protocol {}), and this run is of '{}' (protocol {}); give every host "
        "the same build",
        runtime::version_text(),
        messages::process_protocol,
        x.program,
        x.protocol);
  if (x.suspicion != settings_.suspicion)
    return fmt::format(
        "it was started with `recovery.suspicion` {}, and this run has {}; give both the same",
        settings_.suspicion,
        x.suspicion);
  if (over_)
    return "it is ending";
  return {};
}

// STANDING-1.
std::string standing_node_state::superseded_by(const messages::serve& x) const {
  if (!job_ || job_->run != x.run || x.incarnation >= job_->incarnation)
    return {};
  return fmt::format("STANDING-1: incarnation {} of the supervisor's process continues that run",
                     job_->incarnation);
}

std::string standing_node_state::taken_from(const messages::serve& x) const {
  if (next_ || (job_ && !ending_ && !held_))
    return fmt::format("it {} {}, and serves one at a time; start another node for it",
                       job_->places.empty() ? "is a spare of" : serves(*job_) + " of",
                       job_->run == x.run ? "this run, too: it was named twice" : "another run");
  return {};
}

void standing_node_state::turn_next_away(const std::string& why) {
  if (!job_ || job_->launcher != next_->launcher)
    self_->demonitor(next_->launcher.address());
  next_.reset();
  answer_.deliver(messages::make_error(messages::ec::refused, why));
}

bool standing_node_state::succeeds(const messages::serve& x) const {
  return job_ && !ending_ && !over_ && job_->run == x.run && x.incarnation > job_->incarnation;
}

// A launcher that comes while the previous job is being ended or held waits until that is over. A
// launcher that lost this host and finds it again has given up the processes held here.
caf::result<messages::serving> standing_node_state::receive(const messages::serve& x) {
  if (x.over)
    return release(x);
  if (auto later = superseded_by(x); !later.empty())
    return messages::make_error(messages::ec::superseded, std::move(later));
  auto why = unfit_for(x);
  if (why.empty() && !succeeds(x))
    why = taken_from(x);
  if (!why.empty()) {
    runtime::log_warning("a run was refused: {}", why);
    return messages::make_error(messages::ec::refused, std::move(why));
  }
  try {
    if (succeeds(x))
      return take_over(x);
    if (!job_)
      return serve(x);
  } catch (const runtime::error& failure) {
    return messages::make_error(messages::ec::refused, failure.what());
  }
  next_ = x;
  self_->monitor(x.launcher);
  answer_ = self_->make_response_promise<messages::serving>();
  auto out = answer_;
  if (held_ && job_->run == x.run)
    end_job();
  else if (held_)
    runtime::log_info(" the run {} waits until the run {} is over here", x.run, job_->run);
  return out;
}

// Called by the run's front when there is no successor.
caf::result<messages::serving> standing_node_state::release(const messages::serve& x) {
  if (!job_ || job_->run != x.run)
    return messages::make_error(messages::ec::refused, "it does not serve that run");
  if (auto later = superseded_by(x); !later.empty())  // sent from a host that lost the others
    return messages::make_error(messages::ec::superseded, std::move(later));
  runtime::log_info(" the command of the run {} says that no process continues it", x.run);
  messages::serving out{.host = runtime::host_name(), .run = settings_.run.string()};
  end_job();
  return out;
}

// The processes that it will start find the run's successors in this folder.
messages::serving standing_node_state::serve(const messages::serve& x) {
  runtime::write_rendezvous(runtime::run_folder::open(settings_.run),
                            {.incarnation = x.incarnation, .address = x.address, .port = x.port});
  job_ = x;
  if (jobs_++ == 0 && settings_.begins)
    settings_.begins();
  ending_ = false;
  self_->monitor(x.launcher);
  if (x.places.empty())
    runtime::log_info(" stands by as a spare of the run {}", x.run);
  else
    runtime::log_info(" {} of the run {}", serves(x), x.run);
  return {.host = runtime::host_name(),
          .run = settings_.run.string(),
          .cores = runtime::look_at_processor().usable()};
}

// STANDING-1.
caf::result<messages::serving> standing_node_state::take_over(const messages::serve& x) {
  runtime::write_rendezvous(runtime::run_folder::open(settings_.run),
                            {.incarnation = x.incarnation, .address = x.address, .port = x.port});
  self_->demonitor(job_->launcher.address());
  job_ = x;
  held_ = false;
  forget_copy();  // the copy may be this launcher's folder
  if (next_)      // it waited for the end of this run, which continues
    turn_next_away(taken_from(*next_));
  self_->monitor(x.launcher);
  runtime::log_warning(
      "incarnation {} of the supervisor's process continues the run {}", x.incarnation, x.run);
  taken_over_ = self_->make_response_promise<messages::serving>();
  auto out = *taken_over_;
  tell_who_runs();
  return out;
}

void standing_node_state::tell_who_runs() {
  if (!taken_over_ || !starting_.empty())
    return;
  messages::serving out{.host = runtime::host_name(), .run = settings_.run.string()};
  for (const auto& [name, x] : agent_->running())
    out.running.push_back(
        {{process_of(name), std::uint32_t(x.which)}, x.process.pid, x.process.start_time});
  std::exchange(taken_over_, std::nullopt)->deliver(std::move(out));
}

bool standing_node_state::is_from_launcher() const {
  const auto& sender = self_->current_sender();
  return job_ && sender && sender->address() == job_->launcher.address();
}

// Without a successor, no launcher could give orders; the next one is waiting.
void standing_node_state::lose(const caf::down_msg& x) {
  if (next_ && next_->launcher.address() == x.source) {
    runtime::log_info(" the run {}, which waited here, is gone", next_->run);
    turn_next_away("its launcher is gone");
  }
  if (!job_ || job_->launcher.address() != x.source || ending_)
    return;
  if (!job_->succeeded) {
    runtime::log_warning("the launcher of the run {} is gone", job_->run);
    return end_job();
  }
  held_ = true;
  hold();
}

void standing_node_state::receive(const messages::hold_is_over& x) {
  if (!held_ || x.job != jobs_ || x.incarnation != job_->incarnation)
    return;
  runtime::log_warning("no process continues the run {}", job_->run);
  end_job();
}

void standing_node_state::end_job() {
  if (std::exchange(ending_, true))
    return;
  held_ = false;
  if (!agent_->is_there())
    return be_free();
  agent_->ask(runtime::end_agent{});
  path_->send_later(
      self_, messages::standing_node_actor(self_), patience(), messages::dismiss{jobs_});
}

// The launcher waits for this message and may then start its next run.
void standing_node_state::be_free() {
  const auto before = std::exchange(job_, std::nullopt);
  starting_.clear();
  ending_ = false;
  held_ = false;
  forget_copy();
  if (auto promise = std::exchange(taken_over_, std::nullopt))
    promise->deliver(messages::make_error(messages::ec::refused, "it is ending"));
  self_->demonitor(before->launcher.address());
  try {
    runtime::remove_rendezvous(runtime::run_folder::open(settings_.run));
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
  path_->send(self_,
              before->launcher,
              messages::agent_told{.host = before->host, .answer = "it has ended", .gone = true});
  runtime::log_info(" the run {} is over here", before->run);
  if (over_ || settings_.once)
    return self_->quit();
  const auto next = std::exchange(next_, std::nullopt);
  if (!next)
    return;
  self_->demonitor(next->launcher.address());  // `serve` monitors it
  try {
    answer_.deliver(serve(*next));
  } catch (const runtime::error& failure) {
    answer_.deliver(messages::make_error(messages::ec::refused, failure.what()));
  }
}

}  // namespace troupe::actors
