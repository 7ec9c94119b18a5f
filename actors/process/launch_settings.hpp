// How the processes of a run are started.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/process/arbiter.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// What is started for a place of the job: it connects with the rendezvous and does as run_node
/// (node_process.hpp).
struct node_program {
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string address;     ///< of the rendezvous
  std::uint16_t port = 0;  ///< the same
};

/// A node that was started by hand and waits for jobs (standing_node.hpp).
struct standing_node_address {
  std::string name;          ///< as its user named it: "host-1:7000"
  std::string address = {};  ///< numeric
  std::uint16_t port = 0;
  friend bool operator==(const standing_node_address&, const standing_node_address&) = default;
};

struct launch_settings {
  std::filesystem::path run;  ///< the run's folder, with credentials
  /// Starts a host agent: its connection's descriptor is added (runtime/process/agent_client.hpp).
  std::vector<std::string> agent;
  /// The command that starts this one: the program's path, then its arguments.
  std::function<std::vector<std::string>(const node_program&)> node;
  std::string address = "127.0.0.1";  ///< numeric, of this machine: where others reach it
  /// Place p is started by the p-th of them, and those beyond the places are spare; none: all are
  /// started here.
  std::vector<standing_node_address> standing = {};
  /// Nodes outlive the agent that has started them (agent_link.hpp).
  bool outlived = false;
  bool insecure = false;  ///< without TLS between processes (control_plane.hpp)
  /// Of the supervisor's process. Above 1: it goes on with what the one before has left, agent and
  /// processes (docs/protocol/succession.md).
  std::uint32_t incarnation = 1;
  /// The command of a process that goes on when this one is gone; empty: nobody does.
  std::vector<std::string> successor = {};
  /// A standing node's host goes on when this one's is gone. Nothing: none does.
  struct elsewhere {
    std::filesystem::path save;  ///< absolute: where the arbiter is (runtime/process/arbiter.hpp)
    runtime::contender who;      ///< this process there
    std::uint32_t round = 0;     ///< the arbiter's next: this process holds the one before
    /// Another host goes on with the run, and this process ends: does not return.
    std::function<void(const std::string& why)> superseded;
    /// No host is reached any more: this process has resigned, and others may go on. Or it has won
    /// again.
    std::function<void(bool now)> left_to_others;
  };
  std::optional<elsewhere> other_hosts = {};
};

}  // namespace troupe::actors
