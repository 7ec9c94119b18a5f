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
#include <utility>

namespace troupe::command {

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
  if (!wins_round(*folder, job, request.elsewhere))
    return false;
  folder_.emplace(*std::move(folder), job, request.incarnation);
  return true;
}

// The number of the round is what the launcher before has told all whom it reached.
bool shown_run::wins_round(const runtime::run_folder& folder,
                           const runtime::training_job& job,
                           bool elsewhere) const {
  const auto before = runtime::find_rendezvous(folder);
  if (!before || before->round == 0)
    return true;
  arbiter_.emplace(std::filesystem::absolute(job.checkpoints.save), folder.record().id);
  if (!elsewhere)
    arbiter_->open();  // somebody may have removed it
  if (arbiter_->claim(before->round, runtime::contender(folder.path())))
    return true;
  runtime::log_warning("{} goes on with this run, and this process does not",
                       arbiter_->winner(before->round));
  arbiter_.reset();
  return false;
}

void shown_run::fence(const actors::prepared_job& job) const {
  if (!folder_)
    return;
  job.node->superseded = [folder = runtime::run_folder::open(folder_->folder().path()),
                          save = std::filesystem::absolute(job.opened().job.checkpoints.save)] {
    const auto now = runtime::find_rendezvous(folder);
    if (!now || now->round == 0)
      return std::string();
    const auto winner = runtime::arbiter(save, folder.record().id).winner(now->round);
    return winner == runtime::contender(folder.path()) ? std::string() : winner;
  };
}

// Other hosts go on from a copy of this folder (run_copy.hpp), where they see what decides.
void shown_run::open_to_other_hosts(actors::launch_settings& to,
                                    const runtime::training_job& job,
                                    const run_request& request) const {
  if (to.standing.empty() || job.checkpoints.save.empty())
    return;
  const auto save = std::filesystem::absolute(job.checkpoints.save);
  if (request.incarnation == 1) {
    arbiter_.emplace(save, folder_->folder().record().id);
    try {
      arbiter_->open();
      arbiter_->claim(1, runtime::contender(folder_->folder().path()));
    } catch (const runtime::error& failure) {
      runtime::log_warning("if this host were lost, no other one could go on with the run: {}",
                           failure.what());
      arbiter_.reset();
    }
  }
  if (!arbiter_)
    return;
  to.other_hosts = {.save = save, .superseded = [](const std::string& why) {
                      runtime::log_error("{}", why);
                      runtime::finish_log(reader_patience);
                      std::_Exit(3);  // at once: nothing of it may count any more
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
                                          const run_request& request) const {
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
  return out;
}

void shown_run::end(int exit_code, const std::string& reason) {
  if (folder_)
    folder_->end(exit_code, with_flags(reason));
  if (arbiter_)
    arbiter_->remove();
}

void shown_run::end(const std::exception& failure) {
  end(actors::exit_code_of(failure), failure.what());
}

}  // namespace troupe::command
