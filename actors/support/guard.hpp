// End of a failing actor: with a reason that names the actor and the cause.

#pragma once

#include "messages/core/error.hpp"

#include <caf/scheduled_actor.hpp>

#include <exception>
#include <string>

namespace troupe::actors {

/// "who: what", with an error code by the kind of exception.
caf::error reason_of(const std::string& who, const std::exception_ptr& thrown);

/// When a handler throws, the actor ends with `reason_of`, so that its supervisor learns the cause.
/// Exit messages end it silently: its supervisor or node stops it with them.
void end_on_exception(caf::scheduled_actor* self, std::string who);

/// The reason of another actor's death as the cause of this actor's: the same code, "who: " in
/// front.
caf::error because_of(const std::string& who, const caf::error& reason);

}  // namespace troupe::actors
