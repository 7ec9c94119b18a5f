// The part of agent_state that replaces the supervisor process.

#include "runtime/core/error.hpp"
#include "runtime/process/agent_state.hpp"
#include "runtime/process/run_succession.hpp"

#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

using namespace agent_action;

constexpr int slices_of_silence = 5;
constexpr int most_failures = 3;  ///< in a row

}  // namespace

// One process at a time: two successors would lead the same run.
std::string agent_state::why_no_succession(peer_id who, const succeed_owner& x) const {
  const auto& now = succession_;
  switch (now.for_what) {
    case awaits::nothing:
      return {};
    case awaits::sign:
      if (now.by == who)
        return {};
      return fmt::format("process {} is the run's supervisor process and still runs",
                         now.what.process.pid);
    case awaits::successor:
      if (const auto found = known_.find(successor_name);
          found != known_.end() && found->second.process == x.process)
        return {};
      [[fallthrough]];
    case awaits::its_end:
    case awaits::free_name:
      break;
  }
  return fmt::format("the agent is starting a successor of process {}", now.what.process.pid);
}

agent_actions agent_state::carry_out(peer_id who, const succeed_owner& x) {
  if (auto why = why_no_succession(who, x); !why.empty())
    return {answer{who, request_refused{.request = x.request, .why = std::move(why)}}};
  const bool anew = succession_.for_what != awaits::sign;
  succession_ = {.for_what = awaits::sign, .what = x, .by = who};
  agent_actions out;
  if (anew) {
    out.push_back(promise{true});
    out.push_back(say{fmt::format(
        "process {} is the run's supervisor process; the agent will start its successor",
        x.process.pid)});
  }
  out.push_back(answer{who, succession_agreed{x.request}});
  return out;
}

agent_actions agent_state::carry_out(peer_id, const owner_still_there&) const {
  return {};  // agent_state::asked has reset the silence
}

std::chrono::nanoseconds agent_state::slice() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(succession_.what.silence / slices_of_silence));
}

// The first slice after a heartbeat may be short and does not count. A late call counts one slice:
// the agent may have been stopped itself, with heartbeats still unread.
agent_actions agent_state::hear_silence(time now) {
  auto& x = succession_;
  if (x.for_what == awaits::its_end && x.slice_ends && now >= *x.slice_ends) {
    x.slice_ends.reset();
    return {fence{x.what.process}};
  }
  if (x.for_what != awaits::sign)
    return {};
  if (!x.slice_ends) {
    x.slice_ends = now + slice();
  } else if (now >= *x.slice_ends) {
    x.slice_ends = now + slice();
    if (++x.silent > slices_of_silence)
      return owner_gone(fmt::format("it sent no heartbeat for {} s", x.what.silence), now);
  }
  return {};
}

agent_actions agent_state::owner_gone(const std::string& how, time now) {
  if (why_ending_)
    return {};
  succession_.for_what = awaits::its_end;
  succession_.gone = now;
  succession_.slice_ends.reset();
  return {say{fmt::format(
              "process {}, the run's supervisor process, is gone ({}); starting a successor",
              succession_.what.process.pid,
              how)},
          fence{succession_.what.process}};
}

agent_actions agent_state::fenced() {
  if (why_ending_ || succession_.for_what != awaits::its_end)
    return {};
  succession_.failed = 0;
  return start_successor();
}

agent_actions agent_state::not_fenced(const std::string& why, time now) {
  if (why_ending_ || succession_.for_what != awaits::its_end)
    return {};
  if (++succession_.failed >= most_failures)
    return give_up("cannot find out whether it has ended: " + why);
  succession_.slice_ends = now + slice();
  return {say{fmt::format("cannot find out whether process {} has ended; trying again: {}",
                          succession_.what.process.pid,
                          why)}};
}

// AGENT-4: called only after `fenced`, and while no earlier successor runs.
agent_actions agent_state::start_successor() {
  const auto& what = succession_.what;
  succession_.for_what = awaits::free_name;
  const auto found = known_.find(successor_name);
  if (found != known_.end() && !found->second.ended)
    return {};  // its death was not reported yet
  const auto which = found == known_.end() ? 1 : found->second.which + 1;
  auto environment = what.environment;
  environment.push_back(told_when_gone(succession_.gone));
  return {start{agent_itself,
                {.request = 0,
                 .name = successor_name,
                 .which = which,
                 .command = what.command,
                 .environment = std::move(environment),
                 .output = what.output}}};
}

agent_actions agent_state::successor_failed(const std::string& how) {
  if (why_ending_)
    return {};
  if (++succession_.failed < most_failures)
    return start_successor();
  return give_up(
      fmt::format("{} in a row have failed; the last failure: {}", succession_.failed, how));
}

agent_actions agent_state::give_up(const std::string& why) {
  succession_.for_what = awaits::nothing;
  if (owners_.empty())
    alone_since_.reset();
  return {
      promise{false},
      say{fmt::format(
          "starting no further successor of process {}: {}", succession_.what.process.pid, why)}};
}

agent_actions agent_state::successor_died(const known_process& it, time now) {
  if (why_ending_)
    return {};
  switch (succession_.for_what) {
    case awaits::successor:
      return successor_failed(text_of(*it.ended));
    case awaits::free_name:
      return start_successor();
    case awaits::sign:
      if (succession_.what.process == it.process)
        return owner_gone(text_of(*it.ended), now);
      break;
    case awaits::nothing:
    case awaits::its_end:
      break;
  }
  return {};
}

}  // namespace troupe::runtime
