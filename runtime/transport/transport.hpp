// One tensor from one actor to another: deposited here, redeemed there.
//
// The ticket travels in a message, the bytes by the data plane: within a process nothing is copied
// (local/), between processes they go over a wire (wire_transport.hpp, ucx/). A behaviour cannot
// tell.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/telemetry/counters.hpp"
#include "runtime/tensor/tensor.hpp"
#include "runtime/tensor/ticket.hpp"

#include <memory>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Who redeems: for whose use, and until when.
struct redeemer {
  runtime::stream* stream = nullptr;  ///< null: for the host
  cancel_token until = {};            ///< ends the wait, as the end of the generation does
};

/// Any thread.
class transport {
 public:
  virtual ~transport() = default;

  /// Leases the tensor until it is redeemed, its generation ends, or its redeemer dies.
  /// One of a device has been published (moves.hpp). Throws `cancelled` when the generation has
  /// ended. `until_taken` is let go, by any thread and with nothing locked, when the tensor is no
  /// longer held for its redeemer: how a depositor learns that without a message.
  virtual ticket deposit(tensor x,
                         generation_id generation,
                         std::shared_ptr<const void> until_taken = {})
      = 0;

  /// The tensors of these tickets, in order, each once. In one process they are the deposited ones,
  /// wherever they lie; over a wire they lie where the redeemer computes, filled in the order of
  /// its stream. The caller, who owns the stream, sleeps until they are there.
  ///
  /// Throws broken_promise when a ticket was redeemed before, `cancelled` when its generation has
  /// ended or it was taken back, peer_lost when its holder has died or cannot be reached: at once,
  /// also while it waits.
  virtual std::vector<tensor> redeem_all(std::span<const ticket> tickets, const redeemer& by) = 0;
  tensor redeem(const ticket& x, const redeemer& by = {}) {
    return std::move(redeem_all({&x, 1}, by).front());
  }

  /// Ends the leases of those of these tickets that were deposited here and not redeemed.
  virtual void take_back(std::span<const ticket> tickets) = 0;

  /// Everything that is still leased in this generation or an older one is released, those who
  /// wait in it are told `cancelled`, and nothing more can be deposited or redeemed in it.
  virtual void end_generation(generation_id last) = 0;

  /// Leases that were not redeemed yet.
  virtual std::size_t leased() const = 0;

  virtual const transport_counters& counters() const = 0;
};

ticket_bundle deposit(transport& to,
                      const bundle& parts,
                      generation_id generation,
                      const std::shared_ptr<const void>& until_taken = {});
bundle redeem(transport& from, const ticket_bundle& tickets, const redeemer& by = {});

}  // namespace troupe::runtime
