// What a stage keeps of a pass that another replica computes again. On a lane.

#pragma once

#include "actors/stage/stage_context.hpp"
#include "messages/training/handoff.hpp"
#include "runtime/transport/transport.hpp"

#include <optional>

namespace troupe::actors {

/// When the forward has been computed.
void keep_forward(stage_context& context,
                  const runtime::pass_key& key,
                  const runtime::bundle& in,
                  const runtime::bundle& out);

/// Before a block's input gradient is computed: `in` is used up by that.
void keep_gradient(stage_context& context, const runtime::pass_key& key, const runtime::bundle& in);
/// When the first block has come to the input gradient, the last of the backward pass.
void keep_input_gradient(stage_context& context,
                         const runtime::pass_key& key,
                         const runtime::bundle& out);

/// W of the pass: computes it. Returns what to send, with the last block.
std::optional<messages::check_pass> add_and_keep(stage_context& context,
                                                 const runtime::pass_key& key,
                                                 int block,
                                                 runtime::transport& by,
                                                 runtime::generation_id generation);

}  // namespace troupe::actors
