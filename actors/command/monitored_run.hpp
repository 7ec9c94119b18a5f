// The run that `troupe monitor` shows and `troupe ctl` commands: named by its folder on this host,
// or by the address of its hub.

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
  named_run_folder named;                       ///< the word may also be HOST:PORT or a URL
  std::filesystem::path token_file, authority;  ///< --token-file, --ca
  std::string at;                               ///< --at: HOST:PORT or a URL
};

/// Declares the run for `troupe monitor`: as a word or with --run.
std::shared_ptr<monitored_run> declare_monitored_run(command_line& line);
/// Same for `troupe ctl`: with --run or --at, because the words are the command.
std::shared_ptr<monitored_run> declare_commanded_run(command_line& line);

/// URL of the hub for HOST:PORT or a URL; https with `tls`. Empty for any other word. Throws
/// usage_error for an invalid address.
std::optional<std::string> url_of(const std::string& word, bool tls);

/// Returns the hub of the run. Throws usage_error unless exactly one run is named, input_error for
/// a file without a token, io_error for a file that cannot be read, and as open_run.
runtime::followed_run find_monitored_run(const monitored_run& given);

/// Same for commands, with the control token; a run's folder contains it. Throws input_error when
/// the run has ended or died.
runtime::http::service_address find_commanded_run(const monitored_run& given);

/// Limits of retries. Few for an address, which is probably wrong when it does not answer. More for
/// a folder, because its run may still be starting.
runtime::follower_limits limits_for(const runtime::followed_run& run);

}  // namespace troupe::command
