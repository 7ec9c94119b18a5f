// Checks the token of a viewer. A request has it in the header `Authorization: Bearer TOKEN` or in
// a cookie of the page (docs/formats/telemetry.md).

#pragma once

#include "runtime/http/message.hpp"

#include <string_view>

namespace troupe::runtime {

/// True if the request has this token; false for an empty token. Browsers share cookies between the
/// ports of a host. So the cookie of a page is `troupe_token_PORT`, and a request may have several.
bool gives_viewer_token(const http::request& x, std::string_view token);

/// True if the request has any token or cookie, valid or not.
bool has_viewer_token(const http::request& x);

}  // namespace troupe::runtime
