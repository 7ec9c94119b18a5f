// Messages of a standing node: a process that an operator started on a host, and that waits for
// jobs. It hosts no ranks; its host agent starts the processes that do.
//
//   launcher -> standing node   serve         its job, with places or as a spare; answered by
//                                             `serving`, or refused. A successor of a launcher
//                                             continues the job; the answer lists running processes
//                               start_node    start a process for a place of the job
//                               kill_node     kill that process
//                               kill_agent    its host agent does not answer
//                               dismiss       no process is needed anymore
//                               keep_run      what it needs to continue the run if the supervisor's
//                                             host is lost; sent again on changes
//                               keep_ledger   new lines of the ledger, for the same purpose
//   standing node -> launcher   agent_told    an answer of its host agent (rendezvous.hpp)
//   standing node, to itself    hold_is_over  no successor of a lost launcher has come
//                               succeed_here  the same, and this node continues the run
//                               successor_ended  that process has ended
//
// It serves one job at a time. A job ends when it is dismissed and its processes are gone, or when
// its launcher is gone and no successor comes.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe::messages {

struct serve {
  std::uint32_t protocol = process_protocol;
  std::string program = {};       ///< version_text
  std::string run = {};           ///< id of the run
  int host = 0;                   ///< index in the launcher's list
  std::vector<int> places = {};   ///< that start here; empty: a spare
  double suspicion = 0;           ///< timeout of the run's failure detector in seconds
  std::uint32_t incarnation = 1;  ///< of the supervisor's process and its launcher
  bool succeeded = false;         ///< a successor continues the job if this launcher is lost
  std::string address = {};       ///< of the rendezvous
  std::uint16_t port = 0;         ///< of the rendezvous
  /// Sent by the run's front instead of a launcher: the run does not continue.
  bool over = false;
  launcher_actor launcher = {};
};

/// A process that a standing node has started for the job.
struct standing_process {
  process_name who = {};
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;
};

struct serving {
  std::string host = {};                       ///< host name
  std::string run = {};                        ///< the standing node's folder with the logs
  int cores = 0;                               ///< of the host; 0: not told
  std::vector<standing_process> running = {};  ///< processes that an earlier launcher started
};

struct start_node {
  std::uint64_t request = 0;  ///< repeated in the agent's answer
  process_name who = {};
};

struct kill_node {
  std::uint64_t request = 0;
  process_name who = {};
};
/// Kills a process that has no place. No launcher uses its number, and the answer is ignored: it
/// counts down from the largest that an agent can read, so that each place has its own.
inline kill_node kill_stray(const process_name& who) {
  return {std::uint64_t(std::numeric_limits<std::int64_t>::max() - who.process), who};
}

struct kill_agent {
  int host = 0;
};

struct hold_is_over {
  std::uint64_t job = 0;          ///< number of the job at this node
  std::uint32_t incarnation = 0;  ///< of the lost launcher
};

/// Content of the standing node's copy of the run's folder (run_copy.hpp).
struct keep_run {
  std::uint32_t incarnation = 1;                          ///< of the sending launcher
  std::string address = {};                               ///< of the rendezvous
  std::uint16_t port = 0;                                 ///< of the rendezvous
  std::string record = {}, order = {}, description = {};  ///< contents of the folder's files
  std::string secret = {};     ///< of the data planes if hosts have no credentials; else empty
  std::string save = {};       ///< absolute path of the arbiter's folder
  std::string directory = {};  ///< base of the run's relative paths
  std::uint32_t round = 0;     ///< next round of the arbiter
  std::vector<std::uint32_t> places = {};  ///< newest incarnation of each place
  std::uint64_t ledger = 0;                ///< bytes of the ledger at the first keep_run
};

struct keep_ledger {
  std::uint64_t at = 0;  ///< offset of the lines; truncates the copy there
  std::string lines = {};
};

/// Answer to keep_ledger: size of the copy.
struct ledger_kept {
  std::uint64_t bytes = 0;
};

struct succeed_here {
  std::uint64_t job = 0;          ///< number of the job at this node
  std::uint32_t incarnation = 0;  ///< of the lost launcher
};

struct successor_ended {
  std::uint64_t job = 0;          ///< number of the job at this node
  std::uint32_t incarnation = 0;  ///< of the launcher that it replaced
  std::string how = {};
  bool failed = false;  ///< false: another host continues the run, or the run has ended
};

struct dismiss {
  std::uint64_t job = 0;  ///< job number; set in a node's message to itself
};

}  // namespace troupe::messages
