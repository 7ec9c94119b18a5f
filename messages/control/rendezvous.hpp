// Messages by which the processes of a run find each other.
//
//   process -> rendezvous     join        requests the job; answered by `admitted`, or refused
//                             present     it is ready: its node and its address
//                             withdraw    it cannot take part, and why; answered by `withdrawn`
//   rendezvous -> connector   forget      another process that is gone
//   supervisor -> connector   connect_to  its neighbours in a generation; answered by `connected`
//   host agent's thread, or a standing node -> rendezvous
//                             agent_told  an answer of the host agent
//   rendezvous, to itself     is_late     the process has not come in time
//                             look_for_node  check whether a lost standing node is back
//
// A process connects with its neighbours (runtime/job/job_neighbours.hpp) before the ranks of a
// generation are spawned. So both ends notice the death of the other.

#pragma once

#include "messages/control/spawn.hpp"
#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/process_key.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

/// Increase it if a process of an older build would misunderstand this one.
inline constexpr std::uint32_t process_protocol = 8;

/// A process that hosts ranks: its place in the job and its incarnation.
struct process_name {
  int process = 0;  ///< -1: the supervisor's process
  std::uint32_t incarnation = 0;

  friend auto operator<=>(const process_name&, const process_name&) = default;

  /// Its number on data planes: unique in a run and never reused.
  std::uint64_t key() const { return runtime::process_key(process, incarnation); }
};

struct join {
  process_name who = {};
  std::uint32_t protocol = process_protocol;
  std::string program = {};  ///< version_text
  std::string host = {};     ///< host name
  std::int64_t pid = 0;
};

struct admitted {
  job_description job = {};
  std::string run = {};     ///< id of the run, for handshakes on data planes
  std::string secret = {};  ///< of the data planes; empty: use the run's credentials
};

/// The addresses of a process.
struct process_address {
  process_name who = {};
  std::string host = {};       ///< numeric, of its control plane
  std::uint16_t port = 0;      ///< port of its connector; 0: do not call it
  std::string transport = {};  ///< see runtime/transport/wire_transport.hpp; empty: none
  std::string windows = {};    ///< see runtime/collective/window/windows.hpp; empty: none
};

struct present {
  process_address where = {};
  node_actor node = {};
  connector_actor connector = {};
};

struct withdraw {
  process_name who = {};
  std::string why = {};
};

struct withdrawn {
  process_name who = {};
};

struct is_late {
  process_name who = {};
};

struct look_for_node {
  int host = 0;          ///< index in the launcher's list
  bool listens = false;  ///< a process listens at its port; false: find out now
};

/// A launcher's message to itself: these lines are in the ledger's file.
struct ledger_written {
  std::uint64_t size = 0;  ///< of the file, including the lines
  std::string lines = {};
};

/// A launcher's message to itself: hosts were lost, and the run's arbiter
/// (runtime/process/arbiter.hpp) was asked whether this process continues with the processes that
/// it still reaches.
struct round_decided {
  enum class outcome : std::uint8_t {
    won,       ///< this process continues; no other can
    open,      ///< it reached no other process and resigned; no other has won yet
    lost,      ///< another host continues
    unknown,   ///< the arbiter is unreachable; retry
    awaited,   ///< no answer within the failure detector's timeout
    ask_again  ///< time to retry
  };
  std::uint64_t attempt = 0;  ///< number of the question
  std::uint32_t round = 0;    ///< round that was open
  outcome how = {};
  std::string why = {};
};

/// The neighbours in a generation. Connections with other processes are closed.
struct connect_to {
  runtime::generation_id generation = {};
  /// The connector has connected with all neighbours of this generation; `others` are the new ones,
  /// and those with a new incarnation. 0: all.
  runtime::generation_id since = {};
  std::vector<process_address> others = {};
  std::vector<int> no_more = {};  ///< places of neighbours of `since` that are none any more
};

struct connected {
  std::string failure = {};  ///< empty: all can be reached
  process_name other = {};   ///< the one that could not be reached
};

struct forget {
  process_name who = {};
  std::string why = {};
};

struct agent_told {
  int host = 0;             ///< index in the launcher's list, from 0
  std::uint64_t agent = 0;  ///< number of the agent on that host
  std::string answer = {};  ///< runtime::text_of(agent_answer)
  bool gone = false;        ///< the agent is gone; `answer` says why
};

}  // namespace troupe::messages
