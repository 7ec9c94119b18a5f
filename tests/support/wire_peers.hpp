// Peers at the other end of a wire: regular processes, and one that sends arbitrary messages.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"
#include "tests/support/places.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

namespace troupe::tests {

using namespace runtime;

inline constexpr generation_id now{1};
inline constexpr std::int64_t large = 4'000'000;

inline std::unique_ptr<wire> by_ucx(wire_owner& owner) {
  return make_ucx_wire(owner, settings_without_secret());
}

inline std::string peer_program() {
  return troupe::tests::bin_dir() + "/transport_peer";
}

inline ticket ticket_of(std::uint64_t holder, std::int64_t n) {
  return {holder, 1, now, dtype::i32, {n}};
}

inline tensor numbered(memory_pool pool, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * sizeof(std::int32_t)), dtype::i32, {n});
  std::iota(out.data<std::int32_t>(), out.data<std::int32_t>() + n, 0);
  return out;
}

/// Redeems a ticket on another thread. The result is the error text; empty on success.
inline std::future<std::string> redeeming(wire_transport& by,
                                          const ticket& x,
                                          cancel_token token = {}) {
  return std::async(std::launch::async, [&by, x, token]() -> std::string {
    try {
      by.redeem(x, {.until = token});
      return "";
    } catch (const std::exception& failure) {
      return failure.what();
    }
  });
}

inline bool is_ready(std::future<std::string>& x) {
  return x.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
}
inline bool waits(std::future<std::string>& x) {
  return x.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
}

/// A peer that sends arbitrary messages and records the ones it receives.
class stranger final : public wire_owner {
 public:
  stranger() : wire_(make_ucx_wire(*this, settings_without_secret())) { wire_->start(); }
  ~stranger() override { wire_.reset(); }

  peer_number call(const std::string& address) { return wire_->connect(address); }
  void send(peer_number to, std::vector<std::byte> header, std::size_t bytes = 0) {
    const auto data = std::make_shared<std::vector<std::byte>>(bytes);
    wire_->send(to, {std::move(header), *data, data});
  }
  void send(peer_number to, std::vector<std::byte> header, const tensor& x) {
    wire_->send(to, {std::move(header), {x.raw(), x.bytes()}, x.block()});
  }
  void close(peer_number who) { wire_->close(who, "it was closed"); }
  std::string address() const { return wire_->address(); }
  bool is_cut_off() const { return lost_ > 0; }
  std::vector<wire_message> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  peer_number caller() const { return caller_; }

 private:
  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t) override {
    const auto read = read_message(header);
    const std::lock_guard lock(mutex_);
    caller_ = from;
    if (const auto* const x = std::get_if<wire_message>(&read))
      heard_.push_back(*x);
    return {};
  }
  void lost(peer_number, const std::string&) override { ++lost_; }

  mutable std::mutex mutex_;
  std::vector<wire_message> heard_;
  std::atomic<peer_number> caller_ = {};
  std::atomic<int> lost_ = 0;
  std::unique_ptr<wire> wire_;
};

}  // namespace troupe::tests
