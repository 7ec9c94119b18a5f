// The token of a viewer: the header `Authorization: Bearer TOKEN`, or a cookie of a page
// (docs/formats/telemetry.md).

#pragma once

#include "runtime/http/message.hpp"

#include <string_view>

namespace troupe::runtime {

/// True if the request has this token. Cookies do not distinguish ports, so each page of a host has
/// a cookie `troupe_token_PORT`, and a request may bring several. An empty token is never given.
bool gives_viewer_token(const http::request& x, std::string_view token);

/// True if the request brings a token or a cookie, right or wrong.
bool has_viewer_token(const http::request& x);

}  // namespace troupe::runtime
