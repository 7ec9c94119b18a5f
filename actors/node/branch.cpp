#include "actors/node/branch.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr const char* reported_once = "BRANCH-1: a branch hears of a step once from each below";

/// Adds the disks of one report to those of others: equal ones become one.
void add_disks(std::vector<messages::keeper_disk>& to,
               const std::vector<messages::keeper_disk>& from) {
  for (auto x : from) {
    auto known = std::ranges::find_if(to, [&](const auto& y) {
      return x.told_to_store == y.told_to_store && x.storing == y.storing && x.stored == y.stored;
    });
    if (known == to.end())
      to.push_back(std::move(x));
    else
      join(known->of, x.of, reported_once);
  }
}

}  // namespace

void branch::begin(const messages::use_branches& x,
                   std::shared_ptr<const opened_job> job,
                   std::shared_ptr<const message_path> path) {
  if (x.generation <= told_.generation)
    return;
  told_ = x;
  job_ = std::move(job);
  path_ = std::move(path);
  replicas_.clear();
  ready_ = {.generation = x.generation, .replicas = 0};
  votes_.clear();
  applied_.clear();
  awaits_ = awaited::nothing;
  kept_.clear();
  told_kept_.reset();
  for (const auto& again : std::exchange(early_, {}))
    again();
}

void branch::add(runtime::generation_id generation, int replica, const messages::replica_actor& x) {
  if (generation == told_.generation)
    replicas_[replica] = x;
}

std::size_t branch::reporters() const {
  return replicas_.size()
         + std::size_t(
             std::ranges::count(told_.below, true, &messages::branch_below::has_replicas));
}

void branch::note(const messages::run_step& x) {
  awaits_ = awaited::votes;
  step_ = x.step;
}

void branch::note(const messages::decision&) {
  awaits_ = awaited::applied;
}

void branch::receive(const messages::all_restored& x) {
  if (is_now(x))
    for (const auto& other : told_.below)
      path_->send(self_, other.node, x);
}

void branch::receive(const messages::ready& x) {
  if (!is_now(x))
    return;
  ready_.transfer = std::max(ready_.transfer, x.transfer);
  ready_.replicas += x.replicas;
  runtime::ensure(x.replicas > 0 && ready_.replicas <= told_.replicas, reported_once);
  if (ready_.replicas == told_.replicas)
    path_->send(self_, told_.above, ready_);
}

void branch::receive(const messages::vote& x) {
  if (!is_now(x) || !votes_.add(x, reporters(), *job_, reported_once))
    return;
  auto all = votes_.all();
  all.process = told_.process;
  votes_.clear();
  awaits_ = awaited::nothing;
  path_->send(self_, told_.above, std::move(all));
}

void branch::receive(const messages::applied& x) {
  if (!is_now(x) || !applied_.add(x, reporters(), *job_, reported_once))
    return;
  auto all = applied_.all();
  all.process = told_.process;
  applied_.clear();
  awaits_ = awaited::nothing;
  path_->send(self_, told_.above, std::move(all));
}

// A new keeper reports the step again that the one before had reported.
void branch::receive(const messages::kept& x) {
  if (!is_now(x))
    return;
  auto& newest = kept_[x.process];
  const auto step = std::max(newest.step, x.step);
  newest = x;
  newest.step = step;
  if (kept_.size() < told_.below.size() + 1)
    return;
  messages::kept all{.generation = told_.generation, .step = step, .process = told_.process};
  for (const auto& [process, one] : kept_) {
    all.step = std::min(all.step, one.step);
    add_disks(all.disks, one.disks);
  }
  if (told_kept_ && all.step <= *told_kept_ && x.step != *told_kept_)
    return;
  told_kept_ = all.step;
  path_->send(self_, told_.above, std::move(all));
}

std::vector<std::string> branch::without(
    const std::function<bool(std::pair<int, int>)>& has) const {
  std::vector<std::string> out;
  for (const auto& [number, replica] : replicas_)
    if (!has({-1, number}))
      out.push_back(fmt::format("replica:{}", number));
  for (const auto& x : told_.below)
    if (x.has_replicas && !has({x.process, 0}))
      out.push_back(fmt::format("process:{}", x.process));
  return out;
}

runtime::lane_board::place::waiting branch::waits_for() const {
  runtime::lane_board::place::waiting out{.step = value(step_)};
  if (awaits_ == awaited::votes)
    out.what = {"a vote", without([this](const auto& x) { return votes_.has(x); })};
  else if (awaits_ == awaited::applied)
    out.what = {"the updated state", without([this](const auto& x) { return applied_.has(x); })};
  if (awaits_ != awaited::nothing)
    return out;
  runtime::step_id newest = {};
  for (const auto& [process, x] : kept_)
    newest = std::max(newest, x.step);
  const auto is_late = [&](int process) {
    const auto found = kept_.find(process);
    return found == kept_.end() || found->second.step < newest;
  };
  if (kept_.empty())
    return out;
  if (is_late(-1))
    out.what.whom.push_back("keeper");
  for (const auto& x : told_.below)
    if (is_late(x.process))
      out.what.whom.push_back(fmt::format("process:{}", x.process));
  if (!out.what.whom.empty())
    out.what.what = "a state that is kept";
  return out;
}

}  // namespace troupe::actors
