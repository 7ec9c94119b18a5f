// Passes tensors between actors: deposited by one, redeemed by another.
//
// The ticket travels in a message, the bytes over the data plane. Within a process nothing is
// copied (local/); between processes the bytes go over a wire (wire_transport.hpp, ucx/).
// Behaviours see no difference.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/telemetry/counters.hpp"
#include "runtime/tensor/tensor.hpp"
#include "runtime/tensor/ticket.hpp"

#include <memory>
#include <span>
#include <vector>

namespace troupe::runtime {

/// The destination of redeemed tensors, and what ends the wait.
struct redeemer {
  runtime::stream* stream = nullptr;  ///< null: host memory
  cancel_token until = {};            ///< ends the wait; the end of the generation does too
};

/// Any thread.
class transport {
 public:
  virtual ~transport() = default;

  /// Leases the tensor until it is redeemed, its generation ends, or its redeemer dies. A device
  /// tensor must be published (moves.hpp). Throws `cancelled` when the generation has ended.
  /// `until_taken` is released, by any thread and without a lock held, when the tensor is no longer
  /// held for its redeemer; this tells a depositor without a message.
  virtual ticket deposit(tensor x,
                         generation_id generation,
                         std::shared_ptr<const void> until_taken = {})
      = 0;

  /// The tensors of these tickets, in order; each ticket is redeemed once. In one process these are
  /// the deposited tensors, in place. Over a wire they are new tensors where the redeemer computes,
  /// filled in the order of its stream. The caller owns the stream and sleeps until they are there.
  ///
  /// Throws broken_promise when a ticket was redeemed before, `cancelled` when its generation has
  /// ended or it was taken back, peer_lost when its holder has died or cannot be reached. A waiting
  /// call throws at once.
  virtual std::vector<tensor> redeem_all(std::span<const ticket> tickets, const redeemer& by) = 0;
  tensor redeem(const ticket& x, const redeemer& by = {}) {
    return std::move(redeem_all({&x, 1}, by).front());
  }

  /// Ends the leases of these tickets that were deposited here and not redeemed.
  virtual void take_back(std::span<const ticket> tickets) = 0;

  /// Releases all leases of this and older generations, fails their waits with `cancelled`, and
  /// refuses further deposits and redeems in them.
  virtual void end_generation(generation_id last) = 0;

  virtual std::size_t leased() const = 0;

  virtual const transport_counters& counters() const = 0;
};

ticket_bundle deposit(transport& to,
                      const bundle& parts,
                      generation_id generation,
                      const std::shared_ptr<const void>& until_taken = {});
bundle redeem(transport& from, const ticket_bundle& tickets, const redeemer& by = {});

}  // namespace troupe::runtime
