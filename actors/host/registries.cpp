#include "actors/host/registries.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace troupe::actors {

void pool_registry::add(int rank, runtime::memory_pool pool) {
  const std::lock_guard lock(mutex_);
  pools_.insert_or_assign(rank, std::move(pool));
}

runtime::memory_pool pool_registry::of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(rank);
  return found == pools_.end() ? runtime::memory_pool() : found->second;
}

std::map<int, std::size_t> pool_registry::peaks() const {
  const std::lock_guard lock(mutex_);
  std::map<int, std::size_t> out;
  for (const auto& [rank, pool] : pools_)
    out.emplace(rank, pool.peak_bytes());
  return out;
}

pool_registry::bytes pool_registry::held() const {
  const std::lock_guard lock(mutex_);
  bytes out;
  for (const auto& [rank, pool] : pools_) {
    const auto held = pool.held_bytes(), in_use = pool.bytes_in_use();
    out.in_use += in_use;
    out.idle += held - std::min(held, in_use);
  }
  return out;
}

std::shared_ptr<runtime::rank_estate> estate_registry::of(int rank) {
  const std::lock_guard lock(mutex_);
  auto& found = estates_[rank];
  if (!found)
    found = std::make_shared<runtime::rank_estate>(fmt::format("rank {}", rank));
  return found;
}

std::shared_ptr<runtime::rank_estate> estate_registry::renewed(int rank) {
  return replaced(rank, std::make_shared<runtime::rank_estate>(fmt::format("rank {}", rank)));
}

std::shared_ptr<runtime::rank_estate> estate_registry::replaced(
    int rank, std::shared_ptr<runtime::rank_estate> by) {
  // Destroys the old pool outside the lock: it returns its memory after the device has finished.
  const std::lock_guard lock(mutex_);
  left_behind_.erase(rank);
  std::swap(estates_[rank], by);
  return estates_[rank];
}

std::shared_ptr<runtime::rank_estate> estate_registry::gone_back(int rank,
                                                                 std::uint64_t iteration,
                                                                 runtime::stream& by) {
  auto found = of(rank);
  bool copies = false;
  {
    const std::lock_guard lock(mutex_);
    copies = left_behind_.contains(rank);
  }
  if (!copies) {
    found->go_back_to(iteration);
    return found;
  }
  return replaced(rank, found->copied(iteration, by));
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> estate_registry::common() const {
  const std::lock_guard lock(mutex_);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> out;
  for (const auto& [rank, estate] : estates_) {
    const auto newest = estate->newest();
    if (!newest)
      return std::nullopt;
    auto oldest = newest->first;
    while (oldest > 0 && estate->holds(oldest - 1))
      --oldest;
    out = out ? std::pair(std::max(out->first, oldest), std::min(out->second, newest->last))
              : std::pair(oldest, newest->last);
  }
  return out && out->first <= out->second ? out : std::nullopt;
}

runtime::rank_estate::extents estate_registry::bytes() const {
  const std::lock_guard lock(mutex_);
  runtime::rank_estate::extents out;
  for (const auto& [rank, estate] : estates_) {
    const auto one = estate->bytes();
    out.weights += one.weights;
    out.optimizer += one.optimizer;
  }
  return out;
}

int estate_registry::ranks() const {
  const std::lock_guard lock(mutex_);
  return int(estates_.size());
}

void estate_registry::leave_behind(int rank) {
  const std::lock_guard lock(mutex_);
  left_behind_.insert(rank);
}

void viewer_registry::add(const std::string& name, messages::viewer_actor viewer) {
  const std::lock_guard lock(mutex_);
  all_.insert_or_assign(name, std::move(viewer));
}

std::optional<messages::viewer_actor> viewer_registry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(name);
  return found == all_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<messages::viewer_actor> viewer_registry::take() {
  const std::lock_guard lock(mutex_);
  std::vector<messages::viewer_actor> out;
  for (const auto& [name, viewer] : std::exchange(all_, {}))
    out.push_back(viewer);
  return out;
}

struct living_registry::state {
  mutable std::mutex mutex;
  std::uint64_t next = 0;
  std::map<std::uint64_t, member> all;
  const void* teller = nullptr;
  std::function<void()> tell;
};

std::shared_ptr<living_registry::state> living_registry::make_state() {
  return std::make_shared<state>();
}

std::shared_ptr<void> living_registry::enter(member x) {
  const std::lock_guard lock(state_->mutex);
  const auto number = state_->next++;
  state_->all.emplace(number, std::move(x));
  return {nullptr, [state = state_, number](void*) {
            std::function<void()> tell;
            {
              const std::lock_guard leaving(state->mutex);
              state->all.erase(number);
              tell = state->tell;
            }
            if (tell)
              tell();
          }};
}

std::vector<living_registry::member> living_registry::until(runtime::generation_id last) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<member> out;
  for (const auto& [number, x] : state_->all)
    if (x.generation <= last)
      out.push_back(x);
  return out;
}

void living_registry::on_leave(const void* whose, std::function<void()> tell) {
  const std::lock_guard lock(state_->mutex);
  state_->teller = whose;
  state_->tell = std::move(tell);
}

void living_registry::no_longer_tells(const void* whose) {
  const std::lock_guard lock(state_->mutex);
  if (state_->teller == whose)
    state_->tell = {};
}

std::shared_ptr<runtime::local_group> group_meeting::at(std::uint64_t generation,
                                                        const std::string& name,
                                                        runtime::axis_set along,
                                                        int size) {
  const std::lock_guard lock(mutex_);
  auto& group = groups_[{generation, name}];
  if (!group)
    group = std::make_shared<runtime::local_group>(along, size, runtime::cancel_token());
  return group;
}

group_registry::group_registry(runtime::cancel_token token,
                               std::uint64_t generation,
                               runtime::collectives by,
                               std::shared_ptr<group_meeting> meeting,
                               join_between_processes between)
    : token_(std::move(token)),
      generation_(generation),
      meeting_(std::move(meeting)),
      between_(std::move(between)) {
  using runtime::collective_mode;
  if (by != runtime::collectives::local)
    by_nccl_ = std::make_unique<runtime::nccl_groups>(
        token_,
        generation,
        by == runtime::collectives::nccl ? collective_mode::ordered : collective_mode::fast);
}

std::vector<std::string> group_place::names() const {
  std::vector<std::string> out;
  if (name_of)
    std::ranges::transform(members, std::back_inserter(out), name_of);
  return out;
}

std::unique_ptr<runtime::communicator> group_registry::join(const group_place& x) {
  const int size = int(x.members.size());
  const std::lock_guard lock(mutex_);
  if (by_nccl_ != nullptr && size > 1)
    return runtime::make_nccl_communicator(
        *by_nccl_, {x.name, x.along, x.rank, size, x.device, x.processes, x.names()});
  if (between_)
    if (auto out = between_(x, generation_, token_))
      return out;
  auto& group = groups_[x.name];
  if (meeting_)
    group = meeting_->at(generation_, x.name, x.along, size);
  else if (!group)
    group = std::make_shared<runtime::local_group>(x.along, size, token_);
  if (meeting_)
    group->release_by(x.rank, token_);
  if (x.name_of)
    group->introduce(x.name, x.rank, x.name_of(x.members[std::size_t(x.rank)]));
  return std::make_unique<runtime::local_communicator>(group, x.rank);
}

std::optional<runtime::nccl_id> group_registry::id_for_others(const group_place& x) {
  const bool spans = std::ranges::any_of(
      x.processes, [&x](int process) { return process != x.processes.front(); });
  if (by_nccl_ == nullptr || x.rank != 0 || !spans)
    return std::nullopt;
  return by_nccl_->id_of(x.name);
}

void group_registry::give(const std::string& group, const runtime::nccl_id& id) {
  if (by_nccl_ != nullptr)
    by_nccl_->give(group, id);
}

void group_registry::lose(int process, const std::string& why) {
  if (by_nccl_ != nullptr)
    by_nccl_->lose(process, why);
}

}  // namespace troupe::actors
