// One request to an S3 service, over HTTP, signed by libcurl (AWS Signature Version 4).

#pragma once

#include "runtime/object/object_service.hpp"
#include "runtime/object/object_store.hpp"
#include "runtime/object/patience.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe::runtime {

struct object_request {
  object_url object;
  bool head = false;  ///< request only size and ETag
  std::uint64_t offset = 0;
  std::size_t size = 0;   ///< bytes from `offset`; at least 1 except for `head`
  std::string etag = {};  ///< fail if the object has another ETag; empty: no condition
};

struct object_answer {
  long status = 0;        ///< of HTTP; 0: no answer
  std::string failure;    ///< error of the transfer from libcurl; empty: none
  bool again = false;     ///< a retry after such an error may succeed
  bool given_up = false;  ///< the patience was over
  std::string etag, content_range, bucket_region;  ///< headers; empty: missing
  std::optional<std::uint64_t> length;             ///< Content-Length, for `head`
  std::string body;  ///< at most the requested bytes; for an error, its beginning
};

/// A pool of reused connections. Thread-safe; each request uses its own connection.
class object_connections {
 public:
  explicit object_connections(const object_limits& limits);
  ~object_connections();
  object_connections(const object_connections&) = delete;
  object_connections& operator=(const object_connections&) = delete;

  /// One attempt. Blocks, at most a second longer than the patience; errors are in the answer.
  /// Throws io_error if libcurl itself fails.
  object_answer ask(const object_service& service, const object_request& request, patience& until);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Parses one header line into `out`. A status line resets it: answers of a proxy, or status 100,
/// may precede the answer of the service.
void take_header_line(std::string_view line, object_answer& out);

/// <Code> and <Message> of an S3 error in XML; empty if missing. Printable, at most 200 bytes each.
struct object_refusal {
  std::string code, message;
};
object_refusal parse_refusal(std::string_view xml);

/// "bytes 0-9/100".
struct object_range {
  std::uint64_t first = 0, last = 0, whole = 0;
};
std::optional<object_range> parse_content_range(std::string_view text);

}  // namespace troupe::runtime
