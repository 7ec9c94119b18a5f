// A job description as text, for the successor of the process that made it.

#pragma once

#include "messages/control/spawn.hpp"

#include <string>

namespace troupe::actors {

/// JSON.
std::string text_of(const messages::job_description& x);
/// Throws input_error; `what` begins the message.
messages::job_description read_job_description(const std::string& text, const std::string& what);

}  // namespace troupe::actors
