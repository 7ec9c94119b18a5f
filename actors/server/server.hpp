// The server: answers OpenAI's HTTP requests with texts that its generator computes
// (docs/protocol/serving.md).
//
//   SERVER-1  A client that closes its connection has its texts cancelled within one forward pass.
//   SERVER-2  A request beyond the queue is refused with status 429 at once. Requests that were
//             accepted are finished before a drained server ends.
//   SERVER-3  A client that reads a stream too slowly is cut off; memory for it is bounded.

#pragma once

#include "actors/server/request_desk.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/serving/served_model.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

struct server_settings {
  std::vector<std::string> keys;       ///< bearer keys, one of which a request needs; empty: none
  std::int64_t most_open = 256;        ///< texts that are computed or wait
  std::chrono::seconds time{600};      ///< for a request
  std::uint64_t seed = 0;              ///< draws the seeds of requests without one
  std::int64_t started = 0;            ///< seconds since 1970
  bool embeds = false;                 ///< the model turns texts into vectors
  std::function<std::int64_t()> date;  ///< seconds since 1970
};

/// Spawns the actor on a thread of its own, which parses and tokenizes. It ends when it is drained,
/// or with the generator's reason. The model outlives it.
messages::server_actor spawn_server(caf::actor_system& system,
                                    const std::shared_ptr<request_desk>& desk,
                                    const messages::generator_actor& generator,
                                    const runtime::serving::served_model& model,
                                    server_settings how);

}  // namespace troupe::actors
