// HTTP routes of the run's web page: GET / and GET /page/NAME, one for each file.
//
//   PAGE-1  These routes serve only files that are embedded in the program. A request cannot name a
//           file of the host, and the answers do not depend on the run. So they need no token.
//   PAGE-2  The page's Content-Security-Policy limits it to its own server. It allows only the
//           scripts and styles that are files of this page.

#pragma once

#include "runtime/http/server.hpp"
#include "runtime/watch/page_files.hpp"

#include <vector>

namespace troupe::runtime {

std::vector<http::server::route> page_routes(std::span<const page_file> files = page_files());

}  // namespace troupe::runtime
