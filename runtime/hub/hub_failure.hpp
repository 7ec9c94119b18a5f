// Messages to the user about failed requests to the Hugging Face Hub.

#pragma once

#include "runtime/hub/hub_name.hpp"
#include "runtime/hub/hub_request.hpp"

#include <string>

namespace troupe::runtime {

/// True if the same request may succeed later: 429, 5xx and broken connections.
bool may_succeed_later(const hub_answer& x);

/// Throws input_error or io_error. `file` is empty for the model itself.
[[noreturn]] void refuse_answer(const hub_answer& x,
                                const hub_name& name,
                                const std::string& file,
                                const hub_service& service);

}  // namespace troupe::runtime
