// Moments of a simulated run, stale messages, and hashes of its checkpoints.

#pragma once

#include "actors/support/message_path.hpp"

#include <caf/actor.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <typeindex>

namespace troupe::actors::simulation {

/// The type of message that the moment is named after. Throws input_error for an unknown name.
std::type_index type_of_moment(const std::string& name);

/// Sends messages of the previous generation and of a future one to a stage or the supervisor
/// (`kind`). The receiver must drop them all.
void send_stale(const message_path& by,
                const caf::actor& to,
                const std::string& kind,
                std::uint64_t step);

/// Hashes of all safetensors files, by path below the folder.
std::map<std::string, std::string> hashes_of_weights(const std::filesystem::path& folder);

}  // namespace troupe::actors::simulation
