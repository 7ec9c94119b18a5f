// Handles a step that is not finite, because of its data or because a rank computed wrong.

#include "actors/supervisor/supervisor.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors {

// Overflows in the search for a loss scale are normal, and so are skipped steps of the ledger that
// run again after a death. A step that was committed with an update must run again, even while the
// run drains: otherwise it would end in another state (LEDGER-2).
bool bit_checker::is_to_run_again(const messages::vote& all,
                                  const runtime::step_verdict& verdict,
                                  const std::string& where) {
  const auto step = steps_.running();
  const bool counts = !verdict.fault.empty() && !verdict.overflows;
  const bool is_known
      = run_.replays() ? run_.context->ledger->was_left_out(step) : steps_.draining();
  if (!run_.job->job.recovery.on || (!twice_.awaits(step) && (!counts || is_known)))
    return false;
  auto now = run_of(all, run_.job->replicas_each(), run_.job->replicas());
  now.fault = verdict.fault;
  now.where = where;
  const auto heard = twice_.compare(step, std::move(now));
  if (heard.found)
    tell_of(*heard.found);
  if (heard.again)
    recovery_.run_again(
        fmt::format("{}; a second run tells a data fault from a hardware fault", verdict.fault));
  return heard.again;
}

// A loss belongs to one replica; gradients are sums, so all replicas have the faulty value.
std::string bit_checker::place_of(const second_runs::finding& x) const {
  const int stages = run_.job->seats.stages();
  std::vector<std::string> names;
  for (const int r : x.replicas)
    names.push_back(stages == 1 ? run_.name_of_stage(r, 0) : fmt::format("replica:{}", r));
  if (!names.empty())
    return fmt::format("{}", fmt::join(names, " and "));
  if (x.where.empty())
    return "replicas";
  const auto stage = x.where.substr(std::min(x.where.find('.'), x.where.size()));
  return run_.job->replicas() == 1 ? "stage:" + x.where : "stage:*" + stage;
}

void bit_checker::tell_of(const second_runs::finding& x) {
  const auto step = steps_.running();
  const bool repeats = x.transients > 1;
  const auto again = repeats ? "its second run was finite, as in an earlier fault here"
                     : x.verdict == bits_verdict::transient ? "its second run was finite"
                     : x.verdict == bits_verdict::reproducible
                         ? "its second run had the same bits: no hardware fault"
                         : "its second run was not finite either, but had other bits";
  const auto why = fmt::format("step {}: {}; {}", step, x.fault, again);
  roster_.tell({.iteration = run_.context->ledger->newest(),
                .kind = x.verdict == bits_verdict::reproducible ? "not finite" : "wrong bits",
                .who = place_of(x),
                .why = why,
                .verdict = to_string(x.verdict)});
  if ((repeats || x.verdict == bits_verdict::persistent) && run_.keeps() && x.replicas.size() == 1)
    doubt_if_alone(x.replicas.front(), why);
}

// The place is exchanged when the step's result is kept (exchange_when_kept).
void bit_checker::doubt_if_alone(int replica, const std::string& why) {
  const int p = run_.process_of(replica, 0);
  const int stages = run_.job->seats.stages();
  for (int s = 1; s < stages; ++s)
    if (run_.process_of(replica, s) != p)
      return;  // any of several processes may have been wrong
  doubt(p, steps_.running(), why);
}

}  // namespace troupe::actors
