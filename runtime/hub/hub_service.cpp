#include "runtime/hub/hub_service.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// The first variable that is set and not empty.
std::string first_of(const environment& variables, std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (const auto value = variables(name); value && !value->empty())
      return *value;
  return {};
}

bool is_true(std::string text) {
  std::ranges::transform(
      text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

/// A leading "~" is the home folder.
fs::path path_of(const std::string& text, const environment& variables) {
  if (!text.starts_with("~/"))
    return text;
  return fs::path(variables("HOME").value_or("")) / text.substr(2);
}

fs::path home_of(const environment& variables) {
  if (const auto named = first_of(variables, {"HF_HOME"}); !named.empty())
    return path_of(named, variables);
  if (const auto caches = first_of(variables, {"XDG_CACHE_HOME"}); !caches.empty())
    return path_of(caches, variables) / "huggingface";
  const auto home = first_of(variables, {"HOME"});
  return home.empty() ? fs::path() : fs::path(home) / ".cache/huggingface";
}

std::string trimmed(std::string text) {
  constexpr const char* blank = " \t\r\n";
  text.erase(text.find_last_not_of(blank) + 1);
  text.erase(0, std::min(text.find_first_not_of(blank), text.size()));
  return text;
}

std::string token_of(const environment& variables, const fs::path& home) {
  auto out = trimmed(first_of(variables, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (out.empty()) {
    const auto named = first_of(variables, {"HF_TOKEN_PATH"});
    const auto file = named.empty() ? home / "token" : path_of(named, variables);
    std::error_code failure;
    if (fs::is_regular_file(file, failure))
      out = trimmed(read_text(file));
  }
  if (!std::ranges::all_of(out, [](char c) { return c > 0x20 && c < 0x7f; }))
    throw input_error(
        "the token of the Hugging Face Hub has a blank or a control character: check HF_TOKEN and "
        "the file '{}'",
        (home / "token").string());
  return out;
}

std::string endpoint_of(std::string text) {
  while (text.ends_with('/'))
    text.pop_back();
  const auto host = text.find("://");
  if ((!text.starts_with("http://") && !text.starts_with("https://")) || host + 3 == text.size()
      || text.find_first_of("@?# \t\r\n") != std::string::npos)
    throw input_error(
        "HF_ENDPOINT is not the address of a Hub: write http://HOST:PORT or https://HOST, without "
        "a user, a password or a query");
  return text;
}

}  // namespace

hub_service hub_service_from(const environment& variables) {
  hub_service out;
  const auto home = home_of(variables);
  if (const auto endpoint = first_of(variables, {"HF_ENDPOINT"}); !endpoint.empty())
    out.endpoint = endpoint_of(endpoint);
  out.token = token_of(variables, home);
  const auto cache = first_of(variables, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (cache.empty() && home.empty())
    throw input_error(
        "there is no folder for downloads of the Hugging Face Hub: set HOME, HF_HOME or "
        "HF_HUB_CACHE");
  out.cache = cache.empty() ? home / "hub" : path_of(cache, variables);
  out.offline = is_true(first_of(variables, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  out.certificates = first_of(variables, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  return out;
}

hub_service hub_service_from_process() {
  return hub_service_from([](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace troupe::runtime
