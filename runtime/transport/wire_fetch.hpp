// A part of a tensor that a redeemer waits for; private to wire_transport.

#pragma once

#include "runtime/transport/wire_transport.hpp"

#include <exception>
#include <optional>

namespace troupe::runtime {

/// Guarded by the transport's mutex. Bytes in transfer keep this object and their destination alive
/// after the redeemer has left.
struct wire_transport::fetch {
  ticket what;
  std::uint64_t begin = 0, end = 0;
  std::byte* to = nullptr;
  std::shared_ptr<const void> keep;
  std::shared_ptr<std::condition_variable> changed;
  std::uint64_t number = 0;
  peer_number from = {};
  byte_ranges announced;
  std::uint64_t landed = 0;        ///< bytes
  bool may_read = false;           ///< the holder knows that this process can read its memory
  std::optional<lent_place> loan;  ///< where the redeemer reads the bytes
  bool on_device = false;
  bool over = false;
  std::exception_ptr failure = nullptr;

  /// Whether this part is awaited; marks it as received.
  bool expects(peer_number by, const wire_message& x) {
    return by == from && x.what == what && x.begin >= begin && x.end <= end
           && announced.add(x.begin, x.end);
  }
  void finish(std::exception_ptr why = nullptr) {
    over = true;
    failure = std::move(why);
    changed->notify_all();
  }
};

std::exception_ptr failure_of(wire_reason why, const ticket& x);
std::exception_ptr loss_of(const ticket& x, const std::string& where, const std::string& why);

}  // namespace troupe::runtime
