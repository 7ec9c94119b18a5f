#include "actors/host/merged_reports.hpp"

#include "actors/host/merged_times.hpp"
#include "runtime/optim/gradient_norms.hpp"
#include "runtime/telemetry/expert_load.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <tuple>

namespace troupe::actors {
namespace {

using messages::updated_state;
using messages::voted_gradients;

bool is_same(const voted_gradients& a, const voted_gradients& b) {
  return a.bits == b.bits && a.zeros == b.zeros && a.square_norms == b.square_norms;
}

bool is_same(const updated_state& a, const updated_state& b) {
  return a.bits == b.bits && a.own == b.own && a.copies == b.copies
         && a.square_norm == b.square_norm;
}

/// Shares of alike ranks: they agree in the values that the step used, and add up.
bool are_shares(const voted_gradients& a, const voted_gradients& b) {
  return a.bits == b.bits;
}
bool are_shares(const updated_state&, const updated_state&) {
  return true;
}

void add_share(voted_gradients& to, const voted_gradients& x) {
  runtime::add_to(to.square_norms, x.square_norms);
  to.zeros += x.zeros;
}

void add_share(updated_state& to, const updated_state& x) {
  for (const auto& [name, part] : x.own)
    to.own[name] += part;
  for (const auto& [name, part] : x.copies)
    if (const auto known = to.copies.find(name); known != to.copies.end())
      known->second += part;
    else
      to.copies.emplace(name, part);
  to.bits += x.bits;
  to.square_norm += x.square_norm;
}

template <class Entry>
auto class_of(const Entry& x, const opened_job& job) {
  return std::pair(x.layers, job.first_alike[x.layers][std::size_t(x.rank)]);
}

/// An entry of one rank becomes a merged one.
template <class Entry>
void give_index(Entry& x, const opened_job& job) {
  runtime::ensure(x.rank >= 0 && x.rank < job.seats.size(), each_rank_once);
  if (!x.alike.empty())
    return;
  const int index = job.index_alike[x.layers][std::size_t(x.rank)];
  x.alike = {{index, index + 1}};
}

/// `to` is sorted by class_of and the lowest rank.
template <class Entry>
void merge_entries(std::vector<Entry>& to, std::vector<Entry> from, const opened_job& job) {
  const bool shares = job.job.reduction.distributed_optimizer;
  const auto key = [&](const Entry& x) { return class_of(x, job); };
  for (auto& x : from) {
    give_index(x, job);
    auto at = std::ranges::lower_bound(to, key(x), {}, key);
    while (at != to.end() && key(*at) == key(x) && !(shares ? are_shares(*at, x) : is_same(*at, x)))
      ++at;
    if (at == to.end() || key(*at) != key(x)) {
      to.insert(at, std::move(x));
      continue;
    }
    join(at->alike, x.alike, each_rank_once);
    at->rank = std::min(at->rank, x.rank);
    if (shares)
      add_share(*at, x);
  }
  std::ranges::sort(to, {}, [&](const Entry& x) { return std::pair(key(x), x.rank); });
}

template <class Entry>
void require_all(const std::vector<Entry>& all, const opened_job& job) {
  runtime::by_view<int> ranks;
  for (auto x = all.begin(); x != all.end();) {
    const auto here = class_of(*x, job);
    messages::index_ranges known;
    for (; x != all.end() && class_of(*x, job) == here; ++x)
      join(known, x->alike, each_rank_once);
    const int each = job.alike_each[here.first];
    runtime::ensure(known == messages::index_ranges{{0, each}}, each_rank_once);
    ranks[here.first] += each;
  }
  runtime::ensure(ranks.dense == job.seats.size(), each_rank_once);
}

/// Digests the members of a value, as an inspector.
struct digested_members {
  using result_type = void;
  runtime::digester to = {};

  template <class... Members>
  void operator()(const Members&... x) {
    (to.add(&x, sizeof x), ...);
  }
};

runtime::digest digest_of(const voted_gradients& x) {
  digested_members out;
  out(x.rank, x.layers, x.zeros, x.bits);
  for (auto [name, norm] : x.square_norms) {
    out(name.size());
    out.to.add(name);
    inspect(out, norm);
  }
  return out.to.result();
}

/// Milliseconds between the first and the last action.
double length_of(const std::vector<messages::executed_row>& rows) {
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const auto& row : rows)
    for (const auto& x : row.actions) {
      first = std::min(first, x.begin);
      last = std::max(last, x.end);
    }
  return last - first;
}

template <class Element>
void append(std::vector<Element>& to, std::vector<Element>& from) {
  std::ranges::move(from, std::back_inserter(to));
}

/// The slowest replica, for which the others waited; of equal ones the first.
void take_executed(messages::vote& to, messages::vote& x) {
  if (to.replica == x.replica)
    return append(to.executed, x.executed);
  const auto longest = length_of(to.executed), length = length_of(x.executed);
  if (length < longest || (length == longest && to.replica < x.replica))
    return;
  to.executed = std::move(x.executed);
  to.replica = x.replica;
}

}  // namespace

void join(messages::index_ranges& to, const messages::index_ranges& other, const char* promise) {
  messages::index_ranges all;
  std::ranges::merge(to, other, std::back_inserter(all));
  to.clear();
  for (const auto& x : all) {
    runtime::ensure(x.first < x.second && (to.empty() || to.back().second <= x.first), promise);
    if (!to.empty() && to.back().second == x.first)
      to.back().second = x.second;
    else
      to.push_back(x);
  }
}

void merge(messages::vote& to, messages::vote x, const opened_job& job) {
  take_executed(to, x);
  const auto known = std::ptrdiff_t(to.losses.size());
  append(to.losses, x.losses);
  std::ranges::inplace_merge(to.losses, to.losses.begin() + known, {}, &runtime::loss_part::order);
  for (const auto& part : x.gradients)
    if (part.alike.empty())
      to.of_ranks += digest_of(part);
  to.of_ranks += x.of_ranks;
  merge_entries(to.gradients, std::move(x.gradients), job);
  append(to.checked, x.checked);
  merge_times(to, x);
  runtime::add_to(to.experts, x.experts);
  if (to.nonfinite.yields_to(x.nonfinite))
    to.nonfinite = std::move(x.nonfinite);
}

void merge(messages::applied& to, messages::applied x, const opened_job& job) {
  merge_entries(to.state, std::move(x.state), job);
  if (x.unlike.empty() || (!to.unlike.empty() && to.replica < x.replica))
    return;
  to.unlike = std::move(x.unlike);
  to.replica = x.replica;
}

void require_all_ranks(const std::vector<voted_gradients>& all, const opened_job& job) {
  require_all(all, job);
}

void require_all_ranks(const std::vector<updated_state>& all, const opened_job& job) {
  require_all(all, job);
}

void tell_from_others(messages::vote& of_replica, const opened_job& job) {
  const int each = job.replicas_each(), copies = job.pipeline.schedule->copies();
  for (auto& part : of_replica.losses) {
    runtime::ensure(part.number >= 0 && part.number < each * copies,
                    "STEP-10: a vote has losses of its replica");
    const int copy = part.number / each;  // its losses follow those of the copies before it
    part.number += (copy * (job.replicas() - 1) + of_replica.replica) * each;
  }
  for (auto& x : of_replica.times)
    x.replica = of_replica.replica;
}

}  // namespace troupe::actors
