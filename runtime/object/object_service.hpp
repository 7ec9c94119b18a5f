// The S3 service and its credentials, from the environment variables and files of the AWS tools.

#pragma once

#include "runtime/object/object_url.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Must never be printed.
struct object_credentials {
  std::string id, secret;
  std::string session_token;  ///< empty: none
};

struct object_service {
  std::string endpoint;  ///< "http://host:port" without a trailing "/"; empty: AWS
  std::string region = "us-east-1";
  std::optional<object_credentials> credentials = {};  ///< empty: anonymous requests
  std::string certificates;  ///< file of certificate authorities; empty: the system's
};

/// Returns the value of an environment variable; empty if it is not set.
using environment = std::function<std::optional<std::string>(const char*)>;

/// Reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
/// AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and AWS_CA_BUNDLE. Missing values come
/// from the profile AWS_PROFILE ("default") in the files AWS_SHARED_CREDENTIALS_FILE
/// (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config). Throws input_error for half of a key
/// pair, an unknown AWS_PROFILE, a profile that only describes how to get keys (a role, SSO, a
/// program), and values that a request cannot contain.
object_service service_from(const environment& variables);
object_service service_from_process();

/// Parses such a file into section, key and value. Ignores nested values (indented lines below a
/// key). Throws input_error with the line number, but never with the text.
using profile_sections = std::map<std::string, std::map<std::string, std::string>>;
profile_sections parse_profiles(std::string_view text, std::string_view name);

/// "http://host:port/bucket/key" for a named endpoint, "https://bucket.s3.region..." for AWS. A
/// bucket with a dot goes into the path, because no certificate covers it.
std::string address_of(const object_service& service, const object_url& object);

}  // namespace troupe::runtime
