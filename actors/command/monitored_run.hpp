// The run that `troupe monitor` shows: a folder of this host, or the address of a hub.

#pragma once

#include "actors/command/command_line.hpp"
#include "actors/command/run_flag.hpp"
#include "runtime/watch/follower.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace troupe::command {

struct monitored_run {
  named_run_folder named;  ///< a word may also be an address
  std::filesystem::path token_file, authority;
  std::string at;  ///< HOST:PORT as a flag
};

std::shared_ptr<monitored_run> declare_monitored_run(command_line& line);
/// Same, for commands: the run is named by flags, --run or --at.
std::shared_ptr<monitored_run> declare_commanded_run(command_line& line);

/// "http://HOST:PORT" of a word HOST:PORT or a URL; https with `tls`. Empty for another word.
/// Throws usage_error for an address that cannot be one.
std::optional<std::string> url_of(const std::string& word, bool tls);

/// The hub to follow. Throws usage_error unless one run is named, input_error for an unreadable
/// token, and as open_run.
runtime::followed_run find_monitored_run(const monitored_run& given);

/// Same, with the control token, which a folder has in its file.
runtime::http::service_address find_commanded_run(const monitored_run& given);

/// An address that does not answer is wrong; a run named by its folder may still be starting.
runtime::follower_limits limits_for(const runtime::followed_run& run);

}  // namespace troupe::command
