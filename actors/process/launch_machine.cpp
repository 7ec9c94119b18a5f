#include "actors/process/launch_machine.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors {

namespace act = launch_action;

launch_machine::launch_machine(const std::vector<int>& agent_of,
                               name home,
                               int spares,
                               std::vector<runtime::host_slots> hosts)
    : hosts_(std::move(hosts)),
      all_(agent_of.size()),
      // Request numbers start above those of earlier launchers, so that late answers are not
      // mistaken.
      requests_(std::uint64_t(std::max(home.incarnation, 1U) - 1) << 32) {
  for (std::size_t p = 0; p < all_.size(); ++p) {
    all_[p].who.process = int(p);
    all_[p].first_agent = all_[p].agent = agent_of[p];
    agents_.resize(std::max(agents_.size(), std::size_t(agent_of[p]) + 1));
  }
  agents_.resize(agents_.size() + std::size_t(spares));
}

launch_machine::one* launch_machine::find(name who) {
  if (!is_process(who.process))
    return nullptr;
  auto& x = all_[std::size_t(who.process)];
  return x.is != phase::none && x.who == who ? &x : nullptr;
}

std::vector<launch_machine::name> launch_machine::here() const {
  std::vector<name> out;
  for (const auto& x : all_)
    if (x.is == phase::stands)
      out.push_back(x.who);
  return out;
}

launch_actions launch_machine::wanted(int process, runtime::generation_id in, bool elsewhere) {
  launch_actions out;
  if (!is_process(process) || over_ > 0)
    return out;
  auto& x = all_[std::size_t(process)];
  if (in < x.asked)
    return out;  // from a supervisor that has a successor
  // The same supervisor asks again, so it has lost the process. Even if it is alive, it no longer
  // takes part in the run.
  const bool lost = value(x.asked) != 0 && epoch_of(in) == epoch_of(x.asked);
  x.asked = in;
  if (elsewhere && x.avoided.insert(x.agent).second && agents_.size() > 1)
    out.emplace_back(act::avoid{process, x.agent});
  if (!refused_.empty()) {
    out.emplace_back(act::refuse{x.who, refused_, refused_by_, true});
  } else if (x.is == phase::none) {
    x.failures = 0;
    launch(x, out);
  } else if (x.is == phase::ending) {
    x.again = true;
  } else if (x.is == phase::stands && lost) {
    x.again = true;
    kill(x, out);
  } else if (x.is == phase::stands) {
    out.emplace_back(act::tell_started{x.who, true});
    x.offered.reset();  // it was offered to a supervisor that has a successor
    offer_moves(out);
  }
  return out;
}

void launch_machine::launch(one& x, launch_actions& out) {
  const auto& before = agents_[std::size_t(x.agent)];
  const auto at = agent_for(x);
  if (!at) {
    x.is = phase::none;
    out.emplace_back(act::refuse{{x.who.process, x.who.incarnation + 1},
                                 before.lost.empty() ? before.unfit : before.lost,
                                 x.agent});
    return;
  }
  if (*at != x.agent) {
    auto why = before.lost.empty() ? before.unfit : before.lost;
    if (why.empty() && x.avoided.contains(x.agent))
      why = "it computed wrong bits on its host, or was not reached there";
    auto others = beside(x, *at);
    if (int(others.size()) < slots_of(*at))
      others.clear();
    out.emplace_back(act::relocate{x.who.process, x.agent, *at, std::move(others), std::move(why)});
  }
  x.agent = *at;
  const auto incarnation = x.who.incarnation + 1;
  auto next = one{.who = {x.who.process, incarnation},
                  .first_agent = x.first_agent,
                  .agent = x.agent,
                  .is = phase::starting,
                  .asked = x.asked,
                  .stood = x.stood,
                  .failures = x.failures,
                  .failure = x.failure,
                  .avoided = x.avoided};
  next.start_request = ++requests_;
  out.emplace_back(act::start{next.start_request, next.who, next.agent});
  out.emplace_back(act::expect{next.who});
  x = std::move(next);
}

void launch_machine::kill(one& x, launch_actions& out) {
  x.is = phase::ending;
  if (x.pid == 0)
    return;  // killed when the agent has reported its start
  x.kill_request = ++requests_;
  out.emplace_back(act::kill{x.kill_request, x.who, x.agent});
}

// Handles a failure before the process stood.
void launch_machine::fail(one& x, const std::string& why, launch_actions& out) {
  x.failure = why;
  ++x.failures;
  x.again = x.failures < most_failed_starts && over_ == 0;
  if (!x.again)
    refuse(x, fmt::format("it was started {} times and did not come up: {}", x.failures, why), out);
}

// Refuses each started incarnation once.
void launch_machine::refuse(one& x, const std::string& why, launch_actions& out) {
  if (!x.refused && leave_host(x, why)) {
    x.again = true;
    return;
  }
  if (!std::exchange(x.refused, true) && over_ == 0)
    out.emplace_back(act::refuse{x.who, why, x.agent});
}

std::string launch_machine::joins(name who, std::int64_t pid) {
  auto* const x = find(who);
  if (x == nullptr || x->is != phase::starting || (x->joined != 0 && x->joined != pid)
      || (x->pid != 0 && x->pid != pid))
    return fmt::format(
        "PROCESS-1: the run does not expect incarnation {} of its process {}: another incarnation "
        "has replaced it, or is about to; end this one",
        who.incarnation,
        who.process);
  x->joined = pid;
  return {};
}

launch_actions launch_machine::present(name who) {
  launch_actions out;
  auto* const x = find(who);
  if (x == nullptr || x->is != phase::starting || over_ > 0)
    return out;  // PROCESS-1
  x->is = phase::stands;
  x->present = x->stood = true;
  x->failures = 0;
  out.emplace_back(act::tell_started{who, x->lived});
  offer_moves(out);
  return out;
}

launch_actions launch_machine::withdrawn(name who, const std::string& why) {
  launch_actions out;
  auto* const x = find(who);
  if (x == nullptr || x->is != phase::starting)
    return out;
  refuse(*x, why, out);
  kill(*x, out);
  return out;
}

launch_actions launch_machine::late(name who, const std::string& why) {
  launch_actions out;
  auto* const x = find(who);
  if (x == nullptr || x->is != phase::starting)
    return out;
  if (x->pid == 0) {  // the agent does not answer, or is not there yet
    if (++x->times_late < most_failed_starts) {
      out.emplace_back(act::kill_agent{x->agent});
      out.emplace_back(act::expect{x->who});
    } else if (!x->refused && over_ == 0) {
      out.emplace_back(act::kill_agent{x->agent});
      refuse(*x, "it cannot be started: its host agent does not answer", out);
    }
    return out;
  }
  fail(*x, why, out);
  kill(*x, out);
  return out;
}

launch_actions launch_machine::started(std::uint64_t request, std::int64_t pid) {
  launch_actions out;
  for (auto& x : all_) {
    if (x.is == phase::none || x.start_request != request)
      continue;
    x.pid = pid;
    const bool is_another = x.joined != 0 && x.joined != pid;
    if (is_another)
      fail(x,
           fmt::format(
               "process {} of the host joined in its place, but was not started by the agent",
               x.joined),
           out);
    if (x.is == phase::ending || is_another)
      kill(x, out);
  }
  return out;
}

launch_actions launch_machine::refused(std::uint64_t request, const std::string& why) {
  launch_actions out;
  for (auto& x : all_)
    if (x.is == phase::none) {
      continue;
    } else if (x.start_request == request && x.pid == 0) {
      const bool ends = x.is == phase::ending;
      x.is = phase::none;
      if (over_ > 0)
        continue;
      if (ends ? x.again : leave_host(x, why))
        launch(x, out);
      else if (!ends)
        out.emplace_back(act::refuse{x.who, why, x.agent});
    }
  if (over_ > 0)
    end_if_alone(out);
  return out;
}

launch_actions launch_machine::signalled(std::uint64_t request) {
  for (auto& x : all_)
    if (x.is == phase::ending && x.kill_request == request)
      x.killed = true;
  return {};
}

launch_actions launch_machine::died(name who, const std::string& how) {
  launch_actions out;
  if (auto* const x = find(who))
    lose(*x, how, out);
  return out;
}

void launch_machine::lose(one& x, const std::string& how, launch_actions& out) {
  const auto was = std::exchange(x.is, phase::none);
  const auto who = x.who;
  if (std::exchange(x.present, false))
    out.emplace_back(act::forget{who, fmt::format("process:{}: {}", who.process, how)});
  if (over_ > 0)
    return end_if_alone(out);
  if (was == phase::starting)
    fail(x, how, out);
  else if (!x.killed && !x.refused)  // otherwise the cause of death is known
    out.emplace_back(act::tell_died{who, how});
  if (x.again)
    launch(x, out);
}

launch_actions launch_machine::over() {
  launch_actions out;
  ++over_;
  constexpr int killed = 2;
  for (auto& x : all_)
    if (x.is != phase::none && x.is != phase::ending
        && (over_ >= killed || x.is == phase::starting))
      kill(x, out);
  for (std::size_t a = 0; over_ > killed && a < agents_.size(); ++a)
    if (!agents_[a].gone)
      out.emplace_back(act::kill_agent{int(a)});
  end_if_alone(out);
  return out;
}

void launch_machine::end_if_alone(launch_actions& out) {
  if (!std::all_of(all_.begin(), all_.end(), [](const auto& x) { return x.is == phase::none; }))
    return;
  for (std::size_t a = 0; a < agents_.size(); ++a) {
    auto& by = agents_[a];
    by.gone = by.gone || !by.lost.empty();
    if (!by.gone && !std::exchange(by.asked_to_end, true))
      out.emplace_back(act::end_agent{int(a)});
  }
  quit_if_over(out);
}

void launch_machine::quit_if_over(launch_actions& out) {
  if (over_ > 0 && std::all_of(agents_.begin(), agents_.end(), [](const auto& x) { return x.gone; })
      && !std::exchange(has_quit_, true))
    out.emplace_back(act::quit{});
}

}  // namespace troupe::actors
