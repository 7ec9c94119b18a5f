#include "actors/command/run_training.hpp"

#include "actors/command/memory_lines.hpp"
#include "actors/command/placed_hosts.hpp"
#include "actors/command/saved_configuration.hpp"
#include "actors/command/shown_run.hpp"
#include "actors/command/signals.hpp"
#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/hub_origin.hpp"
#include "runtime/checkpoint/listing.hpp"
#include "runtime/checkpoint/save_lock.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/severity_names.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/job/build.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/process/run_control.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

/// Passes requests to end to the run: signals, and those of its front. The first request counts. It
/// may arrive before the run exists.
class drain_switch {
 public:
  void signalled(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (!why_.empty())
      return;
    why_ = name;
    signalled_.cancel();
    if (ask_)
      ask_(why_);
    else
      stop_.cancel();
  }

  void connect(const actors::drain_request& ask) {
    const std::lock_guard lock(mutex_);
    ask_ = ask;
    if (!why_.empty())
      ask_(why_);
  }

  /// Cancelled by a request that arrives while the run is still being prepared.
  const runtime::cancel_token& stop() const { return stop_; }
  const runtime::cancel_token& any_signal() const { return signalled_; }
  std::string why() {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  std::mutex mutex_;
  std::string why_;
  runtime::cancel_token stop_, signalled_;
  actors::drain_request ask_;
};

constexpr int trace_not_written = 2;  // exit code

/// False if the trace cannot be written. Logs the error, so that the end of the run is still shown.
bool write_trace(const actors::prepared_job& prepared) {
  if (!prepared.node->trace)
    return true;
  const auto& file = prepared.opened().job.watch.trace_file;
  try {
    prepared.node->trace->write_chrome(file);
    runtime::log_info(" trace written to {}", file.string());
    return true;
  } catch (const runtime::error& failure) {
    runtime::log_error("cannot save the trace of the run: {}", failure.what());
    return false;
  }
}

constexpr std::size_t table_lines = 16;

/// Like write_trace, for the profile.
bool write_profile(const actors::prepared_job& prepared) {
  if (!prepared.node->profile)
    return true;
  const auto& file = prepared.opened().job.watch.profile_file;
  for (const auto& line : prepared.node->profile->table(table_lines))
    runtime::log_info(" {}", line);
  try {
    prepared.node->profile->write_json(file);
    runtime::log_info(" profile of operations written to {}", file.string());
    return true;
  } catch (const runtime::error& failure) {
    runtime::log_error("cannot save the profile of operations: {}", failure.what());
    return false;
  }
}

/// Logs that workers share cores: their bubbles are then larger than those of the schedule.
void tell_of_shared_cores(const runtime::training_job& job, const run_hosts& hosts) {
  const int threads = job.layout.world * job.threads_per_worker;
  const int cores = runtime::look_at_processor().usable();
  if (job.layout.pipeline > 1 && threads > cores && hosts.nodes.empty()
      && job.backend != runtime::backend_kind::cuda)
    runtime::log_info(
        " {} of {} share {}: actions wait for a core, so bubbles are larger than in the schedule",
        runtime::counted(job.layout.world, "worker"),
        runtime::counted(job.threads_per_worker, "thread"),
        runtime::counted(cores, "core"));
}

void warn_of_crossings(const runtime::training_job& job, const run_hosts& hosts) {
  if (!hosts.nodes.empty())
    for (const auto& warning : crossings_of(place_on_hosts(job.layout, hosts_of(hosts))))
      runtime::log_warning("{}", warning);
}

/// Takes a lock. If the run has moved, its previous process on another host may still hold the
/// lock: it is suspended, or the file system does not know yet that it is dead. That process will
/// find the arbiter's decision and end, so this only warns.
template <class Take>
void take_from_one_that_is_gone(bool moved, const Take& take) {
  try {
    take();
  } catch (const runtime::input_error& held) {
    if (!moved)
      throw;
    runtime::log_warning(
        "{}; that is the previous supervisor process of this run, on a lost host; this process "
        "does not wait for it",
        held.what());
  }
}

/// Null if nothing is saved.
std::shared_ptr<runtime::save_lock> locked_save_folder(const runtime::training_job& job,
                                                       bool moved = false) {
  if (job.checkpoints.save.empty())
    return nullptr;
  auto out = std::make_shared<runtime::save_lock>(job.checkpoints.save);
  take_from_one_that_is_gone(moved, [&] { out->take(); });
  return out;
}

/// Locks the output files, because two runs with one log would destroy it.
std::vector<runtime::file_lock> locked_outputs(const runtime::watch_settings& watch,
                                               bool moved = false) {
  std::vector<runtime::file_lock> out;
  const std::pair<const char*, const std::filesystem::path&> all[]
      = {{"write --log-file", watch.log_file},
         {"write --log-csv", watch.csv_file},
         {"write --tensorboard-dir", watch.board_dir},
         {"write --trace", watch.trace_file},
         {"write --profile-operations", watch.profile_file}};
  for (const auto& one : all)
    if (!one.second.empty())
      take_from_one_that_is_gone(moved, [&] { out.emplace_back(one.second, one.first); });
  // Fails now if the folder cannot be made. Later this is only a warning, so that a failing disk
  // does not end a running job.
  if (!watch.board_dir.empty())
    runtime::make_folder(watch.board_dir);
  return out;
}

std::shared_ptr<actors::prepared_job> prepare(const runtime::training_job& job,
                                              const runtime::held_run_folder* folder,
                                              drain_switch& drain) {
  job.data.objects.end_by(drain.any_signal(), std::chrono::milliseconds(0));
  try {
    auto out = actors::prepare(job, drain.stop(), folder);
    // The current step may finish from now on if the object store answers.
    job.data.objects.end_by(drain.any_signal());
    return out;
  } catch (const runtime::io_error&) {
    drain.stop().throw_if_cancelled();  // it may have waited for an object
    throw;
  }
}

/// Keeps the files of the Hugging Face folder that training started from, for a later export.
void keep_origin(const runtime::training_job& job, const std::string& start) {
  const auto& where = job.checkpoints;
  if (!start.empty())
    runtime::pass_on_hub_origin(std::filesystem::path(start).parent_path(), where.save);
  else if (!where.load_hub.empty())
    runtime::keep_hub_origin(where.load_hub, where.save);
}

/// True if the latest checkpoint is from a run with this tokenizer.
bool was_saved_with(const std::filesystem::path& save, const std::string& tokenizer) {
  try {
    const runtime::checkpoint_reader latest(runtime::named_checkpoint(save));
    const auto where = latest.folder().string();
    const auto identity = runtime::parse_json(latest.manifest().identity, where);
    return runtime::describe_the_same(
        runtime::json_text(runtime::object_member(identity, "tokenizer", where)), tokenizer);
  } catch (const runtime::error&) {
    return false;
  }
}

/// Connects the front's requests to end with `drain`, for the lifetime of this object.
class asked_by_front {
 public:
  asked_by_front(runtime::front_connection* front, drain_switch& drain) : front_(front) {
    if (front_ != nullptr)
      front_->tell_of_end_asked([&drain](const std::string& why) { drain.signalled(why); });
  }
  ~asked_by_front() {
    if (front_ != nullptr)
      front_->tell_of_end_asked({});
  }
  asked_by_front(const asked_by_front&) = delete;
  asked_by_front& operator=(const asked_by_front&) = delete;

 private:
  runtime::front_connection* front_;
};

/// Drops the console lines of a process without a front; they are in the run's log.
class unshown_log final : public runtime::log_reader {
 public:
  ~unshown_log() override { runtime::give_log_to(nullptr); }
  void take(runtime::severity, std::string_view) override {}
  void take_status_line(std::string_view) override {}
  int status_line_columns() const override { return 0; }
  bool output_is_terminal() const override { return false; }
};

/// Finishes the log, then reports the end to the front.
bool finish(const run_request& request, int exit_code) {
  const bool finished = runtime::finish_log(reader_patience);
  if (request.front != nullptr)
    request.front->end({.exit_code = exit_code}, reader_patience);
  return finished;
}

/// Removes checkpoints that a process of an earlier run staged after this run locked the folder.
void clear_save_folder(const std::filesystem::path& save) {
  try {
    runtime::clear_remains(save);
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

/// Runs the prepared job to its end. Ends the process at once if the run leaves a thread behind.
actors::outcome run_prepared(const std::shared_ptr<actors::prepared_job>& prepared,
                             const run_request& request,
                             shown_run& shown,
                             drain_switch& drain,
                             const std::function<void()>& after = {}) {
  shown.follow(*prepared);
  const auto& job = prepared->opened().job;
  std::optional<actors::launch_settings> processes;
  if (job.layout.processes > 1)
    processes = shown.launch(*prepared, request);
  auto end = actors::run(
      prepared, [&](const actors::drain_request& ask) { drain.connect(ask); }, {}, processes);
  if (end.exit_code != 0)
    runtime::log_error("the run ended early: {}", end.reason);
  else if (after)
    after();
  const bool profiled = write_profile(*prepared), traced = write_trace(*prepared);
  if (end.exit_code == 0 && !(profiled && traced))
    end.exit_code = trace_not_written;
  if (prepared->node->save_lock && end.exit_code == 0 && !end.left_behind)
    clear_save_folder(job.checkpoints.save);
  shown.end(end.exit_code, end.reason);
  if (end.left_behind) {  // its lane may still use what a normal exit destroys
    finish(request, end.exit_code);
    end_at_once(request, end.exit_code);
  }
  return end;
}

/// Leads the run in place of the previous supervisor process.
actors::outcome lead(const runtime::training_job& job,
                     const run_request& request,
                     shown_run& shown,
                     drain_switch& drain) {
  const auto lock = locked_save_folder(job, request.moved);
  const auto outputs = locked_outputs(job.watch, request.moved);
  const auto prepared = shown.prepare_to_go_on();
  prepared->node->save_lock = lock;
  return run_prepared(prepared, request, shown, drain);
}

actors::outcome go_on(const runtime::training_job& job,
                      const run_request& request,
                      shown_run& shown,
                      drain_switch& drain) {
  try {
    auto as = request;
    as.incarnation = shown.go_on(request, job);
    if (as.incarnation == 0) {  // the run has ended, or another process leads it
      runtime::remove_remains_of_ended(request.run_folder);
      return {};
    }
    return lead(job, as, shown, drain);
  } catch (...) {
    shown.resign();
    throw;
  }
}

/// Runs the job and returns its end.
actors::outcome carry_out(const runtime::training_job& job,
                          const run_request& request,
                          shown_run& shown,
                          drain_switch& drain) {
  if (request.incarnation > 1)
    return go_on(job, request, shown, drain);
  const auto groups = runtime::forecast_workers(job);
  require_memory(job, request.hosts, groups);
  const auto lock = locked_save_folder(job);
  shown.open(request, job);
  runtime::log_info(" {}", runtime::version_text());
  runtime::log_info(" model: {} parameters",
                    runtime::parameter_count(runtime::spec_of(job.training)));
  const auto outputs = locked_outputs(job.watch);
  const auto prepared = prepare(job, shown.folder(), drain);
  prepared->node->save_lock = lock;
  if (!job.checkpoints.save.empty() && !job.tokenizer_description.empty())
    runtime::keep_tokenizer(job.tokenizer_description, job.checkpoints.save, [&job] {
      return was_saved_with(job.checkpoints.save, job.tokenizer_description);
    });
  if (!job.checkpoints.save.empty()) {
    keep_origin(job, prepared->description.start);
    save_configuration(job.checkpoints.save, request.configuration);
  }
  const bool any_step = prepared->description.iteration < job.train_iterations && !job.skip_train;
  if (any_step) {
    tell_memory(job, request.hosts, groups);
    tell_of_shared_cores(job, request.hosts);
    warn_of_crossings(job, request.hosts);
    if (request.temporary)
      runtime::log_info(
          " `troupe status --run '{0}'` shows its processes and `troupe wait --run '{0}'` the run, "
          "even after this command is killed; the folder is removed when the run ends",
          request.run_folder.string());
    if (job.data.reset_position_ids && spec_of(job.training).positions() == 0)
      runtime::log_info(
          " `data.reset_position_ids` has no effect: only learned positions restart with each "
          "document");
    if (job.checkpoints.save.empty())
      runtime::log_warning(
          "nothing will be saved: the trained state is lost when the run ends; to keep it, give "
          "`checkpoints.save`");
  }
  return run_prepared(prepared, request, shown, drain, [&] {
    if (any_step && !prepared->node->pools->peaks().empty())
      compare_memory(*prepared, groups);
  });
}

}  // namespace

std::shared_ptr<void> requests_of_launch(const run_request& request,
                                         const std::function<void(const std::string& why)>& ask) {
  if (!request.meeting)
    return nullptr;
  request.meeting->give_requests_to(ask);
  return {nullptr, [meeting = request.meeting](void*) { meeting->give_requests_to({}); }};
}

void end_at_once(const run_request& request, int exit_code) {
  if (request.meeting)
    request.meeting->end(exit_code, "");
  std::_Exit(exit_code);
}

runtime::severity level_of(const runtime::watch_settings& watch) {
  using runtime::severity;
  const auto asked = runtime::severity_named(watch.log_level).value_or(severity::error);
  return watch.quiet ? std::max(asked, severity::warning) : asked;
}

int run_training(const runtime::training_job& job, const run_request& request) {
  runtime::set_log_level(level_of(job.watch));
  drain_switch drain;
  const signal_watch signals([&](const char* name) {
    runtime::outlive_output_reader();
    drain.signalled(name);
  });
  const asked_by_front asked(request.front, drain);
  const auto launch
      = requests_of_launch(request, [&drain](const std::string& why) { drain.signalled(why); });
  unshown_log nobody;
  if (request.front != nullptr)
    runtime::give_log_to(request.front);
  else if (request.incarnation > 1)  // the run's log has all lines
    runtime::give_log_to(&nobody);
  runtime::write_log_beside();
  shown_run shown;
  int code = 0;
  try {
    code = carry_out(job, request, shown, drain).exit_code;
  } catch (const runtime::cancelled&) {
    runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved",
                      drain.why());
    shown.end(code, "stopped before the first iteration");
  } catch (const std::exception& failure) {
    if (request.incarnation == 1)  // a failed successor is started again, so the run has not ended
      shown.end(failure);
    runtime::finish_log(reader_patience);
    throw;
  } catch (...) {
    runtime::finish_log(reader_patience);
    throw;
  }
  if (!finish(request, code))
    end_at_once(request, code);  // a normal exit would wait for the hanging reader of our output
  return code;
}

}  // namespace troupe::command
