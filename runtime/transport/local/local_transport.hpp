// The transport within one process.

#pragma once

#include "runtime/transport/transport.hpp"

#include <mutex>
#include <unordered_map>

namespace troupe::runtime {

/// A transport within one process: a ticket is a shared tensor, nothing is copied.
class local_transport final : public transport {
 public:
  explicit local_transport(std::uint64_t process) : process_(process) {}

  ticket deposit(tensor x,
                 generation_id generation,
                 std::shared_ptr<const void> until_taken = {}) override;
  std::vector<tensor> redeem_all(std::span<const ticket> tickets, const redeemer& by) override;
  void take_back(std::span<const ticket> tickets) override;
  void end_generation(generation_id last) override;
  std::size_t leased() const override;
  const transport_counters& counters() const override { return counters_; }

 private:
  tensor take(const ticket& x);

  struct lease {
    tensor data;
    generation_id generation;
    std::shared_ptr<const void> until_taken;
  };

  std::uint64_t process_;
  mutable std::mutex mutex_;
  std::uint64_t next_slot_ = 1;
  generation_id ended_ = {};
  std::unordered_map<std::uint64_t, lease> leases_;
  std::unordered_map<std::uint64_t, generation_id> taken_back_;  ///< not redeemed before
  transport_counters counters_;
};

}  // namespace troupe::runtime
