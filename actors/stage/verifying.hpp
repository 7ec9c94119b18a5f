// What a stage keeps of a pass that another replica computes again. On a lane.

#pragma once

#include "actors/stage/stage_context.hpp"
#include "messages/training/handoff.hpp"
#include "runtime/transport/transport.hpp"

#include <optional>

namespace troupe::actors {

/// When the forward has been computed: what to send, if nothing more is to come of the pass.
std::optional<messages::check_pass> keep_forward(stage_context& context,
                                                 const runtime::pass_key& key,
                                                 const runtime::bundle& in,
                                                 const runtime::bundle& out,
                                                 runtime::transport& by,
                                                 runtime::generation_id generation);

/// When its first block has come to the input gradient, the last of the backward pass.
std::optional<messages::check_pass> keep_gradient(stage_context& context,
                                                  const runtime::pass_key& key,
                                                  const runtime::bundle& out,
                                                  runtime::transport& by,
                                                  runtime::generation_id generation);

}  // namespace troupe::actors
