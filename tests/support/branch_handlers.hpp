// Handlers of a played node for its part as a branch.

#pragma once

#include "messages/protocol/actors.hpp"

#include <caf/send.hpp>

#include <utility>
#include <vector>

namespace troupe::tests {

/// A behaviour of a node from the handlers of its other messages. Passes orders on to the replicas
/// in `below`, and drops reports.
template <class... Handlers>
messages::node_actor::behavior_type as_branch(std::vector<messages::replica_actor>& below,
                                              Handlers... rest) {
  const auto passes = [&below](const auto& x) {
    for (const auto& replica : below)
      caf::anon_send(replica, x);
  };
  return {std::move(rest)...,
          [passes](const messages::run_step& x) { passes(x); },
          [passes](const messages::decision& x) { passes(x); },
          [passes](const messages::take_snapshot& x) { passes(x); },
          [passes](const messages::drop_snapshot& x) { passes(x); },
          [passes](const messages::use_checkpointer& x) { passes(x); },
          [](const messages::use_branches&) {},
          [](const messages::ready&) {},
          [](const messages::vote&) {},
          [](const messages::applied&) {},
          [](const messages::kept&) {}};
}

}  // namespace troupe::tests
