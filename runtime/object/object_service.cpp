#include "runtime/object/object_service.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <cstdlib>

namespace troupe::runtime {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view x) {
  const auto first = x.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return x.substr(first, x.find_last_not_of(blanks) - first + 1);
}

/// The value of the first variable that is set and not empty.
std::string first_of(const environment& variables, std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (const auto found = variables(name); found && !found->empty())
      return *found;
  return {};
}

/// The settings of the profile in both files.
std::map<std::string, std::string> profile_of(const environment& variables) {
  const auto named = first_of(variables, {"AWS_PROFILE"});
  const auto name = named.empty() ? std::string("default") : named;
  const auto home = first_of(variables, {"HOME"});
  std::map<std::string, std::string> out;
  bool found = false;
  const auto add = [&](const char* variable, const char* usual, const std::string& section) {
    const auto said = first_of(variables, {variable});
    if (said.empty() && home.empty())
      return;
    const std::filesystem::path path = said.empty() ? home + usual : said;
    std::error_code unreadable;
    if (!std::filesystem::exists(path, unreadable))
      return;
    const auto all = parse_profiles(read_text(path), path.string());
    const auto at = all.find(section);
    if (at == all.end())
      return;
    found = true;
    for (const auto& [key, value] : at->second)
      out.emplace(key, value);  // credentials are read first and take precedence
  };
  add("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials", name);
  add("AWS_CONFIG_FILE", "/.aws/config", name == "default" ? name : "profile " + name);
  if (!named.empty() && !found)
    throw input_error(
        "cannot read objects as AWS_PROFILE '{}': no such profile is in the credentials or config "
        "file; check the name, AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE",
        named);
  return out;
}

void require_printable(const char* what, std::string_view value) {
  if (std::any_of(
          value.begin(), value.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7f; }))
    throw input_error(
        "cannot read objects: the {} has a blank, a control character or one beyond ASCII, which "
        "requests cannot contain; set it again",
        what);
}

std::optional<object_credentials> credentials_from(const environment& variables,
                                                   std::map<std::string, std::string>& profile) {
  object_credentials out{first_of(variables, {"AWS_ACCESS_KEY_ID"}),
                         first_of(variables, {"AWS_SECRET_ACCESS_KEY"}),
                         first_of(variables, {"AWS_SESSION_TOKEN"})};
  const bool by_variables = !out.id.empty() || !out.secret.empty();
  if (!by_variables)
    out = {profile["aws_access_key_id"],
           profile["aws_secret_access_key"],
           profile["aws_session_token"]};
  if (out.id.empty() != out.secret.empty())
    throw input_error("cannot read objects: {} has {} but not {}; give both, or neither",
                      by_variables ? "the environment" : "the AWS profile",
                      out.id.empty() ? "the secret access key" : "the access key id",
                      out.id.empty() ? "the access key id" : "the secret access key");
  if (out.id.empty()) {
    for (const auto* way : {"role_arn", "sso_session", "sso_start_url", "credential_process"})
      if (profile.contains(way))
        throw input_error(
            "cannot read objects: the AWS profile only says by {} how to get keys, which Troupe "
            "does not support; put the keys into the environment, as `aws configure "
            "export-credentials` prints them",
            way);
    return std::nullopt;
  }
  require_printable("access key id", out.id);
  require_printable("secret access key", out.secret);
  require_printable("session token", out.session_token);
  return out;
}

void require_endpoint(const std::string& x) {
  const auto begin = x.starts_with("https://") ? 8 : x.starts_with("http://") ? 7 : 0;
  const auto rest = std::string_view(x).substr(std::size_t(begin));
  if (begin == 0 || rest.empty() || rest.find_first_of("@?#") != std::string_view::npos)
    throw input_error(
        "cannot read objects: the endpoint of AWS_ENDPOINT_URL is not an address; write "
        "https://HOST:PORT, without a user, a query or a fragment");
  require_printable("endpoint", x);
}

}  // namespace

profile_sections parse_profiles(std::string_view text, std::string_view name) {
  profile_sections out;
  std::map<std::string, std::string>* section = nullptr;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto line = trimmed(whole);
    const auto refuse = [&](const char* what) {
      throw input_error("cannot read '{}', line {}: {}", name, number, what);
    };
    if (line.empty() || line.front() == '#' || line.front() == ';')
      continue;
    if (line.front() == '[') {
      const auto close = line.find(']');
      if (close == std::string_view::npos)
        refuse("a section begins with '[' and has no ']'");
      section = &out[std::string(trimmed(line.substr(1, close - 1)))];
      continue;
    }
    if (blanks.find(whole.front()) != std::string_view::npos)
      continue;  // a nested value
    const auto equal = line.find('=');
    if (equal == std::string_view::npos || equal == 0)
      refuse("it is neither a [section] nor KEY = VALUE");
    if (section == nullptr)
      refuse("it is before the first [section]");
    std::string key(trimmed(line.substr(0, equal)));
    std::transform(key.begin(), key.end(), key.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    });
    (*section)[key] = trimmed(line.substr(equal + 1));
  }
  return out;
}

object_service service_from(const environment& variables) {
  auto profile = profile_of(variables);
  object_service out;
  out.credentials = credentials_from(variables, profile);
  out.region = first_of(variables, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (out.region.empty())
    out.region = profile["region"].empty() ? "us-east-1" : profile["region"];
  if (!std::all_of(out.region.begin(), out.region.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      }))
    throw input_error(
        "cannot read objects: a region has small letters, digits and hyphens, such as us-east-1; "
        "AWS_REGION or the AWS profile has another character");
  out.endpoint = first_of(variables, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (out.endpoint.empty())
    out.endpoint = profile["endpoint_url"];
  while (out.endpoint.ends_with('/'))
    out.endpoint.pop_back();
  if (!out.endpoint.empty())
    require_endpoint(out.endpoint);
  out.certificates = first_of(variables, {"AWS_CA_BUNDLE"});
  if (out.certificates.empty())
    out.certificates = profile["ca_bundle"];
  return out;
}

object_service service_from_process() {
  return service_from([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

std::string address_of(const object_service& service, const object_url& object) {
  const auto key = percent_encoded(object.key);
  if (!service.endpoint.empty())
    return fmt::format("{}/{}/{}", service.endpoint, object.bucket, key);
  const auto* domain = service.region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  if (object.bucket.find_first_of("._") != std::string::npos)
    return fmt::format("https://s3.{}.{}/{}/{}", service.region, domain, object.bucket, key);
  return fmt::format("https://{}.s3.{}.{}/{}", object.bucket, service.region, domain, key);
}

}  // namespace troupe::runtime
