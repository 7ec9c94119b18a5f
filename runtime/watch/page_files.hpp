// The files of the run's web page (runtime/watch/page/) and of the chat page of a text server
// (runtime/watch/chat_page/), embedded in the program.
// cmake/embedded_files.cmake generates the source.

#pragma once

#include <span>
#include <string_view>

namespace troupe::runtime {

struct page_file {
  std::string_view path;  ///< "/" or "/page/NAME"
  std::string_view type;  ///< Content-Type
  std::string_view hash;  ///< of the bytes, hexadecimal
  std::string_view bytes;
};

/// All files. The views are valid for the lifetime of the process.
std::span<const page_file> page_files();
std::span<const page_file> chat_page_files();

}  // namespace troupe::runtime
