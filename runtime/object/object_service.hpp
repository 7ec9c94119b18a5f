// Which S3 service is asked, and as whom: the variables and files that the AWS tools read.

#pragma once

#include "runtime/object/object_url.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Never printed.
struct object_credentials {
  std::string id, secret;
  std::string session_token;  ///< empty: none
};

struct object_service {
  std::string endpoint;  ///< "http://host:port", without a "/" at its end; empty: AWS's own
  std::string region = "us-east-1";
  std::optional<object_credentials> credentials = {};  ///< none: requests are anonymous
  std::string certificates;  ///< a file of authorities; empty: the system's
};

/// The value of an environment variable; nothing where it is not set.
using environment = std::function<std::optional<std::string>(const char*)>;

/// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
/// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_CA_BUNDLE; what they do not say
/// from the profile AWS_PROFILE ("default") of the files AWS_SHARED_CREDENTIALS_FILE
/// (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config). Throws input_error for half of a pair
/// of keys, a profile that is named and nowhere, one that only says how to get keys (a role, SSO, a
/// program), and values that no request may carry.
object_service service_from(const environment& variables);
object_service service_from_process();

/// Section to key to value, of such a file. Nested values (a key with lines below it that begin
/// with blanks) are left out. Throws input_error with the line's number, never with its text.
using profile_sections = std::map<std::string, std::map<std::string, std::string>>;
profile_sections parse_profiles(std::string_view text, std::string_view name);

/// "http://host:port/bucket/key" of a named endpoint; of AWS "https://bucket.s3.region...", but
/// with the bucket in the path where it has a dot, which no certificate covers.
std::string address_of(const object_service& service, const object_url& object);

}  // namespace troupe::runtime
