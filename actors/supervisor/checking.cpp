// Compares the values that must be equal on all replicas, to find wrong bits; also finds
// stragglers.

#include "actors/supervisor/pass_ballots.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t most_named_parameters = 8;

/// Notes the parameters with different values.
template <class Value>
void note_differing(const std::map<std::string, Value>& one,
                    const std::map<std::string, Value>& other,
                    std::set<std::string>& to) {
  for (const auto& [name, x] : one)
    if (const auto found = other.find(name); found == other.end() || found->second != x)
      to.insert(name);
}

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

std::string joined(std::vector<std::string> names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

std::string supervisor_state::name_of_stage(int replica, int stage) const {
  return job_->stage_name(job_->seats.rank_of_stage(replica, stage));
}

int supervisor_state::process_of(int replica, int stage) const {
  return job_->placed().process_of(job_->seats.rank_of_stage(replica, stage));
}

void supervisor_state::receive(const messages::check_pass& x) {
  if (x.at.generation == generation() && x.by >= 0 && x.by < int(replicas_.size())
      && replicas_[std::size_t(x.by)])
    context_->messages->send(self_, replicas_[std::size_t(x.by)], x);
}

bool supervisor_state::passes_agree() {
  std::vector<ballot> all;
  for (const auto& vote : votes_)
    add_ballots(vote.checked, all);
  return agree(checked_bits::passes,
               all,
               "VERIFY-2: a pass that is computed again has the bits that it had",
               "");
}

bool supervisor_state::votes_agree() {
  std::vector<std::vector<runtime::digest>> digests;
  std::set<std::string> parameters;
  for (const auto& x : votes_) {
    // One digest of a replica's whole gradient is enough to see that it differs.
    digests.push_back(x.by_stage.empty() ? std::vector{x.gradients} : x.by_stage);
    if (!job_->job.reduction.distributed_optimizer)
      note_differing(votes_.front().square_norms, x.square_norms, parameters);
  }
  return agree(checked_bits::gradients,
               ballots_of(digests),
               "STEP-2: replicas vote the same digest of their common gradients",
               listed(parameters));
}

bool supervisor_state::states_agree() {
  std::string promise = "STEP-5: replicas hold the same state after the same update", unlike;
  for (const auto& x : applied_)
    if (unlike.empty() && !x.unlike.empty())
      unlike = fmt::format("replica:{}: {}; but not {}",
                           x.replica,
                           "STEP-6: what several tensor ranks or stages hold, they hold alike",
                           x.unlike);
  if (!unlike.empty())
    promise = unlike;
  if (!job_->job.reduction.distributed_optimizer) {
    std::vector<std::vector<runtime::digest>> digests;
    std::set<std::string> parameters;
    for (const auto& x : applied_) {
      digests.push_back(x.by_stage.empty() ? std::vector{runtime::combine(x.own)} : x.by_stage);
      note_differing(applied_.front().own, x.own, parameters);
    }
    if (!agree(checked_bits::state, ballots_of(digests), promise, listed(parameters)))
      return false;
  }
  if (unlike.empty())
    return true;
  suspect(unlike);  // all replicas are alike, or there is only one
  return false;
}

bool supervisor_state::agree(checked_bits what,
                             const std::vector<ballot>& ballots,
                             const std::string& promise,
                             const std::string& parameters) {
  const auto heard = check_.compare(value(now_->step), what, ballots, parameters);
  std::string why = promise;
  for (const auto& x : heard.found) {
    const auto said = describe(x, what);
    if (!heard.alike)
      why += "; " + said;
    tell(x, said);
  }
  if (!heard.alike)
    send_back(heard.found, why);
  return heard.alike;
}

std::string supervisor_state::describe(const wrong_bits& x, checked_bits what) const {
  std::vector<std::string> names;
  for (const int r : x.replicas)
    names.push_back(name_of_stage(r, x.stage));
  const auto of = what == checked_bits::passes
                      ? name_of_pass(x.pass, job_->pipeline.schedule->copies())
                  : what == checked_bits::state               ? std::string("updated state")
                  : job_->job.reduction.distributed_optimizer ? "values before the update"
                                                              : "reduced gradients";
  const auto step = value(now_->step);
  const auto where = x.parameters.empty() ? std::string() : " (" + x.parameters + ")";
  switch (x.verdict) {
    case bits_verdict::outvoted:
      return fmt::format("{} has other {} of step {} than the {} other replicas{}",
                         joined(names),
                         of,
                         step,
                         job_->replicas() - int(x.replicas.size()),
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

void supervisor_state::tell(const wrong_bits& x, const std::string& why) {
  if (x.verdict == bits_verdict::undecided || !job_->job.recovery.on)
    return;
  std::vector<std::string> names;
  for (const int r : x.replicas)
    names.push_back(name_of_stage(r, x.stage));
  tell({.iteration = context_->ledger->newest(),
        .kind = "wrong bits",
        .who = joined(names),
        .why = why,
        .verdict = to_string(x.verdict)});
}

// A place with its own process gets a new process; elsewhere only actors and lanes are recreated,
// as in every step that runs again.
void supervisor_state::send_back(const std::vector<wrong_bits>& found, const std::string& why) {
  if (keeps())
    for (const auto& x : found)
      for (const int r : x.replaced) {
        const auto p = process_of(r, x.stage);
        doubted_.try_emplace(p, doubted_process{members_->incarnation(p), value(now_->step), why})
            .first->second.how
            = process_loss::wrong_bits;
      }
  if (!exchange_doubted())
    suspect(why);
}

// Never exchanges a process and its keeper together: both copies of its newest states would be
// lost.
bool supervisor_state::exchange_doubted() {
  std::erase_if(doubted_, [this](const auto& x) {
    return !members_->stands(x.first) || members_->incarnation(x.first) != x.second.incarnation;
  });
  std::vector<std::pair<int, doubted_process>> in_order(doubted_.begin(), doubted_.end()), now;
  std::stable_sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return a.second.step < b.second.step;
  });
  for (const auto& one : in_order) {
    const int p = one.first;
    if (std::none_of(now.begin(), now.end(), [this, p](const auto& other) {
          return processes_[std::size_t(p)].kept_in == other.first
                 || processes_[std::size_t(other.first)].kept_in == p;
        }))
      now.push_back(one);
  }
  for (const auto& [p, x] : now) {
    doubted_.erase(p);
    lose_process(p, x.incarnation, fmt::format("process:{}: {}", p, x.why), x.how);
  }
  return !now.empty();
}

bool supervisor_state::exchange_when_kept() {
  if (doubted_.empty() || members_->now() != membership::phase::running || replays() || is_over()
      || saves_.is_writing())
    return false;
  for (const auto& [p, x] : doubted_)
    if (at_.iteration < x.step)
      return false;
  return exchange_doubted();
}

std::string supervisor_state::name_and_place_of(int replica, int stage) const {
  const auto name = name_of_stage(replica, stage);
  if (processes_.size() == 1)
    return name;
  const auto p = process_of(replica, stage);
  return fmt::format("{} (process {} on host '{}')", name, p, processes_[std::size_t(p)].host);
}

void supervisor_state::look_for_stragglers() {
  std::vector<worker_times> all;
  for (const auto& vote : votes_)
    for (const auto& x : vote.times)
      all.push_back({vote.replica, x.stage_index, x.computing, x.redeeming, x.awaiting_batches});
  std::map<slowness, std::vector<straggler_news>> news;
  for (const auto& x : slow_->compare(all, now_->microbatches))
    news[x.is].push_back(x);
  for (const auto& [is, them] : news) {
    std::vector<std::string> names;
    for (const auto& x : them)
      names.push_back(name_of_stage(x.replica, x.stage));
    const auto worst = std::max_element(them.begin(), them.end(), [](const auto& a, const auto& b) {
      return a.seconds - a.usual < b.seconds - b.usual;
    });
    std::string others;
    for (const auto& x : them)
      if (processes_.size() > 1 && x != *worst)
        others += (others.empty() ? "; also slow: " : ", ") + name_and_place_of(x.replica, x.stage);
    const auto* const did = is == slowness::compute ? "computed for"
                            : is == slowness::link  ? "waited for data of other ranks for"
                                                    : "waited for batches for";
    tell({.iteration = context_->ledger->newest(),
          .kind = "straggler",
          .who = fmt::format("{}", fmt::join(names, ", ")),
          .why = is == slowness::none
                     ? std::string("it is as fast as the others or as before")
                     : fmt::format("{} {} {:.3f} s of step {}, where {:.3f} s are usual{}",
                                   name_and_place_of(worst->replica, worst->stage),
                                   did,
                                   worst->seconds,
                                   value(now_->step),
                                   worst->usual,
                                   others),
          .verdict = to_string(is)});
  }
}

}  // namespace troupe::actors
