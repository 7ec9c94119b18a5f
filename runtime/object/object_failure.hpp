// Judges failed requests: whether to retry, and what to tell the user.

#pragma once

#include "runtime/object/object_request.hpp"

#include <string>

namespace troupe::runtime {

bool may_pass(const object_answer& x);  ///< a retry may succeed

/// Advice to the user by HTTP status.
const char* advice(long status, const object_service& service, const std::string& region);

/// "'s3://b/k': HTTP 403 AccessDenied: ..."
std::string story(const object_url& object, const object_answer& x);

}  // namespace troupe::runtime
