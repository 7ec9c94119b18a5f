#include "actors/command/shown_run.hpp"

#include "actors/command/hosts.hpp"
#include "actors/command/run_front.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/job/described_job.hpp"
#include "actors/job/going_on.hpp"
#include "actors/job/run.hpp"
#include "actors/process/part_commands.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/temporary_run.hpp"
#include "runtime/trainer/build.hpp"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace troupe::command {
namespace {

constexpr int superseded_code = 3;  // exit code

/// Null: nobody else could go on with that run.
std::function<std::string()> fence_of(const actors::launch_settings& launch) {
  if (!launch.other_hosts)
    return {};
  const auto folder = runtime::run_folder::open(launch.run);
  return [folder,
          who = launch.other_hosts->contender,
          by = runtime::arbiter(launch.other_hosts->save, folder.record().id)] {
    try {
      const auto now = runtime::find_rendezvous(folder);
      const auto winner = now ? by.winner(now->round) : std::string();
      return winner == who ? std::string() : winner;
    } catch (const runtime::input_error& failure) {
      throw runtime::io_error("{}", failure.what());
    }
  };
}

}  // namespace

void shown_run::open(const run_request& request, const runtime::training_job& job) {
  if (request.temporary) {
    auto folder = runtime::held_run_folder::temporary(
        request.run_folder, runtime::version_text(), request.command);
    runtime::mark_temporary(folder, read_supervisor_order(request.order).front);
    return show(std::move(folder), request, job);
  }
  if (!request.run_folder.empty())
    return open_at(request.run_folder, request, job);
  if (job.checkpoints.save.empty())
    return;
  try {
    open_at(job.checkpoints.save / ".run", request, job);
  } catch (const runtime::error& failure) {
    runtime::log_warning("`troupe status` will not show this run: {}", failure.what());
  }
}

void shown_run::open_at(const std::filesystem::path& folder,
                        const run_request& request,
                        const runtime::training_job& job) {
  show(runtime::held_run_folder(folder, runtime::version_text(), request.command), request, job);
}

void shown_run::show(runtime::held_run_folder folder,
                     const run_request& request,
                     const runtime::training_job& job) {
  const auto log = folder.log_of(actors::supervisors_entry);
  runtime::copy_log_to(log);
  if (request.front != nullptr)  // it shows the lines, and what libraries say stands beside them
    runtime::write_output_to(log);
  folder_.emplace(std::move(folder), job, request.hosts.credentials);
}

bool shown_run::go_on(const run_request& request, const runtime::training_job& job) {
  const auto suspicion = std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(job.recovery.suspicion));
  auto folder = runtime::held_run_folder::to_go_on(request.run_folder, suspicion);
  if (!folder)
    return false;
  runtime::copy_log_to(folder->log_of(actors::supervisors_entry));
  if (!wins_round(*folder, job, request.moved))
    return false;
  folder_.emplace(*std::move(folder), job, request.incarnation);
  return true;
}

// The number of the round is what the launcher before has told all whom it reached.
bool shown_run::wins_round(runtime::held_run_folder& folder,
                           const runtime::training_job& job,
                           bool moved) {
  moved_ = moved;
  const auto before = runtime::find_rendezvous(folder);
  if (!before || before->round == 0)
    return true;
  const runtime::arbiter by(std::filesystem::absolute(job.checkpoints.save), folder.record().id);
  round_ = by.open_round(before->round);
  if (by.claim(round_, runtime::contender(folder.path()))) {
    arbiter_ = by;
    return true;
  }
  const auto why = by.winner(round_) + " goes on with this run, and this process does not";
  runtime::log_info(" {}", why);
  if (!moved)  // who was never to lead it again says so to who shows it
    folder.end(superseded_code, why);
  return false;
}

void shown_run::resign() const {
  try {
    if (arbiter_)
      arbiter_->resign(round_);
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

// Other hosts go on from a copy of this folder (run_copy.hpp), where they see what decides.
void shown_run::open_to_other_hosts(actors::launch_settings& to,
                                    const runtime::training_job& job,
                                    const run_request& request) {
  if (to.standing.empty() || job.checkpoints.save.empty())
    return;
  const auto save = std::filesystem::absolute(job.checkpoints.save);
  const auto who = runtime::contender(folder_->folder().path());
  if (request.incarnation == 1)
    try {
      const runtime::arbiter by(save, folder_->folder().record().id);
      by.open(who);
      arbiter_ = by;
    } catch (const runtime::error& failure) {
      runtime::log_warning("if this host were lost, no other one could go on with the run: {}",
                           failure.what());
    }
  if (!arbiter_)
    return;
  to.other_hosts = {.save = save,
                    .contender = who,
                    .round = round_ + 1,
                    .superseded = [this, front = request.front](const std::string& why) {
                      runtime::log_error("{}", why);
                      end(superseded_code, why);
                      runtime::finish_log(reader_patience);
                      if (front != nullptr)
                        front->end({.exit_code = superseded_code}, reader_patience);
                      std::_Exit(superseded_code);  // at once: nothing of it may count any more
                    }};
}

std::shared_ptr<actors::prepared_job> shown_run::prepare_to_go_on() const {
  return actors::prepare_to_go_on(folder_->folder());
}

void shown_run::follow(const actors::prepared_job& job) {
  if (folder_)
    folder_->follow(job);
}

actors::launch_settings shown_run::launch(const actors::prepared_job& job,
                                          const run_request& request) {
  const auto& hosts = request.hosts;
  const auto& recovery = job.opened().job.recovery;
  const auto& folder = folder_->folder();
  warn_if_insecure(hosts.insecure);
  auto out = actors::launch_of_parts({.run = folder.path(),
                                      .suspicion = recovery.suspicion,
                                      .insecure = hosts.insecure,
                                      .outlived = recovery.on},
                                     hosts.address);
  out.standing = hosts.nodes;
  out.standing.insert(out.standing.end(), hosts.spares.begin(), hosts.spares.end());
  out.incarnation = request.incarnation;
  if (!recovery.on || request.order.empty())
    return out;
  if (request.incarnation == 1) {
    runtime::write_order(folder, request.order);
    runtime::write_description(folder, actors::text_of(job.description));
  }
  out.successor = successor_command(folder.path(), request.temporary, request.incarnation + 1);
  open_to_other_hosts(out, job.opened().job, request);
  job.node->superseded = fence_of(out);
  return out;
}

void shown_run::end(int exit_code, const std::string& reason) {
  if (folder_)
    folder_->end(exit_code, with_flags(reason));
  if (arbiter_ && exit_code == 0 && !moved_)
    arbiter_->remove();
}

void shown_run::end(const std::exception& failure) {
  end(actors::exit_code_of(failure), failure.what());
}

}  // namespace troupe::command
