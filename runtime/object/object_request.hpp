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
  bool head = false;  ///< asks for size and ETag alone
  std::uint64_t offset = 0;
  std::size_t size = 0;   ///< bytes asked for, from `offset`; at least 1 but for `head`
  std::string etag = {};  ///< answered only while the object has it; empty: whatever it has
};

struct object_answer {
  long status = 0;        ///< of HTTP; 0: there was no answer
  std::string failure;    ///< why the transfer failed, as libcurl says it; empty: it did not
  bool again = false;     ///< whether such a failure may pass
  bool given_up = false;  ///< the patience was over
  std::string etag, content_range, bucket_region;  ///< headers, empty where they are missing
  std::optional<std::uint64_t> length;             ///< Content-Length, for `head`
  std::string body;  ///< at most the bytes asked for; of an error its beginning
};

/// Connections that are used again. Any thread; a request has one to itself.
class object_connections {
 public:
  explicit object_connections(const object_limits& limits);
  ~object_connections();
  object_connections(const object_connections&) = delete;
  object_connections& operator=(const object_connections&) = delete;

  /// One attempt. Blocks, a second at most beyond the patience; what went wrong stands in the
  /// answer. Throws io_error where libcurl itself cannot be used.
  object_answer ask(const object_service& service, const object_request& request, patience& until);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Takes what `out` keeps of it from a line of the answer's head; a status line forgets what came
/// before, since a proxy's answer, or 100, may stand before the service's.
void take_header_line(std::string_view line, object_answer& out);

/// <Code> and <Message> of the XML that S3 answers errors with; empty where it has none. Printable,
/// and each at most 200 bytes.
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
