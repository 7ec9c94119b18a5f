#include "messages/core/error.hpp"

#include <caf/exit_reason.hpp>

namespace troupe::messages {

std::string text_of(const caf::error& e) {
  if (!e)
    return "it ended normally";
  if (e.category() == caf::atom("troupe") && e.context().match_elements<std::string>())
    return e.context().get_as<std::string>(0);
  return "the actor system reports " + caf::to_string(e);
}

}  // namespace troupe::messages
