// What a host agent is told and tells (docs/protocol/host_agent.md): values, and their JSON.

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

/// Raised when an older one would misunderstand a message; another one is refused.
constexpr std::int64_t agent_protocol = 1;

/// Which process of a name: the agent counts its starts, from 1.
using incarnation = std::uint64_t;

// --- asked; `request` numbers what the asker asks, and comes back in the answer ------------------

struct start_process {
  std::uint64_t request = 0;
  std::string name;                      ///< nobody else's of this agent: is_process_name
  std::vector<std::string> command;      ///< the program's path, then its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE, over the agent's
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

/// Watch a process that an agent before this one has started, and that has outlived it: from now on
/// it is as one that this one has started, but for how it ends, which no parent of ours sees.
/// Answered as a start; refused when that process does not run.
struct adopt_process {
  std::uint64_t request = 0;
  std::string name;
  incarnation which = 0;  ///< the next start of the name gets the one after it
  process_id process;
  bool operator==(const adopt_process&) const = default;
};

/// By the run's supervisor's process: when it is gone and has not said `end`, this command is to be
/// started in its place, as `successor_name`. It is gone when its connection has ended, or when
/// nothing was heard from it for so long while the agent itself was awake; whatever still runs of
/// it is killed first. Asked again by the same process it replaces what was asked before.
struct succeed_owner {
  std::uint64_t request = 0;
  std::vector<std::string> command;      ///< as of start_process
  std::vector<std::string> environment;  ///< the same
  std::filesystem::path output;          ///< the same
  process_id process;                    ///< who asks
  double silence = 0;                    ///< seconds
  bool operator==(const succeed_owner&) const = default;
};

/// By who has asked to be succeeded, every fifth of its silence. Not answered.
struct owner_still_there {
  std::uint64_t request = 0;
  bool operator==(const owner_still_there&) const = default;
};

/// Kill everybody, and end.
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

/// The name of a successor of the run's supervisor's process among those that an agent has started.
inline constexpr const char* successor_name = "supervisor";

// --- answered, or told to all who ever asked ----------------------------------------------------

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

/// As a list has it; one that ended stays there until its next incarnation.
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

/// To `succeed_owner`.
struct succession_agreed {
  std::uint64_t request = 0;
  bool operator==(const succession_agreed&) const = default;
};

struct request_refused {
  std::uint64_t request = 0;  ///< 0: it could not be read
  std::string why;
  bool operator==(const request_refused&) const = default;
};

/// To all.
struct process_died {
  std::string name;
  incarnation which = 0;
  process_id process;
  process_end how;
  bool operator==(const process_died&) const = default;
};

/// To all: nothing is left, and this is the last.
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

/// Names of processes are names of files, too: 1 to 64 letters, digits, '-', '_' and '.', which is
/// not the first.
bool is_process_name(std::string_view name);

std::uint64_t number_of(const agent_request& x);

/// JSON. Throw input_error for what is not UTF-8.
std::string text_of(const agent_request& x);
std::string text_of(const agent_answer& x);

/// Throw input_error that says what is wrong: no JSON, nested too deep, another version, an unknown
/// type, a member that is missing or of another type or out of range. Members that are not known
/// are passed over.
agent_request read_request(std::string_view text);
agent_answer read_answer(std::string_view text);

}  // namespace troupe::runtime
