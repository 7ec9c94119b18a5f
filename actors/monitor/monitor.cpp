#include "actors/monitor/monitor.hpp"

#include "actors/host/sampling.hpp"
#include "actors/monitor/shown_records.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/telemetry/event_file.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

// Less in total than the supervisor's patience with the monitor.
constexpr auto patience_with_files = std::chrono::milliseconds(4000);
constexpr auto between_samples = std::chrono::seconds(1);
constexpr int looks_unwatched = 10;  // per sample, while no viewer watches

}  // namespace

monitor_book::monitor_book(const messages::job_description& told,
                           std::shared_ptr<const opened_job> job,
                           const std::optional<written_so_far>& so_far,
                           std::shared_ptr<runtime::record_ring> shown)
    : told_(told),
      job_(std::move(job)),
      losses_(runtime::losses_of(job_->job.training)),
      begin_(so_far.value_or(written_so_far{0, told.iteration, told.consumed})),
      append_(so_far || told.iteration > 0),
      newest_(begin_.fact),
      shown_(std::move(shown)) {
  open_recorders();
  const auto& watch = job_->job.watch;
  short_lines_ = watch.log_format == "short"
                 || (watch.log_format == "auto" && runtime::output_is_terminal());
  if (watch.progress && !watch.quiet && !job_->job.skip_train)
    bar_ = std::make_unique<runtime::progress_bar>(
        "training", job_->job.train_iterations, "iterations", told_.iteration);
}

monitor_book::turn::turn(monitor_book& of) : of_(of) {
  std::unique_lock lock(of_.mutex_);
  of_.changed_.wait(lock,
                    [this] { return !of_.is_open_; },
                    {runtime::wait_reason::party::predecessor, "the logs"});
  of_.is_open_ = true;
}

monitor_book::turn::~turn() {
  {
    const std::lock_guard lock(of_.mutex_);
    of_.is_open_ = false;
  }
  of_.changed_.notify_all();
}

bool monitor_book::take(std::uint64_t fact) {
  if (fact <= newest_)
    return false;
  newest_ = fact;
  return true;
}

runtime::log_settings monitor_book::log_settings() const {
  return {.throughput = job_->job.watch.log_throughput,
          .matrix_rate = told_.matrix_rate,
          .append = append_,
          .expert_layers = job_->job.watch.expert_layers};
}

void monitor_book::open_recorders() {
  const auto& watch = job_->job.watch;
  auto settings = log_settings();
  settings.losses = runtime::loss_names(job_->job.training);
  const auto add = [this](const char* flag,
                          const std::filesystem::path& path,
                          const runtime::recorder::opener& open) {
    if (!path.empty())
      files_.push_back(
          {fmt::format("{} '{}'", flag, path.string()), std::make_unique<runtime::recorder>(open)});
  };
  add("`watch.log_file`", watch.log_file, [path = watch.log_file, settings] {
    return runtime::open_json_log(path, settings);
  });
  add("`watch.csv_file`", watch.csv_file, [path = watch.csv_file, settings] {
    return runtime::open_csv_log(path, settings);
  });
  add("`watch.board_dir`",
      watch.board_dir,
      [path = watch.board_dir,
       board = runtime::board_settings{
           settings, watch.board_interval, begin_.iteration, begin_.consumed}] {
        return runtime::open_event_file(path, board);
      });
}

void monitor_book::record(const runtime::watched& x) {
  if (shown_) {
    auto all = log_settings();
    all.throughput = true;
    show(*shown_, x, all);
  }
  for (auto& to : files_) {
    to.recorder->record(x);
    if (const auto trouble = to.recorder->trouble())
      runtime::log_warning("{}; the run continues and will try again", *trouble);
  }
}

// The simulation of a step takes time; no step waits for it here.
runtime::step_report monitor_book::with_pipeline(const messages::committed& x) const {
  auto out = x.report;
  const int ranks = job_->pipeline.schedule->ranks();
  if (ranks < 2 || int(x.executed.size()) != ranks)
    return out;
  const auto found = compared(x, *job_);
  out.pipeline = {found.makespan,
                  found.planned_makespan,
                  found.bubble,
                  found.planned_bubble,
                  found.measured.overhead,
                  found.measured.transfer,
                  found.lateness,
                  found.worst_lateness};
  return out;
}

void monitor_book::add(const messages::committed& x) {
  const auto report = with_pipeline(x);
  if (report.pipeline.ms >= 0) {
    pipeline_.add(report.pipeline);
    executed_ = x;
  }
  record(report);
  if (report.has_no_loss() && !std::exchange(told_of_no_loss_, true))
    runtime::log_warning(
        "iteration {}: no token of its samples counts for the loss, so it has no loss and no "
        "update; the mean loss excludes such steps, and later ones are not reported",
        report.iteration);
  since_.add(report);
  last_ = report;
  if (job_->job.watch.has_line(report.iteration, told_.iteration, job_->job.train_iterations))
    log_last();
  if (bar_)
    advance_bar(report);
}

void monitor_book::advance_bar(const runtime::step_report& x) {
  std::vector<std::string> told = {fmt::format("{}/{}", x.iteration, job_->job.train_iterations)};
  if (std::isfinite(x.loss))
    told.push_back(fmt::format("loss {:.4f}", x.loss));
  bar_->advance_to(x.iteration, std::move(told));
}

void monitor_book::log_last() {
  const auto form = short_lines_ ? short_line : log_line;
  runtime::log_line(runtime::severity::info,
                    form(*last_, since_, job_->job.train_iterations, log_settings()));
  since_ = {};
  last_.reset();
}

void monitor_book::add(const messages::validated& x) {
  record(x.report);
  runtime::log_line(runtime::severity::info, evaluation_line(x.report, losses_, short_lines_));
  if (const auto best = best_line(x.report, best_); !best.empty())
    runtime::log_line(runtime::severity::info, best);
}

void monitor_book::add(const messages::happened& x) {
  record(x.event);
  const auto log = shown_ ? runtime::log_recorded_line : runtime::log_line;
  log(runtime::severity::warning, event_line(x.event));
}

// Makes the decisions of a behaviour available for drawing and replay.
void monitor_book::write_record() const {
  const auto& file = job_->job.watch.schedule_record;
  if (file.empty() || executed_.executed.empty())
    return;
  const auto& schedule = *job_->pipeline.schedule;
  auto plan = *schedule.plain(executed_.microbatches);
  for (const auto& row : executed_.executed) {
    auto& to = plan.ranks.at(std::size_t(row.rank));
    if (!schedule.behaviours())
      continue;  // a stage that follows the plan executes it unchanged
    to.clear();
    // Blocks and R come from the flags of the run that replays the schedule.
    for (const auto& x : row.actions)
      if (x.what.block == 0 && x.what.kind != runtime::action_kind::recompute)
        to.push_back(x.what);
  }
  try {
    runtime::write_text(file, to_csv(plan));
    runtime::log_info(
        " iteration {} as it was executed: {}", executed_.report.iteration, file.string());
  } catch (const runtime::error& failure) {
    runtime::log_warning("cannot record the schedule: {}", failure.what());
  }
}

void monitor_book::conclude() {
  if (std::exchange(concluded_, true))
    return;
  bar_.reset();                                   // the last lines appear without the bar
  if (last_ && job_->job.watch.log_interval > 0)  // whatever ended the run
    log_last();
  if (pipeline_.steps > 0) {
    runtime::log_info(" {}", pipeline_line(pipeline_, job_->pipeline.schedule->name()));
    runtime::log_line(runtime::severity::debug, " " + pipeline_details(pipeline_));
  }
  write_record();
  const auto until = std::chrono::steady_clock::now() + patience_with_files;
  for (auto& to : files_)
    to.recorder->close();
  for (auto& to : files_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const bool whole = to.recorder->finish(std::max(left, std::chrono::milliseconds(0)));
    if (const auto trouble = to.recorder->trouble())
      runtime::log_warning("{}", *trouble);
    const auto missing
        = to.recorder->dropped() + (whole ? 0 : std::max<std::uint64_t>(to.recorder->waiting(), 1));
    if (!whole)
      runtime::log_warning("{} is incomplete: the last {} records are missing", to.name, missing);
    else if (missing > 0)
      runtime::log_warning("{} has gaps: {} records are missing", to.name, missing);
  }
}

void monitor_state::start(const messages::spawn_monitor& told,
                          std::shared_ptr<const opened_job> job,
                          std::shared_ptr<const monitor_resources> context) {
  context_ = std::move(context);
  end_on_exception(self_, "monitor");
  if (context_->env.own_threads)
    place_ = context_->lanes->add({.who = "monitor",
                                   .generation = value(told.generation),
                                   .service = true,
                                   .patience = patience_with_disks});
  presence_ = context_->living->enter({told.generation, "monitor", -1, true});
  job_ = job;
  if (!context_->book)
    context_->book = std::make_shared<monitor_book>(
        told.job, std::move(job), context_->written, context_->records);
  book_ = context_->book;
  if (context_->records)
    look_later();
}

void monitor_state::look_later() {
  context_->messages->send_later(
      self_, messages::monitor_actor(self_), between_samples, messages::sample_due{});
}

void monitor_state::receive(const messages::use_processes& x) {
  if (!is_obeyed(x.generation))
    return;
  nodes_ = x.nodes;
  asked_.assign(nodes_.size(), false);
}

void monitor_state::receive(const messages::sample_due&) {
  if (!context_->records)
    return;
  look_later();
  if (++looks_ < looks_unwatched && !context_->is_watched())
    return;
  looks_ = 0;
  const auto now = self_->home_system().clock().now().time_since_epoch();
  show_process(
      *context_->records, process_here(*job_), sample_of(*context_, std::uint64_t(now.count())));
  for (std::size_t p = 0; p < nodes_.size(); ++p)
    if (nodes_[p] && !asked_[p])
      sample(p);
}

// Asks a node again only after its answer or its replacement: a hung node gets one request.
void monitor_state::sample(std::size_t process) {
  asked_[process] = true;
  context_->messages->request(self_, nodes_[process], caf::infinite, messages::measure{})
      .then(
          [this, process, of = nodes_[process]](const messages::measured& x) {
            if (process >= nodes_.size() || nodes_[process] != of)
              return;
            asked_[process] = false;
            show_process(*context_->records, process_of(*job_, int(process)), x);
          },
          [this, process, of = nodes_[process]](const caf::error&) {
            if (process < nodes_.size() && nodes_[process] == of)
              asked_[process] = false;
          });
}

void monitor_state::receive(const messages::committed& x) {
  const auto mine = book_->opened();
  if (!is_obeyed(x.generation) || (x.fact != 0 && !book_->take(x.fact)))
    return;
  add(x);
  if (is_timeline_due(x))
    show_timeline(*context_->records, x, job_);
}

// Timelines are large: viewers get at most one per second, and all that a command requests.
bool monitor_state::is_timeline_due(const messages::committed& x) {
  if (!context_->records || int(x.executed.size()) != job_->pipeline.schedule->ranks())
    return false;
  if (x.traced)
    return true;
  const auto now = self_->home_system().clock().now();
  if (!context_->is_watched() || now - timeline_at_ < between_samples)
    return false;
  timeline_at_ = now;
  return true;
}

void monitor_state::conclude() {
  const auto mine = book_->opened();
  book_->conclude();
}

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    const messages::spawn_monitor& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const monitor_resources> context) {
  self->state.start(told, std::move(job), std::move(context));
  const auto& place = self->state.place();
  return {receives<messages::committed>(self),
          receives<messages::validated>(self),
          receives<messages::happened>(self),
          receives<messages::use_processes>(self),
          receives<messages::sample_due>(self),
          on_board<messages::conclude>(
              self, self->state.path(), place, [self](const messages::conclude& x) {
                self->state.conclude();
                return messages::concluded{x.generation};  // no further check needed
              })};
}

}  // namespace troupe::actors
