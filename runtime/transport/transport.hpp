// One tensor from one actor to another: deposited here, redeemed there.
//
// The ticket travels in a message, the bytes by the data plane. Within a process nothing is copied;
// a behaviour cannot tell.

#pragma once

#include "runtime/telemetry/counters.hpp"
#include "runtime/tensor/tensor.hpp"
#include "runtime/tensor/ticket.hpp"

namespace troupe::runtime {

/// Any thread.
class transport {
 public:
  virtual ~transport() = default;

  /// Leases the tensor until it is redeemed or its generation ends.
  virtual ticket deposit(tensor x, generation_id generation) = 0;

  /// Throws broken_promise when the ticket was redeemed before, `cancelled` when its generation has
  /// ended.
  virtual tensor redeem(const ticket& x) = 0;

  /// Everything that is still leased in this generation or an older one is released, and nothing
  /// more can be deposited or redeemed in it.
  virtual void end_generation(generation_id last) = 0;

  /// Leases that were not redeemed yet.
  virtual std::size_t leased() const = 0;

  virtual const transport_counters& counters() const = 0;
};

ticket_bundle deposit(transport& by, const bundle& parts, generation_id generation);
bundle redeem(transport& by, const ticket_bundle& tickets);

}  // namespace troupe::runtime
