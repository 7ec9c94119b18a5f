#include "runtime/object/object_failure.hpp"

#include "runtime/object/http_answer.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

bool may_pass(const object_answer& x) {
  return x.failure.empty() ? may_pass(x.status) : x.again;
}

const char* advice(long status, const object_service& service, const std::string& region) {
  switch (status) {
    case 400:
      return "check the keys, and that AWS_REGION is the bucket's";
    case 401:
    case 403:
      return service.credentials ? "check that these keys may read it (s3:GetObject) and are valid"
                                 : "no keys were found, so the request was anonymous: set "
                                   "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
    case 404:
      return "check the bucket, the key (without .bin or .idx), and AWS_ENDPOINT_URL";
    case 301:
    case 307:
      return region.empty() ? "set AWS_REGION to the bucket's"
                            : "set AWS_REGION to the region above";
    default:
      return "check AWS_ENDPOINT_URL (for its certificate AWS_CA_BUNDLE), and whether the service "
             "is well";
  }
}

std::string story(const object_url& object, const object_answer& x) {
  if (!x.failure.empty())
    return fmt::format("'{}': {}", to_string(object), x.failure);
  auto said = parse_refusal(x.body);
  while (said.message.ends_with('.'))
    said.message.pop_back();
  auto out = fmt::format("'{}': HTTP {}", to_string(object), x.status);
  if (!said.code.empty())
    out += ' ' + said.code;
  if (!said.message.empty())
    out += ": " + said.message;
  if (!x.bucket_region.empty() && (x.status == 301 || x.status == 307 || x.status == 400))
    out += fmt::format(" (the bucket is in region {})", x.bucket_region);
  return out;
}

}  // namespace troupe::runtime
