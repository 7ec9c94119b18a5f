// The state of a rank in transfer between its stage and a keeper: arrays as tickets.

#pragma once

#include "messages/checkpoint/keeping.hpp"
#include "runtime/state/rank_estate.hpp"
#include "runtime/transport/transport.hpp"

#include <vector>

namespace troupe::actors {

messages::state_of_rank deposited(runtime::transport& to,
                                  const runtime::rank_state& x,
                                  runtime::generation_id generation);
/// KEEPER-1: the tickets are of another process, so the arrays are owned by the caller. Throws as
/// transport::redeem_all.
runtime::rank_state redeemed(runtime::transport& from,
                             const messages::state_of_rank& x,
                             const runtime::redeemer& by);
/// `tensors`: those of tickets_of(x).
runtime::rank_state assembled(const messages::state_of_rank& x,
                              std::vector<runtime::tensor> tensors);
std::vector<runtime::ticket> tickets_of(const messages::state_of_rank& x);

}  // namespace troupe::actors
