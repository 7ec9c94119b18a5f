// Compares the values of ranks that must be alike, to find wrong bits; also finds stragglers.

#include "actors/supervisor/compared_ranks.hpp"
#include "actors/supervisor/pass_ballots.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "actors/support/owners_of_copies.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t most_named_parameters = 8;

std::string listed(const std::set<std::string>& names) {
  std::vector<std::string> first;
  for (const auto& x : names)
    if (first.size() < most_named_parameters)
      first.push_back(x);
  return fmt::format(
      "{}{}",
      fmt::join(first, ", "),
      names.size() > first.size() ? fmt::format(" and {} more", names.size() - first.size()) : "");
}

/// Number of ranks that outvoted these; only gradients and states have more than two ranks.
int count_of_others(const wrong_bits& x, const runtime::seats& seats) {
  const auto all = seats.alike(x.first, runtime::axis_view(x.what));
  return int(all.size()) - int(x.ranks.size());
}

/// STEP-6: names a copy without an owner, or that differs from its owner, and the copy's replica;
/// empty: none. Replicas have compared the copies with an owner among their own ranks.
std::string differing_copy(const messages::applied& all, const opened_job& job) {
  const auto told = [](int replica, const char* what, const std::string& parameter) {
    return fmt::format("replica:{}: {}; {} {}",
                       replica,
                       "STEP-6: what several tensor ranks or stages hold, they hold alike",
                       what,
                       parameter);
  };
  if (!all.unlike.empty())
    return told(all.replica, "but not", all.unlike);
  for (const auto& x : all.state)
    for (const auto& [name, copy] : x.copies)
      if (const auto equal = equals_owner(name, copy, all.state); !equal.value_or(false))
        return told(job.seats.at(x.rank)[runtime::axis::data],
                    equal ? "but not" : "but no rank owns",
                    name);
  return {};
}

std::string joined(std::vector<std::string> names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

void bit_checker::receive(const messages::check_pass& x) {
  if (x.at.generation == run_.generation() && roster_.replica(x.by))
    run_.send(roster_.replica(x.by), x);
}

// In the order of the ranks that computed them again.
bool bit_checker::passes_agree(const messages::vote& all) {
  auto checked = all.checked;
  std::ranges::stable_sort(
      checked, {}, [](const auto& x) { return std::pair(x.by, x.stage_index); });
  std::vector<ballot> ballots;
  add_ballots(checked, run_.job->seats, ballots);
  return agree(checked_bits::passes,
               ballots,
               "VERIFY-2: a pass that is computed again has the bits that it had");
}

bool bit_checker::votes_agree(const messages::vote& all) {
  return agree(
      checked_bits::gradients,
      ballots_of(
          all.gradients, &messages::voted_gradients::square_norms, *run_.job, has_open_cases()),
      "STEP-2: ranks with equal parameters vote the same digest of their gradients");
}

bool bit_checker::states_agree(const messages::applied& all) {
  const auto unlike = differing_copy(all, *run_.job);
  const auto promise
      = unlike.empty()
            ? "STEP-5: ranks with equal parameters hold the same state after the same update"
            : unlike;
  if (!run_.job->job.reduction.distributed_optimizer
      && !agree(checked_bits::state,
                ballots_of(all.state, &messages::updated_state::own, *run_.job, has_open_cases()),
                promise))
    return false;
  if (unlike.empty())
    return true;
  recovery_.suspect(unlike);  // alike ranks agree, so no rank is outvoted
  return false;
}

bool bit_checker::agree(checked_bits what,
                        const std::vector<ballot>& ballots,
                        const std::string& promise) {
  const auto heard = check_.compare(steps_.running(), what, ballots);
  std::string why = promise;
  for (const auto& x : heard.found) {
    const auto said = describe(x, what);
    if (!heard.alike)
      why += "; " + said;
    tell_of(x, said);
  }
  if (!heard.alike)
    send_back(heard.found, why);
  return heard.alike;
}

std::string bit_checker::describe(const wrong_bits& x, checked_bits what) const {
  std::vector<std::string> names;
  for (const int r : x.ranks)
    names.push_back(run_.job->stage_name(r));
  const auto of = what == checked_bits::passes
                      ? name_of_pass(x.what, run_.job->pipeline.schedule->copies())
                  : what == checked_bits::state                   ? std::string("updated state")
                  : run_.job->job.reduction.distributed_optimizer ? "values before the update"
                                                                  : "reduced gradients";
  const auto step = steps_.running();
  const auto where = x.parameters.empty() ? std::string() : " (" + listed(x.parameters) + ")";
  switch (x.verdict) {
    case bits_verdict::outvoted:
      return fmt::format("{} has other {} of step {} than the {} other ranks{}",
                         joined(names),
                         of,
                         step,
                         count_of_others(x, run_.job->seats),
                         where);
    case bits_verdict::transient:
      return fmt::format("{} had wrong {} of step {}{}, and the right ones when it ran again",
                         joined(names),
                         of,
                         step,
                         where);
    case bits_verdict::persistent:
      return fmt::format(
          "{} had wrong {} of step {} more than once{}", joined(names), of, step, where);
    case bits_verdict::irreproducible:
      return fmt::format(
          "{} had other {} of step {} each time that it ran{}", joined(names), of, step, where);
    default:
      return fmt::format("{} have different {} of step {}{}", joined(names), of, step, where);
  }
}

void bit_checker::tell_of(const wrong_bits& x, const std::string& why) {
  if (x.verdict == bits_verdict::undecided || !run_.job->job.recovery.on)
    return;
  std::vector<std::string> names;
  for (const int r : x.ranks)
    names.push_back(run_.job->stage_name(r));
  roster_.tell({.iteration = run_.context->ledger->newest(),
                .kind = "wrong bits",
                .who = joined(names),
                .why = why,
                .verdict = to_string(x.verdict)});
}

// A place with its own process gets a new process; elsewhere only actors and lanes are recreated,
// as in every step that runs again.
void bit_checker::send_back(const std::vector<wrong_bits>& found, const std::string& why) {
  if (run_.keeps())
    for (const auto& x : found)
      for (const int r : x.replaced)
        doubt(run_.job->placed.process_of(r), steps_.running(), why);
  if (!exchange_doubted())
    recovery_.suspect(why);
}

void bit_checker::doubt(int process, std::uint64_t step, const std::string& why, process_loss how) {
  auto& x = doubted_
                .try_emplace(process,
                             doubted_process{run_.members.incarnation(process), step, why, how})
                .first->second;
  if (how == process_loss::wrong_bits)
    x.how = how;
}

// Never exchanges a process and its keeper together: both copies of its newest states would be
// lost.
bool bit_checker::exchange_doubted() {
  std::erase_if(doubted_, [this](const auto& x) {
    return !run_.members.stands(x.first)
           || run_.members.incarnation(x.first) != x.second.incarnation;
  });
  std::vector<std::pair<int, doubted_process>> in_order(doubted_.begin(), doubted_.end()), now;
  std::stable_sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return a.second.step < b.second.step;
  });
  for (const auto& one : in_order) {
    const int p = one.first;
    if (std::none_of(now.begin(), now.end(), [this, p](const auto& other) {
          return roster_.process(p).kept_in == other.first
                 || roster_.process(other.first).kept_in == p;
        }))
      now.push_back(one);
  }
  for (const auto& [p, x] : now) {
    doubted_.erase(p);
    recovery_.lose_process(p, x.incarnation, fmt::format("process:{}: {}", p, x.why), x.how);
  }
  return !now.empty();
}

bool bit_checker::exchange_when_kept() {
  if (doubted_.empty() || run_.members.now() != membership::phase::running || run_.replays()
      || steps_.is_over() || saves_.is_writing())
    return false;
  for (const auto& [p, x] : doubted_)
    if (run_.at.iteration < x.step)
      return false;
  return exchange_doubted();
}

std::string bit_checker::name_and_place_of(int replica, int stage) const {
  const auto name = run_.name_of_stage(replica, stage);
  if (run_.processes() == 1)
    return name;
  const auto p = run_.process_of(replica, stage);
  return fmt::format("{} (process {} on host '{}')", name, p, roster_.process(p).host);
}

void bit_checker::look_for_stragglers(const messages::vote& all, int microbatches) {
  std::map<slowness, std::vector<straggler_news>> news;
  for (const auto& x : slow_.compare(listed_workers(all), microbatches, unlisted_workers(all)))
    news[x.is].push_back(x);
  for (const auto& [is, them] : news) {
    std::vector<std::string> names;
    for (const auto& x : them)
      names.push_back(run_.name_of_stage(x.replica, x.stage));
    const auto worst = std::max_element(them.begin(), them.end(), [](const auto& a, const auto& b) {
      return a.seconds - a.usual < b.seconds - b.usual;
    });
    std::string others;
    for (const auto& x : them)
      if (run_.processes() > 1 && x != *worst)
        others += (others.empty() ? "; also slow: " : ", ") + name_and_place_of(x.replica, x.stage);
    const auto* const did = is == slowness::compute ? "computed for"
                            : is == slowness::link  ? "waited for data of other ranks for"
                                                    : "waited for batches for";
    roster_.tell({.iteration = run_.context->ledger->newest(),
                  .kind = "straggler",
                  .who = fmt::format("{}", fmt::join(names, ", ")),
                  .why = is == slowness::none
                             ? std::string("it is as fast as the others or as before")
                             : fmt::format("{} {} {:.3f} s of step {}, where {:.3f} s are usual{}",
                                           name_and_place_of(worst->replica, worst->stage),
                                           did,
                                           worst->seconds,
                                           steps_.running(),
                                           worst->usual,
                                           others),
                  .verdict = to_string(is)});
  }
}

}  // namespace troupe::actors
