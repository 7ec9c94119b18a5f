// A wire between endpoints in one process, made of queues: for tests of code above the wire that
// need no network. Each end has its own thread, as real wires do.

#pragma once

#include "runtime/transport/wire.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace troupe::tests {

class memory_wire final : public runtime::wire {
 public:
  explicit memory_wire(runtime::wire_owner& owner) : owner_(owner) {
    const std::lock_guard lock(all().mutex);
    address_ = "memory:" + std::to_string(++all().last);
    all().ends[address_] = this;
  }
  ~memory_wire() override { stop(); }

  void start() override {
    thread_ = std::jthread([this] { serve(); });
  }
  void stop() override {
    {
      const std::lock_guard lock(all().mutex);
      all().ends.erase(address_);
      while (!peers_.empty())
        part(peers_.begin()->first, "its wire has stopped");
    }
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }
  std::string address() const override { return address_; }
  bool takes_device_memory() const override { return false; }

  std::size_t connections() const {
    const std::lock_guard lock(all().mutex);
    return peers_.size();
  }

  /// Delays the lost() calls of this end until hear_losses(): the two ends of a real connection
  /// notice a break at different times.
  void hold_losses() {
    const std::lock_guard lock(mutex_);
    holds_losses_ = true;
  }
  void hear_losses() {
    {
      const std::lock_guard lock(mutex_);
      holds_losses_ = false;
      work_.insert(work_.end(), held_losses_.begin(), held_losses_.end());
      held_losses_.clear();
    }
    changed_.notify_all();
  }

  runtime::peer_number connect(const std::string& address) override {
    const std::lock_guard lock(all().mutex);
    const auto mine = runtime::peer_number(++last_);
    const auto at = all().ends.find(address);
    if (at == all().ends.end()) {
      push([this, mine] { owner_.lost(mine, "no wire has this address"); });
      return mine;
    }
    auto& other = *at->second;
    const auto theirs = runtime::peer_number(++other.last_);
    peers_[mine] = {&other, theirs};
    other.peers_[theirs] = {this, mine};
    return mine;
  }
  void send(runtime::peer_number to, runtime::outgoing what) override {
    const std::lock_guard lock(all().mutex);
    const auto at = peers_.find(to);
    if (at == peers_.end())
      return;
    auto& other = *at->second.end;
    const auto sent = std::make_shared<runtime::outgoing>(std::move(what));
    other.push([&other, from = at->second.number, sent] {
      const auto where = other.owner_.arrived(from, sent->header, sent->bytes.size());
      if (where.to == nullptr)
        return;
      std::memcpy(where.to, sent->bytes.data(), sent->bytes.size());
      where.done(true);
    });
  }
  void close(runtime::peer_number who, const std::string& why) override {
    const std::lock_guard lock(all().mutex);
    if (!peers_.contains(who))
      return;
    part(who, "the other end has closed");
    push_loss([this, who, why] { owner_.lost(who, why); });
  }

 private:
  struct peer {
    memory_wire* end = nullptr;
    runtime::peer_number number = {};  ///< this end's number at the other end
  };
  struct hub {
    std::mutex mutex;  ///< also guards the peers of all wires
    std::map<std::string, memory_wire*> ends;
    int last = 0;
  };
  static hub& all() {
    static hub one;
    return one;
  }

  void part(runtime::peer_number who, const std::string& why) {
    const auto [other, number] = peers_.at(who);
    peers_.erase(who);
    other->peers_.erase(number);
    auto* const owner = &other->owner_;
    const auto there = number;
    other->push_loss([owner, there, why] { owner->lost(there, why); });
  }
  void push_loss(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      (holds_losses_ ? held_losses_ : work_).push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return over_ || !work_.empty(); });
      if (over_)
        return;
      const auto next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      next();
    }
  }

  runtime::wire_owner& owner_;
  std::string address_;
  std::map<runtime::peer_number, peer> peers_;
  std::uint64_t last_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_, held_losses_;
  bool holds_losses_ = false;
  bool over_ = false;
  std::jthread thread_;
};

}  // namespace troupe::tests
