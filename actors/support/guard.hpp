// How an actor ends when something goes wrong: with a reason that names it and carries the cause.

#pragma once

#include "messages/core/error.hpp"

#include <caf/scheduled_actor.hpp>

#include <exception>
#include <string>

namespace troupe::actors {

/// "who: what", with a code that says by whose fault.
caf::error reason_of(const std::string& who, const std::exception_ptr& thrown);

/// Ends the actor with `reason_of` when a handler throws, so that its supervisor learns why. An
/// exit message ends it too, and silently: exits are how its supervisor or node stops it.
void end_on_exception(caf::scheduled_actor* self, std::string who);

/// The reason of another actor's death as the cause of one's own: same code, "who: " in front.
caf::error because_of(const std::string& who, const caf::error& reason);

}  // namespace troupe::actors
