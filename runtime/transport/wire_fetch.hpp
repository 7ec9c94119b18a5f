// A piece of a tensor that a redeemer waits for: wire_transport's own.

#pragma once

#include "runtime/transport/wire_transport.hpp"

#include <exception>
#include <optional>

namespace troupe::runtime {

/// Guarded by the transport's mutex. Bytes that are still landing keep it, and with it their place,
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
  bool may_read = false;           ///< the holder was told that its memory can be read here
  std::optional<lent_place> loan;  ///< the redeemer is to read there
  bool on_device = false;
  bool over = false;
  std::exception_ptr failure = nullptr;

  /// Whether this part is waited for: from now on it is not.
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
