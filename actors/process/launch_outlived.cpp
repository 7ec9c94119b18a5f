// Processes that outlive the launcher that started them, and the loss of their agent.

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
  x.pid = before.pid;
  x.lived = true;
  out.emplace_back(act::expect{x.who});
  return out;
}

// After an edit of the ledger such a host may not exist.
void launch_machine::avoid(int process, int agent) {
  if (is_process(process) && agent >= 0 && agent < int(agents_.size()))
    all_[std::size_t(process)].avoided.insert(agent);
}

launch_actions launch_machine::agent_gone(int agent, const std::string& why) {
  launch_actions out;
  agents_[std::size_t(agent)].gone = over_ > 0;
  for (auto& x : all_)
    if (x.agent == agent && x.is != phase::none)
      lose(x, why, out);
  quit_if_over(out);
  return out;
}

}  // namespace troupe::actors
