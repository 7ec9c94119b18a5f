// A transport that counts hand-offs.

#pragma once

#include "runtime/transport/transport.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Wraps a transport, and counts the hand-offs with a credit that it holds now and held at most.
class counting_transport final : public runtime::transport {
 public:
  explicit counting_transport(std::shared_ptr<runtime::transport> to) : to_(std::move(to)) {}

  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id generation,
                          std::shared_ptr<const void> until_taken) override {
    if (until_taken) {
      const auto* const which = until_taken.get();
      const std::lock_guard lock(*mutex_);
      ++(*held_)[which];
      most_ = std::max(most_.load(), int(held_->size()));
      until_taken = std::shared_ptr<const void>(
          which, [held = held_, mutex = mutex_, until_taken](const void* key) {
            const std::lock_guard inner(*mutex);
            if (--(*held)[key] == 0)
              held->erase(key);
          });
    }
    return to_->deposit(std::move(x), generation, std::move(until_taken));
  }
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override {
    return to_->redeem_all(tickets, by);
  }
  void take_back(std::span<const runtime::ticket> tickets) override { to_->take_back(tickets); }
  void end_generation(runtime::generation_id last) override { to_->end_generation(last); }
  std::size_t leased() const override { return to_->leased(); }
  const runtime::transport_counters& counters() const override { return to_->counters(); }

  int held() const {
    const std::lock_guard lock(*mutex_);
    return int(held_->size());
  }
  int most() const { return most_; }

 private:
  std::shared_ptr<runtime::transport> to_;
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<std::map<const void*, int>> held_
      = std::make_shared<std::map<const void*, int>>();
  std::atomic<int> most_ = 0;
};

}  // namespace troupe::tests
