// What a simulated run is disturbed at, and with.

#pragma once

#include "actors/support/message_path.hpp"

#include <caf/actor.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <typeindex>

namespace troupe::actors::simulation {

/// The message whose handling is a moment of that name. Throws input_error: there is none.
std::type_index type_of_moment(const std::string& name);

/// To a stage or the supervisor, by the name of its kind: messages of the generation before, and of
/// one that nobody has told of yet, which are all to be dropped.
void send_stale(const message_path& by,
                const caf::actor& to,
                const std::string& kind,
                std::uint64_t step);

/// Of files of weights and moments, by their names below the folder.
std::map<std::string, std::string> hashes_of_weights(const std::filesystem::path& folder);

}  // namespace troupe::actors::simulation
