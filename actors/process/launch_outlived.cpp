// Processes that outlive the launcher or the agent that started them.

#include "actors/process/launch_machine.hpp"

namespace troupe::actors {

namespace act = launch_action;

launch_actions launch_machine::take_over(const filled_place& before) {
  launch_actions out;
  if (!is_process(before.who.process) || over_ > 0)
    return out;
  auto& x = all_[std::size_t(before.who.process)];
  x.who = before.who;
  x.agent = before.agent;
  x.stood = before.who.incarnation > 0;
  if (before.pid == 0)
    return out;
  x.is = phase::starting;
  x.which = before.which;
  x.pid = before.pid;
  x.start_time = before.start_time;
  x.lived = true;
  out.emplace_back(act::expect{x.who});
  if (!before.watched)
    adopt(x, out);
  return out;
}

// After an edit of the ledger such a host may not exist.
void launch_machine::avoid(int process, int agent) {
  if (is_process(process) && agent >= 0 && agent < int(agents_.size()))
    all_[std::size_t(process)].avoided.insert(agent);
}

// It is unknown whether the previous agent carried out its requests; the next agent is asked again
// after it has answered.
bool launch_machine::adopt(one& x, launch_actions& out) {
  if (!outlived_ || (x.pid == 0 && x.joined == 0))
    return false;
  if (x.pid == 0)  // the agent did not report it in time
    x.pid = x.joined;
  if (x.which == 0)
    x.which = x.who.incarnation;
  x.adopt_request = ++requests_;
  out.emplace_back(act::adopt{x.adopt_request, x.who.process, x.which, x.pid, x.start_time});
  return true;
}

void launch_machine::agent_ends(int agent) {
  agents_[std::size_t(agent)].ends = true;
}

launch_actions launch_machine::agent_gone(int agent, const std::string& why) {
  launch_actions out;
  auto& by = agents_[std::size_t(agent)];
  by.ends = false;
  by.gone = over_ > 0;
  for (auto& x : all_)
    if (x.agent != agent || x.is == phase::none)
      continue;
    else if (waits_for_agent(x))
      launch(x, out);  // it was waiting for the next agent
    else if (!by.lost.empty() || !adopt(x, out))
      lose(x, why, out);
    else
      by.gone = by.asked_to_end = false;  // a next agent is started
  quit_if_over(out);
  return out;
}

}  // namespace troupe::actors
