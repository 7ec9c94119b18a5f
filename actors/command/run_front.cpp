#include "actors/command/run_front.hpp"

#include "actors/command/followed_run.hpp"
#include "actors/command/setting_names.hpp"
#include "actors/command/signals.hpp"
#include "actors/command/supervisor_order.hpp"
#include "actors/process/released_nodes.hpp"
#include "runtime/checkpoint/listing.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/job/job_json.hpp"
#include "runtime/process/agent_messages.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_control.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/state/ledger_record.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

constexpr int we_failed = 3;  // exit code
constexpr auto between_looks = std::chrono::milliseconds(20);
/// Attempts to start a run if its supervisor process is killed before the first commit.
constexpr int most_beginnings = 3;

/// True if another host leads the run or may lead it, according to the run's arbiter. Otherwise
/// this also ends the run at the arbiter, so that no host takes it over later. Blocks on the file
/// system.
bool leads_elsewhere(const fs::path& save, const fs::path& run) {
  std::optional<runtime::run_folder> folder;
  try {
    folder = runtime::run_folder::open(run);
  } catch (const runtime::error&) {
    return false;  // the run has not begun
  }
  try {
    const runtime::arbiter by(save, folder->record().id);
    if (!fs::exists(by.folder()))
      return false;
    const auto leader = by.leader();
    return !leader || (!leader->is_end() && !by.end(runtime::contender_of(run)));
  } catch (const std::exception& failure) {
    runtime::log_warning("cannot tell the nodes that the run has ended: {}", failure.what());
    return true;
  }
}

/// The folder of the run. A temporary one is removed with this object.
class front_folder {
 public:
  front_folder(const runtime::training_job& job, const run_request& request)
      : is_temporary_(request.run_folder.empty() && job.checkpoints.save.empty()),
        path_(is_temporary_                ? runtime::new_temporary_folder()
              : request.run_folder.empty() ? job.checkpoints.save / ".run"
                                           : request.run_folder),
        hosts_(request.hosts),
        save_(job.checkpoints.save.empty() ? fs::path() : fs::absolute(job.checkpoints.save)),
        suspicion_(job.recovery.suspicion) {}
  ~front_folder() {
    std::error_code ignored;
    if (is_temporary_)
      fs::remove_all(path_, ignored);
  }
  front_folder(const front_folder&) = delete;
  front_folder& operator=(const front_folder&) = delete;

  const fs::path& path() const { return path_; }
  bool is_temporary() const { return is_temporary_; }
  /// Releases the nodes, because no process of this host continues the run. Keeps them if another
  /// host leads the run: a node that it has not reached yet would believe this message.
  void free_hosts() {
    auto nodes = hosts_.nodes;
    nodes.insert(nodes.end(), hosts_.spares.begin(), hosts_.spares.end());
    if (nodes.empty() || another_host_leads())
      return;
    if (!actors::release_nodes(nodes, path_, suspicion_, hosts_.insecure))
      leaves_threads_ = true;
  }
  bool leaves_threads() const { return leaves_threads_; }
  std::vector<std::string> command() const { return supervisor_command(path_, is_temporary_); }

 private:
  /// True if another host leads the run or may lead it. A file system that does not answer within
  /// the suspicion timeout counts as true.
  bool another_host_leads() {
    if (save_.empty())
      return false;
    const auto leads = std::make_shared<std::promise<bool>>();
    auto answer = leads->get_future();
    try {
      runtime::start_thread("arbiter", [leads, save = save_, path = path_] {
        leads->set_value(leads_elsewhere(save, path));
      }).detach();
    } catch (const runtime::error&) {
      return leads_elsewhere(save_, path_);
    }
    if (answer.wait_for(std::chrono::duration<double>(suspicion_)) == std::future_status::ready)
      return answer.get();
    leaves_threads_ = true;
    return true;
  }

  bool is_temporary_;
  fs::path path_;
  run_hosts hosts_;
  fs::path save_;  ///< absolute; empty: nothing is saved
  double suspicion_;
  bool leaves_threads_ = false;
};

/// The name of a received signal: the first one, or the second one, which ends the run at once.
class signal_name {
 public:
  void set(const std::string& name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  std::string name() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }
  bool has_come() const { return !name().empty(); }

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

void show(const runtime::line_told& x) {
  runtime::log_line(x.level, x.text);
}
void show(const runtime::status_line_told& x) {
  if (x.text.empty())
    runtime::clear_status_line();
  else
    runtime::show_status_line(x.text);
}
void show(const runtime::still_there&) {}
void show(const runtime::end_told&) {}

/// Shows all output of the supervisor process. Returns its end, if it reported one.
std::optional<runtime::end_told> show_all(runtime::supervisor_process& supervisor) {
  std::optional<runtime::end_told> out;
  while (const auto told = supervisor.next()) {
    std::visit([](const auto& x) { show(x); }, *told);
    if (const auto* const end = std::get_if<runtime::end_told>(&*told))
      out = *end;
  }
  runtime::clear_status_line();
  return out;
}

std::string how_to_go_on(const runtime::training_job& job) {
  if (job.checkpoints.save.empty())
    return "nothing was saved";
  try {
    return fmt::format(
        "the newest checkpoint is '{}': give `checkpoints.load` {} to resume from it",
        runtime::named_checkpoint(job.checkpoints.save).string(),
        job.checkpoints.save.string());
  } catch (const runtime::error&) {
    return fmt::format("no checkpoint was saved in '{}' yet", job.checkpoints.save.string());
  }
}

std::string how_it_was_lost(const runtime::supervisor_process& x) {
  const auto& end = x.end();
  const auto how = !x.silence().empty() ? x.silence() + ", and was killed"
                   : end.signal != 0    ? "was " + runtime::text_of(end)
                                        : "ended with " + runtime::text_of(end);
  return fmt::format("the supervisor's process {} {}", x.id().pid, how);
}

/// Records the end of the run for other processes. `of`: its supervisor process.
void leave_end(const fs::path& folder,
               const runtime::process_id& of,
               int code,
               const std::string& why) {
  try {
    runtime::say_end_of_died(folder, of, code, with_flags(why));
  } catch (const runtime::error&) {  // the process was lost before it took the folder
  }
}

/// False if the run has not published its rendezvous, or its ledger has no step.
bool has_committed(const fs::path& run) {
  try {
    const auto folder = runtime::run_folder::open(run);
    if (!runtime::find_rendezvous(folder) || !fs::exists(folder.ledger()))
      return false;
    const auto all = runtime::read_ledger(folder.ledger());
    return std::any_of(all.begin(), all.end(), [](const auto& x) {
      return std::holds_alternative<runtime::ledger::committed>(x);
    });
  } catch (const runtime::error&) {
    return fs::exists(run / "ledger.jsonl");
  }
}

[[noreturn]] void complain(const runtime::end_told& x) {
  if (x.kind == runtime::complaint::input)
    throw runtime::input_error("{}", x.text);
  if (x.kind == runtime::complaint::memory)
    throw std::bad_alloc();
  throw std::runtime_error(x.text);
}

int ended_at_once(front_folder& folder,
                  runtime::supervisor_process& supervisor,
                  const runtime::process_id& last,
                  const std::string& signal) {
  supervisor.end_what_is_left(folder.path(), true);
  folder.free_hosts();
  leave_end(
      folder.path(), last, exit_code_of_signal(signal), "ended at once by a second " + signal);
  return exit_code_of_signal(signal);
}

int lost(const runtime::training_job& job,
         runtime::supervisor_process& supervisor,
         front_folder& folder,
         const runtime::process_id& last,
         const std::string& why) {
  runtime::log_error("the run ended early: {}; {}", why, how_to_go_on(job));
  supervisor.end_what_is_left(folder.path());
  folder.free_hosts();
  leave_end(folder.path(), last, we_failed, why);
  return we_failed;
}

/// The successor of a lost supervisor process. The host agent starts it. If the agent or that
/// successor has died, too, this object starts one.
class succession {
 public:
  /// `folder` outlives it.
  explicit succession(const front_folder& folder) : folder_(folder) {}

  /// True if a successor leads the run or is starting. False: no process can continue this run, or
  /// the system refuses.
  bool goes_on() {
    if (is_starting())
      return true;
    try {
      const auto run = runtime::run_folder::open(folder_.path());
      return runtime::has_succession(run) || start(run);
    } catch (const runtime::error&) {  // the process was lost before it took the folder
      return false;
    }
  }
  void kill() { started_.reset(); }

 private:
  bool is_starting() { return started_ && !started_->wait(between_looks); }

  /// Starts one successor per incarnation: the cause of its end would end another one, too.
  bool start(const runtime::run_folder& run) {
    const auto before = runtime::find_rendezvous(run);
    const bool has_given_up = runtime::running_agent(run).has_value();
    if (!before || run.record().ended || before->incarnation <= followed_ || has_given_up)
      return false;
    started_ = std::make_unique<runtime::child_process>(runtime::child_program{
        .command
        = successor_command(folder_.path(), folder_.is_temporary(), before->incarnation + 1),
        .output = run.log_of(runtime::successor_name)});
    followed_ = before->incarnation;
    return true;
  }

  const front_folder& folder_;
  std::unique_ptr<runtime::child_process> started_;
  std::uint32_t followed_ = 0;  ///< the last incarnation that got a successor here
};

/// Follows the run by its folder, because the connection ended with the lost process.
int shown_with_successor(const runtime::training_job& job,
                         runtime::supervisor_process& supervisor,
                         front_folder& folder,
                         succession& successors,
                         const signal_name& first,
                         const signal_name& second) {
  runtime::log_warning("{}; a successor takes over", how_it_was_lost(supervisor));
  const auto followed = follow_run(folder.path(),
                                   supervisor.id(),
                                   {[&first] { return first.has_come(); },
                                    [&second] { return second.has_come(); },
                                    [&successors] { return successors.goes_on(); }});
  if (!followed.end && second.has_come()) {
    successors.kill();
    return ended_at_once(folder, supervisor, followed.last, second.name());
  }
  if (!followed.end)
    return lost(job,
                supervisor,
                folder,
                followed.last,
                "no successor took over from its supervisor's process");
  supervisor.end_what_is_left(folder.path());
  if (followed.end->exit_code != 0)
    folder.free_hosts();
  return followed.end->exit_code;
}

/// The exit code. Empty if the process was killed before the first commit; no part of the run is
/// left then.
std::optional<int> shown_to_its_end(const runtime::training_job& job,
                                    runtime::supervisor_process& supervisor,
                                    front_folder& of_run,
                                    const signal_name& first,
                                    const signal_name& second) {
  const auto& folder = of_run.path();
  const auto told = show_all(supervisor);
  if (told) {  // even if the process was killed afterwards
    if (!supervisor.silence().empty() && !second.has_come())
      runtime::log_warning("{}: its last output may be missing", how_it_was_lost(supervisor));
    supervisor.end_what_is_left(folder, second.has_come());
    if (told->exit_code != 0)
      of_run.free_hosts();
    if (told->kind != runtime::complaint::none)
      complain(*told);
    return told->exit_code;
  }
  if (second.has_come())
    return ended_at_once(of_run, supervisor, supervisor.id(), second.name());
  if (succession successors(of_run); successors.goes_on())
    return shown_with_successor(job, supervisor, of_run, successors, first, second);
  // A crash or a lack of memory would happen again.
  const bool was_killed = (supervisor.end().signal == SIGKILL && !supervisor.end().out_of_memory)
                          || !supervisor.silence().empty();
  if (job.recovery.on && was_killed && !first.has_come() && !has_committed(folder)) {
    supervisor.end_what_is_left(folder);
    of_run.free_hosts();
    return std::nullopt;
  }
  return lost(job, supervisor, of_run, supervisor.id(), how_it_was_lost(supervisor));
}

}  // namespace

std::vector<std::string> supervisor_command(const fs::path& run, bool temporary) {
  std::vector<std::string> out{fs::read_symlink("/proc/self/exe").string(),
                               "supervisor",
                               "--run",
                               fs::absolute(run).string()};
  if (temporary)
    out.emplace_back("--temporary");
  return out;
}

std::vector<std::string> successor_command(const fs::path& run,
                                           bool temporary,
                                           std::uint32_t incarnation) {
  auto out = supervisor_command(run, temporary);
  out.insert(out.end(), {"--incarnation", std::to_string(incarnation)});
  return out;
}

int show_run(const runtime::training_job& job, const run_request& request) {
  // The supervisor process sends only wanted lines.
  runtime::set_log_level(runtime::severity::debug);
  runtime::supervisor_process supervisor(job.recovery.suspicion);
  signal_name first, second;
  const signal_watch signals(
      [&](const char* name) {
        runtime::outlive_output_reader();
        first.set(name);
        supervisor.ask_to_end(name);
      },
      [&](const char* name) {
        second.set(name);
        supervisor.kill();
      });
  const auto launch = requests_of_launch(request, [&](const std::string& why) {
    if (!first.has_come())
      first.set(why);
    supervisor.ask_to_end(why);
  });
  runtime::write_log_beside();
  int code = 0;
  bool leaves_threads = false;
  try {
    front_folder folder(job, request);
    const auto order
        = text_of(supervisor_order{runtime::to_json(job),
                                   request.configuration,
                                   request.command,
                                   {runtime::status_line_columns(), runtime::output_is_terminal()},
                                   runtime::this_process(),
                                   request.hosts});
    std::optional<int> end;
    for (int begun = 1; !end; ++begun) {
      supervisor.start(folder.command(), order);
      end = shown_to_its_end(job, supervisor, folder, first, second);
      if (!end && begun == most_beginnings)
        end = lost(job, supervisor, folder, supervisor.id(), how_it_was_lost(supervisor));
      else if (!end)
        runtime::log_warning("{} before the first commit: the run starts again",
                             how_it_was_lost(supervisor));
    }
    code = *end;
    runtime::remove_remains_of_ended(folder.path());
    leaves_threads = folder.leaves_threads();
  } catch (...) {
    runtime::finish_log(reader_patience);
    throw;
  }
  if (!runtime::finish_log(reader_patience) || leaves_threads)
    end_at_once(request, code);  // a normal exit would wait for a hanging reader, or a node
  return code;
}

}  // namespace troupe::command
