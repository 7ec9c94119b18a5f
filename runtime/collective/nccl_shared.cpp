#include "runtime/collective/nccl_shared.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <system_error>

namespace troupe::runtime {

namespace {

using namespace std::chrono_literals;

/// Asynchronous failures are rare and not urgent.
constexpr auto between_looks = 100ms;

/// A call settles within microseconds, or else when the peers come; then long breaks cost nothing.
constexpr int eager_rounds = 64;
constexpr auto shortest_break = 10us, longest_break = 1000us;

}  // namespace

nccl_watch::~nccl_watch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void nccl_watch::add(nccl_group* group) {
  const std::lock_guard lock(mutex_);
  groups_.insert(group);
  if (!thread_.joinable())
    thread_ = start_thread("NCCL's watch", [this] { watch(); });
}

void nccl_watch::remove(nccl_group* group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(group);
}

void nccl_watch::watch() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    for (auto* const group : groups_)
      group->look();
    changed_.wait_for(lock, between_looks, [this] { return over_; });
  }
}

nccl_group::nccl_group(const nccl_member& like,
                       nccl_terms terms,
                       std::shared_ptr<nccl_group> parent)
    : name_(like.group),
      along_(like.along),
      size_(like.size),
      processes_(like.processes),
      names_(like.names),
      terms_(std::move(terms)),
      parent_(std::move(parent)) {
  if (parent_ == nullptr)  // children are stopped by their parent
    waker_ = terms_.token.on_cancel([this] { stop(cause::cancelled, ""); });
}

nccl_group::~nccl_group() {
  if (parent_ != nullptr) {
    const std::lock_guard lock(parent_->mutex_);
    parent_->living_children_.erase(this);
  }
  terms_.watch->remove(this);
  std::vector<std::jthread> closes;
  try {
    for (const auto& end : ends_)
      closes.push_back(start_thread("NCCL's close", [end] { end->close(); }));
  } catch (const io_error&) {  // an end that is not closed would block the others, perhaps forever
    stop(cause::cancelled, "");
  }
  closes.clear();
  waker_.reset();  // late: an abort must be able to end a close that hangs
  for (auto& one : aborts_)
    one.join();
}

void nccl_group::take(const nccl_member& member) {
  const std::lock_guard lock(mutex_);
  ensure(member.along == along_ && member.size == size_ && member.rank >= 0 && member.rank < size_
             && !device_of_.contains(member.rank),
         "COLLECTIVE-6: each rank of a group joins once, with the same description");
  for (const auto& [rank, device] : device_of_)
    if (device == member.device)
      throw input_error(
          "NCCL serves one rank per device: ranks {} and {} of the group '{}' are both on device "
          "{}; "
          "spread the workers over more devices, or choose collectives that read each other's "
          "memory",
          rank,
          member.rank,
          name_,
          device);
  device_of_[member.rank] = member.device;
  ++members_;
}

void nccl_group::sized(int size) {
  const std::lock_guard lock(mutex_);
  size_ = size;
}

int nccl_group::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

std::shared_ptr<nccl_group> nccl_group::child(axis_set along, int rank, int color) {
  check();
  const std::lock_guard lock(mutex_);
  const auto name = fmt::format("{}, color {} of split {}", name_, color, splits_[rank]++);
  auto out = children_[name].lock();
  if (out == nullptr) {
    out = std::make_shared<nccl_group>(
        nccl_member{.group = name, .along = along, .rank = -1, .size = -1, .device = -1},
        terms_,
        shared_from_this());
    children_[name] = out;
    living_children_.insert(out.get());
  }
  ++out->members_;
  return out;
}

std::shared_ptr<nccl_end> nccl_group::make_end(int rank, int device) {
  const auto who
      = fmt::format("rank {} of the group '{}', generation {}", rank, name_, terms_.generation);
  std::shared_ptr<nccl_end> end = open_nccl().make_end(who, device);
  {
    const std::lock_guard lock(mutex_);
    if (why_ == cause::none) {
      ends_.push_back(end);
      return end;
    }
  }
  leave();
}

void nccl_group::connected(const std::shared_ptr<nccl_end>& end) {
  {
    const std::lock_guard lock(mutex_);
    connected_.push_back(end);
  }
  terms_.watch->add(this);
}

void nccl_group::enter(int rank, const collective_call& call, communicator::offsets to_ends) {
  check();
  std::unique_lock lock(mutex_);
  const auto wrong = ledger_.enter(along_, members_, rank, call, to_ends);
  lock.unlock();
  promise_broken(wrong);
}

void nccl_group::enter(int rank,
                       std::span<const nccl_send> sends,
                       std::span<const nccl_receive> receives) {
  check();
  std::unique_lock lock(mutex_);
  if (members_ != size_)
    return;
  const auto wrong = ledger_.exchange(along_, rank, sends, receives);
  lock.unlock();
  promise_broken(wrong);
}

void nccl_group::promise_broken(const std::string& text) {
  if (text.empty())
    return;
  stop(cause::promise, text);
  leave();
}

void nccl_group::wait_until(int rank, const std::function<bool()>& condition) {
  auto pause = shortest_break;
  for (int round = 0; !condition(); ++round) {
    std::unique_lock lock(mutex_);
    if (why_ == cause::none && round >= eager_rounds) {
      const flagged_wait told(
          {wait_reason::party::group, "", std::uint64_t(rank), shared_from_this()});
      changed_.wait_for(lock, pause, [this] { return why_ != cause::none; });
      pause = std::min<std::chrono::microseconds>(pause * 2, longest_break);
    }
    if (why_ != cause::none) {
      lock.unlock();
      leave();
    }
    lock.unlock();
    std::this_thread::yield();
  }
}

void nccl_group::works_on(const std::shared_ptr<device_queue>& queue) {
  const std::lock_guard lock(mutex_);
  queues_.insert(queue);
}

void nccl_group::check() {
  std::unique_lock lock(mutex_);
  if (why_ == cause::none)
    return;
  lock.unlock();
  leave();
}

void nccl_group::look() {
  std::vector<std::shared_ptr<nccl_end>> all;
  {
    const std::lock_guard lock(mutex_);
    if (why_ != cause::none)
      return;
    all = connected_;
  }
  for (const auto& end : all)
    try {
      end->settled();
    } catch (const nccl_end::failure& x) {
      fail(x);
    }
}

void nccl_group::queued(int rank,
                        std::shared_ptr<device_event> before,
                        std::shared_ptr<device_event> after) {
  const std::lock_guard lock(mutex_);
  auto& all = queued_[rank];
  is_at(all);
  all.push_back({std::move(before), std::move(after)});
}

/// Drops what has passed. True if the device is between the two points of one.
bool nccl_group::is_at(std::deque<span>& of) {
  try {
    while (!of.empty() && of.front().after->passed())
      of.pop_front();
    return !of.empty() && of.front().before->passed();
  } catch (const device_failure&) {  // the stream's own thread reports it
    return true;
  }
}

wait_report nccl_group::missing(std::uint64_t rank) const {
  {
    const std::lock_guard lock(mutex_);
    if (auto& all = queued_[int(rank)]; !is_at(all) && !all.empty())
      return {.what = fmt::format("its device, at work before NCCL in '{}'", name_),
              .whom = {names_[rank]}};
  }
  wait_report out{.what = fmt::format("NCCL in '{}'", name_)};
  for (std::size_t r = 0; r < names_.size(); ++r)
    if (r != rank)
      out.whom.push_back(names_[r]);
  return out;
}

void nccl_group::lose(int process, const std::string& why) {
  const auto at = std::ranges::find(processes_, process);
  if (at == processes_.end())
    return;
  stop(cause::lost,
       fmt::format("rank {} of the group '{}' was in process {}: {}; its generation must end",
                   at - processes_.begin(),
                   name_,
                   process,
                   why));
}

void nccl_group::fail(const nccl_end::failure& x) {
  const bool spans
      = std::ranges::any_of(processes_, [&](int p) { return p != processes_.front(); });
  stop(spans && x.may_be_of_peer ? cause::lost : cause::failure, x.what());
}

// NCCL frees a process's ranks only after all of them are aborted, and an abort may wait for other
// groups' work on its device. So each abort has a thread of its own.
void nccl_group::stop(cause why, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (why_ != cause::none)
    return;
  why_ = why;
  text_ = text;
  for (auto* const child : living_children_)
    child->stop(why, text);
  for (const auto& end : ends_) {
    const auto abort = [this, end] {
      end->abort();
      const std::lock_guard inner(mutex_);
      --aborting_;
      changed_.notify_all();
    };
    ++aborting_;
    try {
      aborts_.push_back(start_thread("NCCL's abort", abort));
    } catch (const io_error&) {  // no thread available
      end->abort();
      --aborting_;
    }
  }
  changed_.notify_all();
}

// Waiting for a queue sets the current device, so a separate thread waits and the caller keeps its
// device.
void nccl_group::leave() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return aborting_ == 0; });
  const auto why = why_;
  const auto text = text_;
  const auto queues = queues_;
  lock.unlock();
  if (why == cause::promise)
    throw broken_promise(text);
  if (why == cause::failure)
    throw device_failure(text);
  // Peers may write to a rank's arrays until the queues have passed.
  const auto finish = [&queues] {
    for (const auto& queue : queues)
      try {
        queue->finish();
      } catch (const device_failure&) {
        // A failed device runs nothing anymore.
      }
  };
  try {
    start_thread("NCCL's leave", finish).join();
  } catch (const io_error&) {  // no thread available
    finish();
  }
  if (why == cause::lost)
    throw peer_lost("{}", text);
  throw cancelled();
}

}  // namespace troupe::runtime
