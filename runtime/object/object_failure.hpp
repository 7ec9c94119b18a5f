// What is made of a request that a service did not answer as it should.

#pragma once

#include "runtime/object/object_request.hpp"

#include <string>

namespace troupe::runtime {

bool may_pass(const object_answer& x);  ///< whether a second attempt may go well

/// What the user can do.
const char* advice(long status, const object_service& service, const std::string& region);

/// "'s3://b/k': HTTP 403 AccessDenied: ..."
std::string story(const object_url& object, const object_answer& x);

}  // namespace troupe::runtime
