// Data that a stage keeps of a pass for its verification by another replica. Used on a lane.

#pragma once

#include "actors/stage/stage_context.hpp"
#include "messages/training/handoff.hpp"
#include "runtime/transport/transport.hpp"

#include <optional>

namespace troupe::actors {

/// Call it after the forward pass.
void keep_forward(stage_context& context,
                  const runtime::pass_key& key,
                  const runtime::bundle& in,
                  const runtime::bundle& out);

/// Call it before a block's input gradients, which consume `in`.
void keep_gradient(stage_context& context, const runtime::pass_key& key, const runtime::bundle& in);
/// Call it after the input gradients of the first block, the last of the backward pass.
void keep_input_gradient(stage_context& context,
                         const runtime::pass_key& key,
                         const runtime::bundle& out);

/// Computes the pass's weight gradients. Returns the data to send with the last block.
std::optional<messages::check_pass> add_and_keep(stage_context& context,
                                                 const runtime::pass_key& key,
                                                 int block,
                                                 runtime::transport& by,
                                                 runtime::generation_id generation);

}  // namespace troupe::actors
