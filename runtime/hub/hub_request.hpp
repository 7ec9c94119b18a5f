// Requests to the Hugging Face Hub over HTTP, by libcurl.

#pragma once

#include "runtime/hub/hub_service.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct hub_answer {
  long status = 0;           ///< of HTTP; 0: no answer
  std::string failure;       ///< error of the transfer from libcurl; empty: none
  bool may_pass = false;     ///< a retry after such an error may succeed
  bool unreachable = false;  ///< no server answered at this address
  std::string commit, linked_etag, linked_size, etag, length, error_code;  ///< headers
  std::string content_range;                                               ///< header
  std::string location;  ///< absolute address of a redirection; empty: none
  std::string body;      ///< without a sink, at most 16 MiB; of an error, its beginning
};

/// Receives the bytes of an answer with status 200 or 206; its status and headers are known.
using hub_sink = std::function<void(const hub_answer& begun, std::string_view bytes)>;

/// One connection, reused by consecutive requests. One thread uses it.
///
/// The token goes to the origin (scheme, host and port) of the endpoint only, whatever an answer
/// redirects to (DOWNLOAD-1). A redirection from https to http is an error.
class hub_connection {
 public:
  explicit hub_connection(hub_service service);
  ~hub_connection();
  hub_connection(const hub_connection&) = delete;
  hub_connection& operator=(const hub_connection&) = delete;

  const hub_service& service() const { return service_; }

  /// One attempt, with redirections; `path` follows the endpoint and begins with "/". Errors of the
  /// transfer are in the answer. Throws io_error if libcurl itself fails; exceptions of the sink
  /// pass through.
  hub_answer read(const std::string& path, std::uint64_t offset = 0, const hub_sink& sink = {});

  /// Headers of a file. Ends at the redirection that leaves the endpoint, because its headers
  /// describe the file.
  hub_answer head(const std::string& path);

 private:
  struct hop;
  hub_answer ask(const hop& x);

  hub_service service_;
  std::unique_ptr<void, void (*)(void*)> curl_;
};

/// "http://host:port" of an address.
std::string_view origin_of(std::string_view address);

}  // namespace troupe::runtime
