#include "actors/command/shown_run.hpp"

#include "actors/command/hosts.hpp"
#include "actors/command/run_front.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/command/supervisor_order.hpp"
#include "actors/job/described_job.hpp"
#include "actors/job/going_on.hpp"
#include "actors/job/part_commands.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/temporary_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace troupe::command {
namespace {

constexpr int superseded_code = 3;  // exit code

/// Opens the arbiter again after its folder and all decisions were removed with the checkpoints.
void open_again(const runtime::arbiter& by, std::uint32_t next, const runtime::contender& who) {
  by.open(who);
  if (next > 2)
    by.claim(next - 1, who);
}

/// A check that returns the host that leads the run instead of this process; empty if this process
/// leads. Null if no other host can take over the run. `others_lead`: true if this process already
/// knows it.
std::function<std::string()> fence_of(const actors::launch_settings& launch,
                                      std::function<bool()> others_lead) {
  if (!launch.other_hosts)
    return {};
  const auto folder = runtime::run_folder::open(launch.run);
  return [folder,
          others_lead = std::move(others_lead),
          who = launch.other_hosts->who,
          by = runtime::arbiter(launch.other_hosts->save, folder.record().id)] {
    if (others_lead())
      return std::string("another host leads this run");
    try {
      const auto now = runtime::find_rendezvous(folder);
      if (!now)
        throw runtime::io_error(
            "{}",
            std::filesystem::exists(folder.path())
                ? "this process has ended its part of the run"
                : fmt::format("the folder of this run, '{}', was removed, and with it the record "
                              "of the host that leads the run: end the run, and start it again",
                              folder.path().string()));
      if (!by.is_seen() && !std::filesystem::exists(by.folder().parent_path()))
        open_again(by, now->round, who);
      const auto winner = by.winner_now(by.open_round(now->round));
      return !winner || *winner == who ? std::string() : winner->text;
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
  // The front shows the lines; output of libraries goes to the same log.
  if (request.front != nullptr)
    runtime::write_output_to(log);
  folder_.emplace(std::move(folder), job, request.hosts.credentials);
}

std::uint32_t shown_run::go_on(const run_request& request, const runtime::training_job& job) {
  const auto suspicion = std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(job.recovery.suspicion));
  auto folder = runtime::held_run_folder::to_go_on(request.run_folder, suspicion);
  if (!folder)
    return 0;
  runtime::copy_log_to(folder->log_of(actors::supervisors_entry));
  const auto out = incarnation_won(*folder, job, request.moved, request.incarnation);
  if (out > 0)
    folder_.emplace(*std::move(folder), job, out);
  return out;
}

// The previous launcher told its round to all hosts that it reached. A process that won a round and
// resigned counts as an incarnation, too, because hosts may have followed it.
std::uint32_t shown_run::incarnation_won(runtime::held_run_folder& folder,
                                         const runtime::training_job& job,
                                         bool moved,
                                         std::uint32_t asked) {
  moved_ = moved;
  const auto before = runtime::find_rendezvous(folder);
  if (!before || before->round == 0)
    return asked;
  const runtime::arbiter by(std::filesystem::absolute(job.checkpoints.save), folder.record().id);
  who_ = runtime::contender_of(folder.path());
  round_ = by.open_round(before->round);
  if (by.claim(round_, who_)) {
    arbiter_ = by;
    return std::max(asked, before->incarnation + 1) + (round_ - before->round);
  }
  const auto winner = by.winner(round_);
  const auto why = (winner ? winner->text : "no leader is known") + "; this process does not lead";
  runtime::log_info(" {}", why);
  if (!moved)  // on the first host the front shows why
    folder.end(superseded_code, why);
  return 0;
}

void shown_run::resign() {
  others_->may_lead = true;
  try {
    if (arbiter_)
      arbiter_->resign_all(round_, who_);
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

// Other hosts continue from a copy of this folder (run_copy.hpp), if they see the arbiter's folder.
void shown_run::open_to_other_hosts(actors::launch_settings& to,
                                    const runtime::training_job& job,
                                    const run_request& request) {
  if (to.standing.empty() || job.checkpoints.save.empty())
    return;
  const auto save = std::filesystem::absolute(job.checkpoints.save);
  if (request.incarnation == 1)
    try {
      who_ = runtime::contender_of(folder_->folder().path());
      const runtime::arbiter by(save, folder_->folder().record().id);
      by.open(who_);
      arbiter_ = by;
    } catch (const runtime::error& failure) {
      runtime::log_warning("if this host is lost, no other host can continue the run: {}",
                           failure.what());
    }
  if (!arbiter_)
    return;
  to.other_hosts = {.save = save,
                    .who = who_,
                    .round = round_ + 1,
                    .superseded =
                        [this, front = request.front](const std::string& why) {
                          others_->lead = true;  // first: from now on nothing is saved
                          others_->may_lead = true;
                          runtime::log_error("{}", why);
                          end(superseded_code, why);
                          runtime::finish_log(reader_patience);
                          if (front != nullptr)
                            front->end({.exit_code = superseded_code}, reader_patience);
                          std::_Exit(superseded_code);  // no later result of this process may count
                        },
                    .left_to_others = [others = others_](bool now) { others->may_lead = now; }};
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
  auto out = actors::launch_of_parts(
      {.run = folder.path(), .suspicion = recovery.suspicion, .insecure = hosts.insecure},
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
  job.node->superseded = fence_of(out, [others = others_] { return others->lead.load(); });
  return out;
}

void shown_run::end(int exit_code, const std::string& reason) {
  if (folder_)
    folder_->end(exit_code, with_flags(reason));
  if (arbiter_ && !others_->may_lead)
    end_rounds(exit_code);
}

// Prevents a host that loses this one later from restarting a run that has ended.
void shown_run::end_rounds(int exit_code) {
  try {
    if (arbiter_->end(who_) && exit_code == 0 && !moved_)
      arbiter_->remove();
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

void shown_run::end(const std::exception& failure) {
  end(actors::exit_code_of(failure), failure.what());
}

}  // namespace troupe::command
