// The files of the run's page (runtime/watch/page/), in the program. cmake/embedded_files.cmake
// writes the source.

#pragma once

#include <span>
#include <string_view>

namespace troupe::runtime {

struct page_file {
  std::string_view path;  ///< "/" or "/page/NAME"
  std::string_view type;  ///< Content-Type
  std::string_view hash;  ///< of the bytes, in hexadecimal digits
  std::string_view bytes;
};

/// Live as long as the process.
std::span<const page_file> page_files();

}  // namespace troupe::runtime
