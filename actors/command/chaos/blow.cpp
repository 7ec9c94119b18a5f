#include "actors/command/chaos/blow.hpp"

#include "runtime/core/log.hpp"
#include "runtime/process/disturbance.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <thread>
#include <vector>

namespace troupe::command::chaos {
namespace {

using seconds = std::chrono::duration<double>;
using std::chrono::milliseconds;

constexpr int times_slower = 10;
constexpr std::uint64_t steps_with_room = 5;  ///< at the end of the run

/// True if steps have stopped, so the process has needed memory. It then gets its memory back:
/// otherwise the run could not recover.
bool stands_still(const started_run& run, double step_seconds) {
  constexpr double shortest = 0.5, steps = 20;
  return double(now_ns() - run.ledger().newest_ns()) / 1e9
         > std::max(shortest, steps * step_seconds);
}

std::string by_shell(const std::string& command) {
  const int how = std::system(command.c_str());
  return how == 0 ? "" : fmt::format("'{}' ended with {}", command, how);
}

/// Cuts a link for `time`, then heals it, also after an error and after an exception from `wait`
/// (this program is asked to end).
std::string cut_and_heal(const std::string& cut,
                         const std::string& heal,
                         double time,
                         const runtime::may_wait& wait) {
  auto why = by_shell(cut);
  try {
    const auto end = std::chrono::steady_clock::now() + seconds(time);
    while (why.empty() && std::chrono::steady_clock::now() < end && wait())
      std::this_thread::sleep_for(milliseconds(10));
  } catch (...) {
    if (const auto then = by_shell(heal); !then.empty())
      runtime::log_error("cannot restore the link that was cut: {}", then);
    throw;
  }
  const auto then = by_shell(heal);
  return why.empty() ? then : why;
}

}  // namespace

std::optional<std::string> victim_of(const disturbance& what, const standing_processes& all) {
  std::vector<std::string> names;
  const std::string wanted(row_of(what.who).name);
  for (const auto& [name, process] : all)
    if (name == wanted || name.starts_with(wanted + "-"))
      names.push_back(name);
  if (names.empty())
    return std::nullopt;
  return names[std::min(std::size_t(what.choice * double(names.size())), names.size() - 1)];
}

std::string carry_out(const disturbance& what,
                      const runtime::process_id& whom,
                      const chaos_job& job,
                      started_run& run,
                      const reference_run& undisturbed,
                      std::uint64_t& began_ns) {
  const double step_seconds = undisturbed.step_seconds;
  const runtime::may_wait look = [&run] {
    run.look();
    return true;
  };
  const auto signalled = [&](int number) -> std::string {
    return runtime::strike(whom, number) ? "" : "the process ended before it was struck";
  };
  const double lasts = seconds_of(what.kind, job.suspicion, step_seconds);
  const auto time = std::chrono::duration_cast<milliseconds>(seconds(lasts));
  began_ns = now_ns();
  switch (what.kind) {
    case fault_kind::sigkill:
      return signalled(SIGKILL);
    case fault_kind::sigsegv:
      return signalled(SIGSEGV);
    case fault_kind::abort:
      return signalled(SIGABRT);
    case fault_kind::sigstop:
    case fault_kind::pause:
      runtime::hold_still(whom, time, look);
      return {};
    case fault_kind::slow:
      runtime::slow_down(whom, times_slower, time, look);
      return {};
    case fault_kind::out_of_memory:
      return runtime::make_scarce(whom, runtime::scarce::memory, {}, time, [&] {
        return look() && !stands_still(run, step_seconds);
      });
    case fault_kind::disk_full:
    case fault_kind::short_write: {
      // Ends the fault once a write has failed, or shortly before the end of the run: its last
      // steps need the space.
      const auto told = run.times_told(trace::refused_write);
      return runtime::make_scarce(
          whom,
          what.kind == fault_kind::disk_full ? runtime::scarce::disk : runtime::scarce::last_bytes,
          run.ledger_file().string(),
          time,
          [&, told] {
            return look() && run.times_told(trace::refused_write) == told
                   && run.ledger().newest() + steps_with_room < undisturbed.last();
          });
    }
    case fault_kind::link_down:
      return cut_and_heal(job.cut, job.heal, lasts, look);
    case fault_kind::one_way:
      return cut_and_heal(job.cut_one_way, job.heal_one_way, lasts, look);
    case fault_kind::exit:
    case fault_kind::raise:
    case fault_kind::hang:
    case fault_kind::flipped_bits:
    case fault_kind::flipped_moment:
    case fault_kind::flipped_second_moment:
      break;
  }
  return "chaos cannot cause this fault from outside: the program plants it";
}

}  // namespace troupe::command::chaos
