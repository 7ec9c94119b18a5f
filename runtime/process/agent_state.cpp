#include "runtime/process/agent_state.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

using namespace agent_action;

agent_actions refused(peer_id who, std::uint64_t request, std::string why) {
  return {answer{who, request_refused{.request = request, .why = std::move(why)}}};
}

}  // namespace

agent_actions agent_state::joined(peer_id who) {
  agent_actions out;
  if (strangers_.size() + owners_.size() >= settings_.most_peers) {
    // A silent peer gives way to a new one; an owner stays.
    const bool full = strangers_.empty();
    const auto whom = full ? who : *strangers_.begin();
    strangers_.erase(whom);
    out.push_back(hang_up{whom});
    if (full)
      return out;
  }
  strangers_.insert(who);
  return out;
}

agent_actions agent_state::asked(peer_id who, const agent_request& what) {
  strangers_.erase(who);
  owners_.insert(who);
  alone_since_.reset();
  if (why_ending_)
    return refused(who, number_of(what), "the agent is ending: " + *why_ending_);
  if (who == succession_.by)
    succession_.silent = 0;
  return std::visit([&](const auto& x) { return carry_out(who, x); }, what);
}

agent_actions agent_state::misbehaved(peer_id who, const std::string& why) {
  agent_actions out = refused(who, 0, why);
  out.push_back(hang_up{who});
  constexpr std::size_t most_complaints = 100;
  if (complaints_.size() < most_complaints && complaints_.insert(why).second)
    out.push_back(say{"a connection was closed (logged once): " + why});
  return out;
}

agent_actions agent_state::left(peer_id who, time now) {
  strangers_.erase(who);
  if (owners_.erase(who) > 0 && owners_.empty())
    alone_since_ = now;
  std::erase_if(next_, [who](const auto& one) { return one.second.asker == who; });
  if (succession_.for_what == awaits::sign && succession_.by == who)
    return owner_gone("its connection has ended", now);
  return {};
}

std::string agent_state::why_no_more(const std::string& name) const {
  const auto found = known_.find(name);
  if (found != known_.end() && !found->second.ended)
    return fmt::format("'{}' runs already, as process {}", name, found->second.process.pid);
  if (found == known_.end() && known_.size() >= settings_.most_names)
    return fmt::format("there are {} names already, the maximum; reuse one of them",
                       settings_.most_names);
  return {};
}

const known_process& agent_state::begins(const std::string& name,
                                         incarnation which,
                                         const process_id& as) {
  auto& known = known_[name];
  ensure(known.which == 0 || known.ended,
         "AGENT-1: an incarnation begins after the one before has ended");
  known = {.name = name, .which = which, .process = as, .ended = {}};
  return known;
}

agent_actions agent_state::carry_out(peer_id who, const start_process& x) {
  const auto found = known_.find(x.name);
  if (found != known_.end() && !found->second.ended && found->second.which < x.which) {
    agent_actions out;
    if (const auto before = next_.extract(x.name))
      out = refused(before.mapped().asker,
                    before.mapped().what.request,
                    fmt::format("incarnation {} starts instead", x.which));
    next_.emplace(x.name, start{who, x});
    return out;
  }
  if (auto why = why_no_more(x.name); !why.empty())
    return refused(who, x.request, std::move(why));
  return {start{who, x}};
}

agent_actions agent_state::started(const start& what, const process_id& process) {
  const auto& known = begins(what.what.name, what.what.which, process);
  agent_actions out;
  if (what.asker == agent_itself) {
    succession_.for_what = awaits::successor;
    if (owners_.empty())
      alone_since_.reset();
  } else {
    out.push_back(answer{what.asker,
                         process_started{.request = what.what.request,
                                         .name = known.name,
                                         .which = known.which,
                                         .process = process}});
  }
  out.push_back(say{fmt::format(
      "started '{}', incarnation {}, as process {}", known.name, known.which, process.pid)});
  return out;
}

agent_actions agent_state::not_started(const start& what, const std::string& why) {
  if (what.asker == agent_itself)
    return successor_failed(why);
  return refused(what.asker, what.what.request, why);
}

agent_actions agent_state::carry_out(peer_id who, const adopt_process& x) {
  if (auto why = why_no_more(x.name); !why.empty())
    return refused(who, x.request, std::move(why));
  const auto found = known_.find(x.name);
  if (found != known_.end() && found->second.which >= x.which)
    return refused(who,
                   x.request,
                   fmt::format("incarnation {} of '{}' is known, and has ended", x.which, x.name));
  return {adopt{who, x}};
}

agent_actions agent_state::adopted(const adopt& what) {
  const auto& known = begins(what.what.name, what.what.which, what.what.process);
  return {answer{what.asker,
                 process_started{.request = what.what.request,
                                 .name = known.name,
                                 .which = known.which,
                                 .process = known.process}},
          say{fmt::format("adopted '{}', incarnation {}, which is process {}",
                          known.name,
                          known.which,
                          known.process.pid)}};
}

agent_actions agent_state::not_adopted(const adopt& what, const std::string& why) {
  return refused(what.asker, what.what.request, why);
}

agent_actions agent_state::carry_out(peer_id who, const signal_process& x) const {
  const auto found = known_.find(x.name);
  if (found == known_.end())
    return refused(who, x.request, fmt::format("there is no '{}'", x.name));
  const auto& known = found->second;
  if (known.which != x.which || known.ended)
    return refused(who,
                   x.request,
                   fmt::format("incarnation {} of '{}' does not run: the newest is {}{}",
                               x.which,
                               x.name,
                               known.which,
                               known.ended ? ", which has ended (" + text_of(*known.ended) + ")"
                                           : std::string()));
  return {agent_action::signal{who, x, known.process}};
}

agent_actions agent_state::signalled(const agent_action::signal& what) const {
  return {answer{what.asker, process_signalled{what.what.request}}};
}

agent_actions agent_state::not_signalled(const agent_action::signal& what,
                                         const std::string& why) const {
  return refused(what.asker, what.what.request, why);
}

agent_actions agent_state::carry_out(peer_id who, const list_processes& x) const {
  processes_listed out{.request = x.request, .processes = {}};
  for (const auto& [name, known] : known_)
    out.processes.push_back(known);
  return {answer{who, std::move(out)}};
}

// A supervisor process that this agent started must still record how the run ended.
agent_actions agent_state::carry_out(peer_id who, const end_agent&) {
  const auto found = known_.find(successor_name);
  if (succession_.for_what == awaits::sign && succession_.by == who && found != known_.end()
      && !found->second.ended && found->second.process == succession_.what.process)
    spared_ = successor_name;
  return end("it was asked to end");
}

agent_actions agent_state::died(const std::string& name, const process_end& how, time now) {
  const auto found = known_.find(name);
  ensure(found != known_.end() && !found->second.ended, "AGENT-1: a death is reported once");
  auto& known = found->second;
  known.ended = how;
  auto out = told_to_all(
      process_died{.name = name, .which = known.which, .process = known.process, .how = how});
  out.push_back(say{fmt::format("'{}', incarnation {}, process {}, has ended: {}",
                                name,
                                known.which,
                                known.process.pid,
                                text_of(how))});
  if (auto next = next_.extract(name); next && !why_ending_)
    out.emplace_back(std::move(next.mapped()));
  if (name == successor_name)
    for (auto& one : successor_died(known, now))
      out.push_back(std::move(one));
  return out;
}

agent_actions agent_state::told_to_end(const std::string& why) {
  return end(why);
}

agent_actions agent_state::time_is(time now) {
  if (why_ending_)
    return {};
  if (owners_.empty() && !alone_since_)
    alone_since_ = now;
  auto out = hear_silence(now);
  if (alone_since_ && now >= *alone_since_ + settings_.owner_patience)
    for (auto& one : end(fmt::format("it had no owner for {} s",
                                     double(settings_.owner_patience.count()) / 1e3)))
      out.push_back(std::move(one));
  return out;
}

agent_actions agent_state::end(const std::string& why) {
  if (why_ending_)
    return {};
  why_ending_ = why;
  agent_actions out{say{"the agent ends: " + why}};
  if (succession_.for_what != awaits::nothing)
    out.push_back(promise{false});
  out.push_back(kill_all{spared_});
  return out;
}

agent_actions agent_state::nobody_runs() {
  if (!why_ending_)
    return {};
  ensure(std::all_of(known_.begin(),
                     known_.end(),
                     [this](const auto& one) {
                       return one.second.ended.has_value() || one.first == spared_;
                     }),
         "AGENT-3: the agent leaves when no child is left");
  auto out = told_to_all(agent_ended{*why_ending_});
  out.push_back(leave{});
  return out;
}

std::optional<agent_state::time> agent_state::deadline() const {
  if (why_ending_)
    return std::nullopt;
  const auto what = succession_.for_what;
  auto out
      = what == awaits::sign || what == awaits::its_end ? succession_.slice_ends : std::nullopt;
  if (alone_since_ && (!out || *alone_since_ + settings_.owner_patience < *out))
    out = *alone_since_ + settings_.owner_patience;
  return out;
}

agent_actions agent_state::told_to_all(const agent_answer& what) const {
  agent_actions out;
  for (const auto owner : owners_)
    out.push_back(answer{owner, what});
  return out;
}

}  // namespace troupe::runtime
