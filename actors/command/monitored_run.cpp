#include "actors/command/monitored_run.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/run_control.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

namespace troupe::command {
namespace {

constexpr std::string_view plain_scheme = "http://", tls_scheme = "https://";

/// HOST:PORT, also with an IPv6 address in brackets.
bool is_host_and_port(std::string_view word) {
  const auto colon = word.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == word.size())
    return false;
  const auto host = word.substr(0, colon), port = word.substr(colon + 1);
  const auto is_digit = [](char x) { return x >= '0' && x <= '9'; };
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return std::ranges::all_of(port, is_digit)
         && (in_brackets || host.find_first_of(":/@[] ") == std::string_view::npos);
}

void require_port(const std::string& word, std::string_view address) {
  const auto text = address.substr(address.rfind(':') + 1);
  unsigned port = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failure != std::errc() || port == 0 || port > 65535)
    throw usage_error("'{}' has no port from 1 to 65535: give HOST:PORT of the run's hub",
                      shown(word));
}

/// `rest`: the part after the scheme.
std::string checked_url(const std::string& word, std::string_view scheme, std::string_view rest) {
  while (rest.ends_with('/'))
    rest.remove_suffix(1);
  if (rest.empty() || rest.find_first_of("/?#@ ") != std::string_view::npos)
    throw usage_error(
        "'{}' is not the address of a hub: give {}HOST:PORT without a path, a user or a token",
        shown(word),
        scheme);
  if (is_host_and_port(rest))
    require_port(word, rest);
  return std::string(scheme) + std::string(rest);
}

/// `copied`: name of this token's file in the run's folder, for the error.
std::string read_token(const std::filesystem::path& file, const char* copied) {
  if (file.empty())
    return "";
  constexpr std::size_t longest = 4096;
  const auto text = runtime::read_text(file);
  const auto size = std::min(text.find_last_not_of(" \t\r\n") + 1, text.size());
  const auto token = text.substr(0, size);
  if (token.empty() || token.size() > longest
      || !std::ranges::all_of(token, [](char x) { return x > ' ' && x < '\x7f'; }))
    throw runtime::input_error(
        "'{}' has no token: one word on one line is expected; copy the file '{}' of the run's "
        "folder",
        file.string(),
        copied);
  return token;
}

/// Throws io_error unless the file can be read. An empty name: no file.
void require_readable(const std::filesystem::path& file) {
  if (!file.empty())
    static_cast<void>(runtime::read_text(file));
}

runtime::followed_run by_folder(const monitored_run& given) {
  if (!given.token_file.empty() || !given.authority.empty())
    throw usage_error(
        "--token-file and --ca are for HOST:PORT, but the run is named by its folder: leave them "
        "out");
  if (given.named.flag.empty() && given.named.words.size() == 1) {
    const auto& word = given.named.words.front();
    std::error_code ignored;
    if (!std::filesystem::exists(word, ignored) && word.find('/') == std::string::npos)
      throw usage_error(
          "'{}' is not a folder and has no port: give the run's folder, or HOST:PORT of its hub",
          shown(word));
  }
  auto folder = open_run(given.named);
  return {.at = {.url = {}, .folder = folder.sockets(), .socket = runtime::run_folder::hub_socket},
          .folder = std::move(folder)};
}

}  // namespace

std::shared_ptr<monitored_run> declare_monitored_run(command_line& line) {
  auto out = std::make_shared<monitored_run>();
  line.words(
      "DIR|HOST:PORT",
      "Folder of the run (the one of --run at its start, or its --save folder), or HOST:PORT "
      "or URL of its hub.",
      out->named.words);
  line.value({.name = "--run", .type = "DIR", .help = "DIR as a flag."}, text(out->named.flag));
  line.value({.name = "--token-file",
              .type = "FILE",
              .help = "With HOST:PORT: file with the read token, a copy of read.token in the run's "
                      "folder."},
             text(out->token_file));
  line.value({.name = "--ca",
              .type = "FILE",
              .default_value = "no TLS; with https://, the system's certificates",
              .help = "With HOST:PORT: uses TLS and trusts the certificates in FILE (PEM)."},
             text(out->authority));
  return out;
}

std::shared_ptr<monitored_run> declare_commanded_run(command_line& line) {
  auto out = std::make_shared<monitored_run>();
  line.value({.name = "--run",
              .type = "DIR",
              .help = "Folder of the run: the one of --run at its start, or its --save folder."},
             text(out->named.flag));
  line.value({.name = "--at",
              .type = "HOST:PORT",
              .help = "HOST:PORT or URL of the run's hub, instead of its folder."},
             text(out->at));
  line.value(
      {.name = "--token-file",
       .type = "FILE",
       .help = "With --at, required: file with the control token, a copy of control.token in "
               "the run's folder."},
      text(out->token_file));
  line.value({.name = "--ca",
              .type = "FILE",
              .default_value = "no TLS; with https://, the system's certificates",
              .help = "With --at: uses TLS and trusts the certificates in FILE (PEM)."},
             text(out->authority));
  return out;
}

std::optional<std::string> url_of(const std::string& word, bool tls) {
  const std::string_view view = word;
  if (view.starts_with(tls_scheme))
    return checked_url(word, tls_scheme, view.substr(tls_scheme.size()));
  if (view.starts_with(plain_scheme) && tls)
    throw usage_error("'{}' has no TLS, but --ca needs TLS: give https://HOST:PORT", shown(word));
  if (view.starts_with(plain_scheme))
    return checked_url(word, plain_scheme, view.substr(plain_scheme.size()));
  std::error_code ignored;
  if (!is_host_and_port(view) || std::filesystem::is_directory(word, ignored))
    return {};
  return checked_url(word, tls ? tls_scheme : plain_scheme, view);
}

runtime::followed_run find_monitored_run(const monitored_run& given) {
  const auto& words = given.named.words;
  if (words.empty() && given.named.flag.empty())
    throw usage_error("the run is missing: give its folder, or HOST:PORT of its hub");
  if (words.size() != 1 || !given.named.flag.empty())
    return by_folder(given);
  auto url = url_of(words.front(), !given.authority.empty());
  if (!url)
    return by_folder(given);
  require_readable(given.authority);
  return {.at = {.url = *std::move(url),
                 .folder = {},
                 .socket = {},
                 .token = read_token(given.token_file, "read.token"),
                 .authority = given.authority}};
}

runtime::http::service_address find_commanded_run(const monitored_run& given) {
  if (given.at.empty() == given.named.flag.empty())
    throw usage_error("the run is {}: give --run DIR or --at HOST:PORT",
                      given.at.empty() ? "missing" : "named twice");
  if (given.at.empty()) {
    auto out = by_folder(given);
    const auto status = runtime::status_of(*out.folder, [](const std::string&) {});
    if (status.condition == runtime::run_condition::ended
        || status.condition == runtime::run_condition::died)
      throw runtime::input_error("cannot send the command: the run in '{}' has {}",
                                 out.folder->path().string(),
                                 runtime::name_of(status.condition));
    std::error_code ignored;
    if (!std::filesystem::exists(out.folder->control_token(), ignored))
      throw runtime::input_error(
          "cannot send the command: the run in '{}' is still starting, or has no hub; wait, or use "
          "`troupe status`",
          out.folder->path().string());
    out.at.token = read_token(out.folder->control_token(), "control.token");
    return std::move(out.at);
  }
  auto url = url_of(given.at, !given.authority.empty());
  if (!url)
    throw usage_error("'{}' (--at) is not HOST:PORT: give the address of the run's hub",
                      shown(given.at));
  if (given.token_file.empty())
    throw usage_error(
        "--at needs the control token: give --token-file with a copy of 'control.token' in the "
        "run's folder");
  require_readable(given.authority);
  return {.url = *std::move(url),
          .token = read_token(given.token_file, "control.token"),
          .authority = given.authority};
}

runtime::follower_limits limits_for(const runtime::followed_run& run) {
  runtime::follower_limits out;
  if (!run.folder)
    out.first_attempts = 3;
  return out;
}

}  // namespace troupe::command
