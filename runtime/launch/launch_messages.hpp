// Messages of the meeting of a launch, as JSON (docs/protocol/launch.md). Readers throw
// input_error.

#pragma once

#include "runtime/core/json_reader.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A process of a launch.
struct launch_member {
  int rank = 0, world = 1;
  std::optional<int> local_rank;  ///< rank among the processes of its host, if it is told
  std::string host;               ///< name
  std::string machine;            ///< equal for processes of one boot of one machine
  std::int64_t pid = 0;           ///< with `host`, tells two processes with one rank apart
  std::string build;              ///< version_text
  std::vector<std::string> command = {};
  int devices = 0, cores = 0;  ///< that this process may use
  std::string domain = {};     ///< failure domain that the launcher tells; may be empty
};

/// All have come, for one of them.
struct launch_begin {
  bool starts_node = false;
  std::string node;  ///< the address of this host's node before this process was started again
};

/// The end of the run, for the processes of its launch.
struct launch_end {
  int exit_code = 0;
  std::string reason;  ///< empty, or what a process says that is `first` of its host
  bool first = false;
};

/// Paths of the requests.
namespace launch_path {
constexpr const char *join = "/join", *node = "/node", *end = "/end", *heard = "/heard",
                     *ask_to_end = "/ask_to_end";
}  // namespace launch_path
constexpr int launch_end_status = 409;  ///< of an answer with a launch_end
/// The token of a launch without credentials.
constexpr const char* no_credentials_token = "insecure";
constexpr json_limits launch_message_limits = {.bytes = 256 << 10, .depth = 4};

nlohmann::json json_of(const launch_member& x);
nlohmann::json json_of(const launch_begin& x);
nlohmann::json json_of(const launch_end& x);
launch_member launch_member_in(const std::string& body);
launch_begin launch_begin_in(const std::string& body);
launch_end launch_end_in(const std::string& body);

}  // namespace troupe::runtime
