// Routes of the run's page: GET / and GET /page/NAME, one for each file.
//
//   PAGE-1  These routes serve the program's own files alone: no path of a request names a file of
//           the system, and no answer depends on the run. So they need no token.
//   PAGE-2  The page's Content-Security-Policy lets it load and call nothing but its own server,
//           and run no script or style that is not one of these files.

#pragma once

#include "runtime/http/server.hpp"

#include <vector>

namespace troupe::runtime {

std::vector<http::server::route> page_routes();

}  // namespace troupe::runtime
