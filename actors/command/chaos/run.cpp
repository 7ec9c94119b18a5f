#include "actors/command/chaos/run.hpp"

#include "actors/command/chaos/blow.hpp"
#include "actors/command/chaos/started_run.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <set>
#include <thread>
#include <utility>

namespace troupe::command::chaos {
namespace {

namespace fs = std::filesystem;
using seconds = std::chrono::duration<double>;

// Extra time for a run on a slow machine, in seconds, timeouts and steps. After that it counts as
// hanging.
constexpr double shortest_patience = 60;
constexpr double patience_suspicions = 15, patience_steps = 50;
constexpr double patience_with_leftovers = 20;
// The run logs a failed write, or a refused state, within this number of steps.
constexpr std::uint64_t steps_until_told = 8;

double between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return (double(to_ns) - double(from_ns)) / 1e9;
}

/// One run, with its faults one after the other.
class disturbed_run {
 public:
  disturbed_run(const chaos_job& job,
                const fs::path& folder,
                const std::vector<disturbance>& faults,
                const reference_run& reference)
      : job_(job), reference_(reference), run_(job, folder, plants_of_all(faults)) {
    result_.number = faults.empty() ? 0 : faults.front().run;
    result_.folder = folder;
    refused_states_ = run_.times_told(trace::refused_state);
  }

  run_result go(const std::vector<disturbance>& faults,
                const std::function<void(const struck_fault&)>& tell) {
    if (run_.wait(seconds(patience()), [&] { return run_.ledger().commits() > 0; })) {
      see_who_stands();
      run_.take_down();
      for (const auto& what : faults) {
        if (given_up_)
          break;
        result_.faults.push_back(suffer(what));
        tell(result_.faults.back());
      }
    }
    conclude();
    return std::move(result_);
  }

 private:
  static std::vector<std::string> plants_of_all(const std::vector<disturbance>& faults) {
    std::vector<std::string> out;
    for (const auto& x : faults)
      out.insert(out.end(), x.plants.begin(), x.plants.end());
    return out;
  }

  double patience(std::uint64_t steps = 0) const {
    return shortest_patience + patience_suspicions * job_.suspicion
           + (patience_steps + 10 * double(steps)) * reference_.step_seconds;
  }
  bool reaches(std::uint64_t step) {
    const auto newest = run_.ledger().newest();
    return run_.wait(seconds(patience(step > newest ? step - newest : 0)),
                     [&] { return run_.ledger().newest() >= step; });
  }
  /// Reports a violation after which no more faults can strike.
  void give_up(struck_fault& x, const std::string& why) {
    x.wrong.push_back(why);
    given_up_ = true;
  }

  void see_who_stands() {
    stood_.all = run_.standing_now();
    stood_.ns = now_ns();
  }

  struck_fault suffer(const disturbance& what) {
    struck_fault x{.what = what, .victim = what.actor};
    // A planted fault strikes by itself, perhaps before this program looks again. So the processes
    // are compared with those after the previous fault.
    auto before = stood_.all;
    const auto looked = stood_.ns;
    if (!reaches(what.is_planted() && what.step > 1 ? what.step - 2 : what.step)) {
      give_up(x, fmt::format("the run did not reach iteration {}: {}", what.step, how_it_stands()));
      return x;
    }
    if (!what.is_planted()) {
      see_who_stands();
      before = stood_.all;
    }
    told_before_ = what.is_planted() ? refused_states_ : run_.times_told(trace_of(what));
    std::uint64_t began = 0;
    if (!(what.is_planted() ? await(x, began) : strike(x, before, began)))
      return x;
    if (!goes_on(what, began)) {
      give_up(x, "no step was committed after the fault: " + how_it_stands());
      return x;
    }
    if (const auto* const its = recovery_from(what, began))
      note_times(x, *its, began);
    x.processes_seen = !what.is_planted() || looked < began;
    look_at_survivors(x, before);
    x.had_effect = !x.replaced_ones.empty() || leaves_trace(what, began);
    // The supervisor notices at once that an actor throws, but perhaps never that it hangs.
    if (!x.had_effect && what.kind == fault_kind::raise)
      x.wrong.push_back("the ledger has no replacement of " + x.victim);
    if (trace_of(what) == trace::refused_state)
      refused_states_ = run_.times_told(trace::refused_state);
    return x;
  }

  static trace trace_of(const disturbance& what) { return chaos::trace_of(what.kind, what.who); }

  /// The restart that the fault caused, once a new step has followed; null: none yet.
  const seen_recovery* recovery_from(const disturbance& what, std::uint64_t began) const {
    const auto& all = run_.ledger().recoveries();
    const bool at_end = run_.ledger().newest() >= reference_.last();
    const auto found = std::find_if(all.begin(), all.end(), [&](const seen_recovery& one) {
      if (!one.first_new && !(at_end && &one == &all.back()))
        return false;
      // A fault during the recovery from another death is not reported separately.
      return one.event.news_ns >= began
             || (one.seen_ns >= began && one.first_new.value_or(what.step) >= what.step);
    });
    return found == all.end() ? nullptr : &*found;
  }

  /// True if the ledger and the logs show an effect of the fault by now.
  bool leaves_trace(const disturbance& what, std::uint64_t began) const {
    const auto by = trace_of(what);
    const auto& all = run_.ledger().successors();
    const auto is_its = [&](const seen_successor& one) {
      return one.seen_ns >= began
             && one.event.who.substr(0, one.event.who.find(':')) == row_of(what.who).name;
    };
    switch (by) {
      case trace::certain:
        return true;
      case trace::refused_state:
        return run_.times_told(by) > told_before_;
      case trace::restart:
        return recovery_from(what, began) != nullptr;
      case trace::successor:
        return recovery_from(what, began) != nullptr || std::any_of(all.begin(), all.end(), is_its);
      case trace::refused_write:
        return recovery_from(what, began) != nullptr || run_.times_told(by) > told_before_;
    }
    return true;
  }

  bool strike(struck_fault& x, const standing_processes& before, std::uint64_t& began) {
    runtime::process_id whom;
    if (is_link(x.what.kind)) {
      x.victim = "link";
      if (run_.exit_code()) {
        give_up(x, "the run was over before the link was cut: " + how_it_stands());
        return false;
      }
    } else if (const auto victim = victim_of(x.what, before)) {
      x.victim = *victim;
      whom = before.at(*victim);
      x.pid = whom.pid;
    } else {
      give_up(x, fmt::format("no {} is running", row_of(x.what.who).name));
      return false;
    }
    std::this_thread::sleep_for(seconds(x.what.delay * reference_.step_seconds));
    run_.look();
    x.committed = run_.ledger().newest();
    if (x.what.who == role::front && row_of(x.what.kind).ends_process)
      run_.without_front();
    if (const auto why = chaos::carry_out(x.what, whom, job_, run_, reference_, began);
        !why.empty()) {
      give_up(x, why);
      return false;
    }
    x.at = between(*run_.ledger().first_ns(), began);
    return true;
  }

  /// Waits until the planted fault has struck.
  bool await(struck_fault& x, std::uint64_t& began) {
    const auto struck = [&] {
      began = run_.struck_at(x.what.plants.front()).value_or(0);
      return began > 0;
    };
    // Allows some steps more, since checkpoints are written beside training.
    constexpr std::uint64_t steps_late = 20;
    const auto over = [&] { return struck() || run_.ledger().newest() > x.what.step + steps_late; };
    run_.wait(seconds(patience(4)), over);
    x.committed = run_.ledger().newest();
    if (!struck()) {
      give_up(
          x,
          fmt::format(
              "the planted death {} did not strike: {}", x.what.plants.front(), how_it_stands()));
      return false;
    }
    x.at = between(*run_.ledger().first_ns(), began);
    return true;
  }

  bool goes_on(const disturbance& what, std::uint64_t began) {
    const auto& ledger = run_.ledger();
    if (restart_after(what.kind, what.who) == restart_is::due)
      return run_.wait(seconds(patience(4)), [&] { return recovery_from(what, began) != nullptr; });
    // The running step may be committed before the fault is detected.
    const auto target = std::min(ledger.newest() + 2, reference_.last());
    const auto settled = [&] {
      const auto& all = ledger.recoveries();
      return ledger.newest() >= target
             && (all.empty() || all.back().first_new || ledger.newest() >= reference_.last());
    };
    const auto by = trace_of(what);
    const auto told = [&] {
      const bool is_refused = by == trace::refused_write || by == trace::refused_state;
      return by == trace::certain || by == trace::restart
             || (is_refused && ledger.newest() >= target + steps_until_told)
             || leaves_trace(what, began);
    };
    return run_.wait(seconds(patience(4)), [&] { return settled() && told(); }) || settled();
  }

  void note_times(struck_fault& x, const seen_recovery& seen, std::uint64_t began) {
    const auto& event = seen.event;
    x.why = event.who + ": " + event.why;
    if (restart_after(x.what.kind, x.what.who) == restart_is::wrong)
      x.wrong.push_back("all ranks restarted without a death: " + x.why);
    // The restart may belong to an earlier death, with this fault planted in its recovery.
    if (event.news_ns >= began)
      x.detect = between(began, event.news_ns);
    x.release = event.release;
    x.respawn = event.respawn;
    x.transfer = event.transfer;
    x.rebuild = event.rebuild;
    x.resumed_from = event.resumed;
    x.replayed = seen.replayed;
    x.again = seen.replayed + 1;
    const auto back = event.iteration - std::min(event.iteration, event.resumed);
    x.lost = back - std::min(back, seen.replayed);
    if (!seen.first_new_ns)
      return;
    x.first_new = between(began, *seen.first_new_ns);
    x.replay = between(event.news_ns, *seen.first_new_ns) - event.seconds;
  }

  void look_at_survivors(struck_fault& x, standing_processes before) {
    if (leaves_nobody(x.what.kind, x.what.who))
      before.erase(x.victim);
    standing_processes after;
    const bool all_stand = run_.wait(seconds(patience()), [&] {
      see_who_stands();
      after = stood_.all;
      return std::all_of(
          before.begin(), before.end(), [&](const auto& one) { return after.contains(one.first); });
    });
    if (!all_stand && run_.exit_code()) {  // the run ended: processes without entry are unknown
      after = last_seen(run_.folder());
      std::erase_if(before, [&](const auto& one) {
        return one.first == "front" || one.first.starts_with("agent-")
               || (one.first.starts_with("node-") && !job_.node_folders.empty());
      });
    }
    run_.take_down();
    x.replaced_ones = replaced_between(before, after);
    for (const auto& [name, process] : before)
      if (std::find(x.replaced_ones.begin(), x.replaced_ones.end(), name) == x.replaced_ones.end())
        x.survivors.push_back(name);
    const auto allowed = allowed_after(x.what.kind, x.what.who);
    for (const auto& text : survivors_lost(x.replaced_ones, allowed, x.victim))
      x.wrong.push_back("CHAOS-4: " + text);
    const bool is_known = x.what.is_planted() || before.contains(x.victim);
    if (x.processes_seen && is_known && is_replaced_after(x.what.kind, x.what.who))
      for (const auto& text : victim_kept(x.replaced_ones, allowed, x.victim))
        x.wrong.push_back(text);
  }

  std::string how_it_stands() {
    if (const auto code = run_.exit_code())
      return fmt::format("the run ended with exit code {}{}{}",
                         *code,
                         run_.reason().empty() ? "" : ": ",
                         run_.reason());
    return fmt::format("it still runs, at iteration {}", run_.ledger().newest());
  }

  void conclude() {
    for (bool waits = !given_up_; waits && !run_.exit_code();) {
      const auto newest = run_.ledger().newest();
      waits = run_.wait(seconds(patience()), [&] { return run_.ledger().newest() != newest; });
    }
    const auto code = run_.exit_code();
    result_.exit_code = code.value_or(-1);
    if (!code)
      result_.ended.push_back("killed, because it made no progress: " + how_it_stands());
    else if (*code != 0)
      result_.ended.push_back(how_it_stands());
    if (run_.ledger().first_ns()) {
      result_.seconds = between(*run_.ledger().first_ns(), run_.ledger().newest_ns());
      result_.steps = run_.ledger().commits();
    }
    for (const auto& one : run_.ledger().moves()) {
      ++result_.moves;
      result_.replayed_by_moves += one.replayed;
    }
    if (code)
      judge();
  }

  void judge() {
    const bool stands = run_.ledger().commits() > 0;
    std::vector<logged_step> log;
    try {
      log = read_log(run_.log());
      result_.digest = log.back().digest;
    } catch (const runtime::error& failure) {
      result_.log.emplace_back(failure.what());
    }
    if (stands)
      result_.left = leftovers(run_.footprint(),
                               run_.folder().record().id,
                               run_.run(),
                               run_.save(),
                               run_.temporary(),
                               job_.node_folders,
                               patience_with_leftovers + job_.suspicion);
    const bool undisturbed = reference_.log.empty();
    if (log.empty())
      return;
    const auto first = undisturbed ? log.front().iteration : reference_.first();
    const auto last = undisturbed ? log.back().iteration : reference_.last();
    result_.log = log_is_wrong(log, first, last);
    result_.ledger = ledger_is_wrong(run_.ledger_file(), last);
    if (undisturbed)
      return;
    result_.state = digests_differ(log, reference_.log);
    if (!reference_.save.empty())
      result_.checkpoint = checkpoints_differ(run_.save(), reference_.save);
  }

  const chaos_job& job_;
  const reference_run& reference_;
  started_run run_;
  run_result result_;
  struct {
    standing_processes all;
    std::uint64_t ns = 0;           ///< time of the snapshot
  } stood_;                         ///< processes after the previous fault
  std::size_t told_before_ = 0;     ///< log lines with the fault's trace before it
  std::size_t refused_states_ = 0;  ///< such lines of earlier faults and runs
  bool given_up_ = false;           ///< no more faults can strike
};

}  // namespace

bool run_result::holds() const {
  return all_wrong().empty();
}

sentences run_result::all_wrong() const {
  sentences out;
  const auto add = [&](const char* oracle, const sentences& some) {
    for (const auto& x : some)
      out.push_back(fmt::format("{}: {}", oracle, x));
  };
  add("the run", ended);
  add("CHAOS-1, state", state);
  add("CHAOS-1, checkpoint", checkpoint);
  add("CHAOS-2, ledger", ledger);
  add("CHAOS-3, log", log);
  for (const auto& x : faults)
    add(fmt::format("fault {}", x.what.number).c_str(), x.wrong);
  add("CHAOS-5", left);
  return out;
}

reference_run read_reference(const fs::path& log) {
  reference_run out{.log = read_log(log)};
  std::error_code none;
  const auto save = log.parent_path() / "save";
  if (fs::exists(save, none))
    out.save = save;
  std::vector<double> times;
  for (const auto& x : out.log)
    times.push_back(x.elapsed_ms / 1e3);
  const auto middle = times.begin() + std::ptrdiff_t(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  out.step_seconds = *middle;
  return out;
}

run_result run_undisturbed(const chaos_job& job, const fs::path& folder) {
  const reference_run none;
  return disturbed_run(job, folder, {}, none).go({}, [](const struck_fault&) {});
}

run_result run_disturbed(const chaos_job& job,
                         const fs::path& folder,
                         const std::vector<disturbance>& faults,
                         const reference_run& reference,
                         const std::function<void(const struck_fault&)>& tell) {
  return disturbed_run(job, folder, faults, reference).go(faults, tell);
}

}  // namespace troupe::command::chaos
