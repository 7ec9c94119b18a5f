// The actors of this program that nodes can spawn.

#pragma once

#include "actors/node/spawn_table.hpp"

#include <memory>

namespace troupe::actors {

std::shared_ptr<const spawn_table> every_actor();

}  // namespace troupe::actors
