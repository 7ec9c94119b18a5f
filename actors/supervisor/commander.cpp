#include "actors/monitor/shown_records.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "actors/support/outside_sender.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/severity_names.hpp"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace troupe::actors {
namespace {

namespace commands = runtime::commands;

constexpr auto between_looks_in_pause = std::chrono::seconds(1);
constexpr std::size_t bytes_of_norm = 80;          // of a name and a number
constexpr std::size_t most_rate_changes = 10'000;  // each is in the identity of later checkpoints

runtime::severity severity_of(const std::string& level) {
  return runtime::severity_named(level).value_or(runtime::severity::info);
}

}  // namespace

/// Carries out one command, or throws input_error with the reason. Returns the answer.
struct commander::command_reader {
  commander& of;
  runtime::ledger::commanded& record;

  std::string operator()(const commands::status&) const { return of.status_text(); }
  std::string operator()(const commands::pause&) const {
    if (std::exchange(of.control_.paused, true))
      throw runtime::input_error("the run is already paused");
    return fmt::format("paused after step {}", of.run_.at.iteration);
  }
  std::string operator()(const commands::resume&) const {
    if (!std::exchange(of.control_.paused, false))
      throw runtime::input_error("the run is not paused");
    return fmt::format("step {} begins", of.run_.at.iteration + 1);
  }
  std::string operator()(const commands::save&) const {
    if (of.run_.job->job.checkpoints.save.empty())
      throw runtime::input_error("this run has no folder to save into (`checkpoints.save`)");
    if (!of.saves_.ask(of.run_.at.iteration))
      throw runtime::input_error("iteration {} is already saved or being saved",
                                 of.run_.at.iteration);
    return fmt::format("saving iteration {}", of.run_.at.iteration);
  }
  std::string operator()(const commands::evaluate&) const {
    of.require_validation();
    of.control_.evaluates = true;
    return fmt::format("evaluating after step {}", of.run_.at.iteration);
  }
  std::string operator()(const commands::learning_rate& x) const {
    const auto place = std::int64_t(of.run_.at.consumed - of.run_.at.skipped.samples);
    const auto& recipe = of.recipe_;
    const auto planned
        = recipe.rate_of.at ? recipe.rate_of.at(place) : runtime::learning_rate(recipe.rate, place);
    if (planned == 0)
      throw runtime::input_error(
          "the schedule's learning rate of step {} is 0, and no factor makes it {}; try a later "
          "step",
          record.step,
          x.rate);
    if (recipe.rate_changes.size() >= most_rate_changes)
      throw runtime::input_error("{} changes of the learning rate are the limit of a run",
                                 most_rate_changes);
    record.factor = x.rate / planned;
    if (!std::isfinite(record.factor) || record.factor <= 0)
      throw runtime::input_error(
          "the schedule's learning rate of step {} is {}, and no factor makes it {}; give a rate "
          "closer to it",
          record.step,
          planned,
          x.rate);
    of.recipe_.rate_changes.push_back({record.step, record.factor});
    return fmt::format("from step {} on, the learning rate is the schedule's times {}",
                       record.step,
                       record.factor);
  }
  std::string operator()(const commands::log_level& x) const {
    runtime::set_log_level(severity_of(x.level));
    return fmt::format("the console shows messages of severity '{}' and above", x.level);
  }
  std::string operator()(const commands::eval_interval& x) const {
    of.require_validation();
    of.control_.eval_interval = x.steps;
    return x.steps == 0 ? "no more evaluations" : fmt::format("evaluating every {} steps", x.steps);
  }
  std::string operator()(const commands::save_interval& x) const {
    if (of.run_.job->job.checkpoints.save.empty())
      throw runtime::input_error("this run has no folder to save into (`checkpoints.save`)");
    of.saves_.change_interval(x.steps);
    return x.steps == 0 ? "saving only at the end" : fmt::format("saving every {} steps", x.steps);
  }
  std::string operator()(const commands::replace& x) const {
    const auto process = of.process_named(x.worker);
    of.checks_.doubt(process, of.run_.at.iteration, "replaced by a command", process_loss::moves);
    return fmt::format("process {} will be replaced once its states are kept elsewhere", process);
  }
  std::string operator()(const commands::stop_after& x) const {
    if (x.step <= of.run_.at.iteration)
      throw runtime::input_error(
          "step {} is done, and the newest step is {}; give a later step, or `stop`",
          x.step,
          of.run_.at.iteration);
    of.control_.stops_after = x.step;
    return fmt::format("the run ends after step {}", x.step);
  }
  std::string operator()(const commands::stop&) const {
    of.control_.stops_after = of.run_.at.iteration;
    return fmt::format("the run ends after step {}", of.run_.at.iteration);
  }
  std::string operator()(const commands::trace& x) const {
    of.control_.timed_until = of.run_.at.iteration + x.steps;
    return fmt::format(
        "steps {} to {} report their timelines", of.run_.at.iteration + 1, of.control_.timed_until);
  }
  std::string operator()(const commands::norms& x) const {
    const auto& names = of.control_.parameters;
    const auto found = names.lower_bound(x.of);
    if (!names.empty() && (found == names.end() || !found->starts_with(x.of)))
      throw runtime::input_error(
          "no parameter has a name that begins with '{}'; give another beginning, such as '{}'",
          x.of,
          *names.begin());
    of.control_.norms_of = x.of;
    of.control_.norms_until = of.run_.at.iteration + x.steps;
    return fmt::format("steps {} to {} report the gradient norms of '{}'",
                       of.run_.at.iteration + 1,
                       of.control_.norms_until,
                       x.of);
  }
};

commander::commander(supervisor_parts& all)
    : supervisor_part(all), recipe_(run_.job->job.training) {
  control_.eval_interval = run_.job->job.watch.eval_interval;
}

void commander::take_up() {
  take_up_commands();
  wait_for_commands();
}

commander::~commander() {
  if (run_.context->commands)
    run_.context->commands->no_longer_wakes(this);
}

bool commander::is_at_rest() const {
  return control_.paused && steps_.begun() && !steps_.is_running() && !saves_.is_writing()
         && !saves_.is_abandoning();
}

std::string commander::status_text() const {
  return fmt::format(
      "{}: step {} of {} is committed{}{}",
      run_.shown == nullptr ? "starting" : run_.shown,
      run_.at.iteration,
      run_.job->job.train_iterations,
      control_.paused && !is_at_rest() ? ", pauses after it" : "",
      control_.stops_after ? fmt::format(", ends after step {}", *control_.stops_after) : "");
}

void commander::require_validation() const {
  if (!run_.told.validates || run_.job->job.watch.eval_batches <= 0)
    throw runtime::input_error(
        "this run began without validation: it needs validation data, and `watch.eval_interval` "
        "and `watch.eval_batches` above 0");
}

// Accepts the names of processes, replicas and stages.
int commander::process_named(const std::string& worker) const {
  if (!run_.keeps())
    throw runtime::input_error(
        "a worker can be replaced only in a run of several processes with recovery "
        "(`layout.processes`, `recovery.on`)");
  for (int p = 0; p < run_.processes(); ++p)
    if (worker == fmt::format("node-{}", p))
      return p;
  for (int r = 0; r < run_.job->replicas(); ++r) {
    if (worker == fmt::format("replica:{}", r))
      return run_.process_of(r, 0);
    for (int s = 0; s < run_.job->seats.stages(); ++s)
      if (worker == run_.name_of_stage(r, s))
        return run_.process_of(r, s);
  }
  throw runtime::input_error(
      "unknown worker '{}'; give a process, such as node-0, or a stage, such as stage:0.0", worker);
}

// CONTROL-1. Repeats an evaluation if no later step has been committed, and a save if no checkpoint
// of that step or a later one is complete.
void commander::take_up_commands() {
  const auto newest = run_.context->ledger->newest();
  const auto saved = run_.context->ledger->newest_saved().value_or(run_.told.iteration);
  for (const auto& x : run_.context->ledger->commands()) {
    const bool is_due = x.step == newest + 1;
    if (const auto* const interval = std::get_if<commands::save_interval>(&x.what))
      saves_.change_interval(interval->steps);
    else if (const auto* const every = std::get_if<commands::eval_interval>(&x.what))
      control_.eval_interval = every->steps;
    else if (std::holds_alternative<commands::learning_rate>(x.what))
      recipe_.rate_changes.push_back({x.step, x.factor});
    else if (std::holds_alternative<commands::pause>(x.what))
      control_.paused = true;
    else if (std::holds_alternative<commands::resume>(x.what))
      control_.paused = false;
    else if (const auto* const after = std::get_if<commands::stop_after>(&x.what))
      control_.stops_after = after->step;
    else if (std::holds_alternative<commands::stop>(x.what))
      control_.stops_after = x.step - 1;
    else if (const auto* const level = std::get_if<commands::log_level>(&x.what))
      runtime::set_log_level(severity_of(level->level));
    else if (const auto* const traced = std::get_if<commands::trace>(&x.what))
      control_.timed_until = x.step - 1 + traced->steps;
    else if (const auto* const norms = std::get_if<commands::norms>(&x.what))
      control_.norms_of = norms->of, control_.norms_until = x.step - 1 + norms->steps;
    else if (std::holds_alternative<commands::save>(x.what) && x.step > saved + 1)
      static_cast<void>(saves_.ask(newest));
    else if (std::holds_alternative<commands::evaluate>(x.what) && is_due)
      control_.evaluates = run_.context->ledger->newest_validated() != newest;
  }
  if (control_.paused)
    runtime::log_info(" the run is paused by a command; `troupe ctl resume` continues it");
}

void commander::wait_for_commands() {
  if (!run_.context->commands)
    return;
  run_.context->commands->on_order(
      this, [tell = outside_sender(messages::supervisor_actor(run_.self), run_.context->messages)] {
        tell(messages::commands_wait{});
      });
}

void commander::receive(const messages::commands_wait& x) {
  for (const auto& question : run_.context->commands->take_questions())
    question.answer({.done = true, .message = status_text()});
  if (x.by_clock) {
    control_.looks_at_clock = false;
    if (control_.paused)
      steps_.look_at_clock();
  }
  steps_.proceed();
}

// While committed steps run again, commands wait (CONTROL-2).
void commander::take_commands() {
  if (!run_.context->commands || run_.replays())
    return;
  while (const auto order = run_.context->commands->take()) {
    const auto answer = steps_.is_concluding() || steps_.is_shut_down()
                            ? command_answer{.done = false, .message = "the run is ending"}
                            : carry_out(*order);
    if (order->answer)
      order->answer(answer);
  }
}

// Begins no step. The time limit of the run, `exit_minutes`, also counts during a pause.
void commander::pause() {
  run_.show("paused");
  if (run_.job->job.exit_minutes > 0 && !std::exchange(control_.looks_at_clock, true))
    run_.send_to_self_later(between_looks_in_pause, messages::commands_wait{.by_clock = true});
}

command_answer commander::carry_out(const command_desk::order& x) {
  runtime::ledger::commanded record{.step = run_.at.iteration + 1, .what = x.what, .by = x.by};
  command_answer out{.done = true, .message = {}};
  try {
    out.message = std::visit(command_reader{*this, record}, x.what);
  } catch (const runtime::input_error& refusal) {
    return {
        .done = false,
        .message = fmt::format("'{}' is refused: {}", runtime::name_of(x.what), refusal.what())};
  }
  if (!runtime::is_kept(x.what))
    return out;
  run_.pen()->command(record);
  runtime::log_info(" command of {}: {}; {}", x.by, runtime::text_of(x.what), out.message);
  if (run_.context->records)
    show(*run_.context->records, record);
  return out;
}

// Votes carry norms of the scaled loss. One factor converts them all to the scale of `grad_norm`.
void commander::show_norms(const runtime::square_norms& all, double grad_norm) {
  if (control_.parameters.empty())
    for (const auto& [name, sum] : all)
      control_.parameters.insert(name);
  if (!run_.context->records || run_.at.iteration >= control_.norms_until)
    return;
  const auto total = runtime::total_norm(all);
  std::map<std::string, double> of;
  for (const auto& [name, sum] : all)
    if (name.starts_with(control_.norms_of))
      of[name] = total > 0 ? std::sqrt(sum.value()) * (grad_norm / total) : 0;
  const auto bytes = of.size() * bytes_of_norm;
  run_.context->records->add_sample(
      "norms", "", bytes, [of = std::move(of), step = run_.at.iteration + 1] {
        return runtime::json_text(nlohmann::json{{"iteration", step}, {"gradients", of}});
      });
}

}  // namespace troupe::actors
