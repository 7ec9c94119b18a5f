// Messages to and from a host agent (docs/protocol/host_agent.md): values and their JSON.

#pragma once

#include "runtime/process/process_end.hpp"
#include "runtime/process/process_id.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Increased when an older agent would misunderstand a message. Other versions are refused.
constexpr std::int64_t agent_protocol = 2;

/// Number of a start of the process with that name, from 1. Later starts have higher numbers.
using incarnation = std::uint64_t;

// --- requests; `request` is the sender's number and comes back in the answer --------------------

struct start_process {
  std::uint64_t request = 0;
  std::string name;                      ///< unique in this agent; see is_process_name
  incarnation which = 1;                 ///< starts when the one before has ended
  std::vector<std::string> command;      ///< the program's path, then its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE, added to the agent's environment
  std::filesystem::path output;          ///< see child_program
  bool operator==(const start_process&) const = default;
};

struct signal_process {
  std::uint64_t request = 0;
  std::string name;
  incarnation which = 0;
  int signal = 0;
  bool operator==(const signal_process&) const = default;
};

struct list_processes {
  std::uint64_t request = 0;
  bool operator==(const list_processes&) const = default;
};

/// Adopts a process that an earlier agent started and that outlived that agent. It is then treated
/// like one of this agent's own, but its exit status stays unknown. Answered like a start; refused
/// when the process does not run.
struct adopt_process {
  std::uint64_t request = 0;
  std::string name;
  incarnation which = 0;
  process_id process;
  bool operator==(const adopt_process&) const = default;
};

/// Sent by the supervisor process. When that process is gone without having sent `end`, the agent
/// starts this command in its place, under the name `successor_name`. "Gone" means: its connection
/// ended, or it sent no heartbeat for `silence` while the agent itself was running. The agent kills
/// it before it starts the successor. A second request of the same process replaces the first.
struct succeed_owner {
  std::uint64_t request = 0;
  std::vector<std::string> command;  ///< these three as in start_process
  std::vector<std::string> environment;
  std::filesystem::path output;
  process_id process;  ///< the sender
  double silence = 0;  ///< seconds
  bool operator==(const succeed_owner&) const = default;
};

/// Heartbeat of the process that sent succeed_owner, every `silence / 5`. Not answered.
struct owner_still_there {
  std::uint64_t request = 0;
  bool operator==(const owner_still_there&) const = default;
};

/// Kills all processes and ends the agent.
struct end_agent {
  std::uint64_t request = 0;
  bool operator==(const end_agent&) const = default;
};

using agent_request = std::variant<start_process,
                                   signal_process,
                                   list_processes,
                                   adopt_process,
                                   succeed_owner,
                                   owner_still_there,
                                   end_agent>;

/// Name under which an agent starts the successor of the supervisor process.
inline constexpr const char* successor_name = "supervisor";

// --- answers to one request, or notices to all owners -------------------------------------------

struct process_started {
  std::uint64_t request = 0;
  std::string name;
  incarnation which = 0;
  process_id process;
  bool operator==(const process_started&) const = default;
};

struct process_signalled {
  std::uint64_t request = 0;
  bool operator==(const process_signalled&) const = default;
};

/// An entry of a list. An ended process stays listed until its next incarnation.
struct known_process {
  std::string name;
  incarnation which = 0;
  process_id process;
  std::optional<process_end> ended;
  bool operator==(const known_process&) const = default;
};

struct processes_listed {
  std::uint64_t request = 0;
  std::vector<known_process> processes;
  bool operator==(const processes_listed&) const = default;
};

/// Answer to `succeed_owner`.
struct succession_agreed {
  std::uint64_t request = 0;
  bool operator==(const succession_agreed&) const = default;
};

struct request_refused {
  std::uint64_t request = 0;  ///< 0: the request could not be read
  std::string why;
  bool operator==(const request_refused&) const = default;
};

/// Sent to all owners.
struct process_died {
  std::string name;
  incarnation which = 0;
  process_id process;
  process_end how;
  bool operator==(const process_died&) const = default;
};

/// Sent to all owners as the last message: no process is left.
struct agent_ended {
  std::string why;
  bool operator==(const agent_ended&) const = default;
};

using agent_answer = std::variant<process_started,
                                  process_signalled,
                                  processes_listed,
                                  succession_agreed,
                                  request_refused,
                                  process_died,
                                  agent_ended>;

/// Process names are also file names: 1 to 64 letters, digits, '-', '_' and '.'; the first
/// character is not '.'.
bool is_process_name(std::string_view name);

std::uint64_t number_of(const agent_request& x);

/// JSON. Throw input_error when a text is not UTF-8.
std::string text_of(const agent_request& x);
std::string text_of(const agent_answer& x);

/// Throw input_error with a reason: not JSON, nested too deep, another version, an unknown type, or
/// a member that is missing, of the wrong type or out of range. Unknown members are ignored.
agent_request read_request(std::string_view text);
agent_answer read_answer(std::string_view text);

}  // namespace troupe::runtime
