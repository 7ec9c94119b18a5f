// A wire by messages, to a process with memory that cannot be read.

#pragma once

#include "runtime/collective/window/exchange.hpp"

namespace troupe::runtime {

/// Serves one group's ranks in one process. A read lands in a buffer of the wire and is copied at
/// `finish`, so an abandoned read writes nowhere else.
class distant_wire final : public window_wire {
 public:
  distant_wire(window_exchange& by,
               std::uint64_t process,
               std::string group,
               generation_id generation)
      : by_(by), process_(process), group_(std::move(group)), generation_(generation) {}

  std::uint64_t rounds(int rank) override;
  bool has_left(int rank) override;
  std::optional<window_offer> offer(int rank, std::uint64_t round) override;
  void tell(int rank, std::uint64_t rounds, bool left, const window_offer* offer) override;
  std::shared_ptr<const std::byte> map(const window_array&) override { return nullptr; }
  void begin(window_read& x) override;
  bool is_ready(const window_read& x) override;
  bool finish(window_read& x) override;
  bool reads_at_once() const override { return false; }

 private:
  window_exchange& by_;
  std::uint64_t process_;
  std::string group_;
  generation_id generation_;
};

}  // namespace troupe::runtime
