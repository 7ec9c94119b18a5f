// Settings for the start of the processes of a run.

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

/// The program of a place: connects with the rendezvous and does what run_node does
/// (node_process.hpp).
struct node_program {
  int process = 0;
  std::uint32_t incarnation = 0;
  std::string address;  ///< of the rendezvous; so is the port
  std::uint16_t port = 0;
};

/// A standing node: started by hand, waits for jobs (standing_node.hpp).
struct standing_node_address {
  std::string name;          ///< as the user wrote it: "host-1:7000"
  std::string address = {};  ///< numeric
  std::uint16_t port = 0;
  int slots = 1;            ///< processes that start there
  std::string domain = {};  ///< failure domain; empty: the host alone
  friend bool operator==(const standing_node_address&, const standing_node_address&) = default;
};

struct launch_settings {
  std::filesystem::path run;  ///< the run's folder, with credentials
  /// Command of a host agent; the descriptor of its connection is appended
  /// (runtime/process/agent_client.hpp).
  std::vector<std::string> agent;
  /// Command of a place: the program's path, then its arguments.
  std::function<std::vector<std::string>(const node_program&)> node;
  std::string address = "127.0.0.1";  ///< numeric address at which others reach this machine
  /// Places start at these standing nodes as runtime::hosts_of_processes says; further nodes are
  /// spare. Empty: all places start here.
  std::vector<standing_node_address> standing = {};
  bool insecure = false;  ///< without TLS between processes (control_plane.hpp)
  /// Incarnation of the supervisor process. Above 1: it takes over the agent and processes of the
  /// one before (docs/protocol/succession.md).
  std::uint32_t incarnation = 1;
  /// Command of this process's successor; empty: no successor.
  std::vector<std::string> successor = {};
  /// Set when a standing node's host continues the run after this host is lost.
  struct elsewhere {
    std::filesystem::path
        save;  ///< absolute path of the arbiter's folder (runtime/process/arbiter.hpp)
    runtime::contender who;   ///< this process, as a contender
    std::uint32_t round = 0;  ///< next round of the arbiter; this process holds the round before
    /// Called when another host continues the run. This process then ends; the call does not
    /// return.
    std::function<void(const std::string& why)> superseded;
    /// Called with true when no host can be reached: this process has resigned, and others may
    /// continue. Called with false when it has won again.
    std::function<void(bool now)> left_to_others;
  };
  std::optional<elsewhere> other_hosts = {};
};

}  // namespace troupe::actors
