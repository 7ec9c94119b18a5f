// How the processes of a run come together.
//
//   process -> rendezvous     join        asks for the job; answered by `admitted`, or refused
//                             present     it stands: its node, and where it is reached
//                             withdraw    it cannot take part, and why; answered by `withdrawn`
//   rendezvous -> connector   connect_to  another process that stands; answered by `connected`
//                             forget      one that is gone
//   host agent's thread -> rendezvous
//                             agent_told  what the host agent has said; or by a standing node
//   rendezvous, to itself     is_late     that process has not come in time
//                             look_for_node  a standing node that was lost may be there again
//
// Processes are connected with each other, not by way of the rendezvous, before the supervisor is
// told that one has started: between any two of them a death is noticed by both.

#pragma once

#include "messages/control/spawn.hpp"
#include "messages/protocol/handles.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>

namespace troupe::messages {

/// Raised when a process of an older build would misunderstand one of this.
inline constexpr std::uint32_t process_protocol = 4;

/// A process that hosts ranks, by its place in the job, and which one of that place it is.
struct process_name {
  int process = 0;  ///< -1: that of the supervisor
  std::uint32_t incarnation = 0;

  friend auto operator<=>(const process_name&, const process_name&) = default;

  /// As data planes name it: no two of a run are equal, and none comes again.
  std::uint64_t key() const { return (std::uint64_t(process + 2) << 32) | incarnation; }
};

struct join {
  process_name who = {};
  std::uint32_t protocol = process_protocol;
  std::string program = {};      ///< version_text
  std::string host = {};         ///< its name
  std::int64_t pid = 0;          ///< there
  std::uint64_t start_time = 0;  ///< of that pid: runtime/process/process_id.hpp

  friend bool operator==(const join&, const join&) = default;
};

struct admitted {
  job_description job = {};
  std::string run = {};     ///< its id, which its processes tell each other on data planes
  std::string secret = {};  ///< of the data planes; empty: as the run's credentials have it

  friend bool operator==(const admitted&, const admitted&) = default;
};

/// Where a process is reached.
struct process_address {
  process_name who = {};
  std::string host = {};       ///< numeric, of its control plane
  std::uint16_t port = 0;      ///< where its connector is published
  std::string transport = {};  ///< runtime/transport/wire_transport.hpp; empty: it has none
  std::string windows = {};    ///< runtime/collective/window/windows.hpp; the same

  friend bool operator==(const process_address&, const process_address&) = default;
};

struct present {
  process_address where = {};
  node_actor node = {};
  connector_actor connector = {};

  friend bool operator==(const present&, const present&) = default;
};

struct withdraw {
  process_name who = {};
  std::string why = {};

  friend bool operator==(const withdraw&, const withdraw&) = default;
};

struct withdrawn {
  process_name who = {};

  friend bool operator==(const withdrawn&, const withdrawn&) = default;
};

struct is_late {
  process_name who = {};

  friend bool operator==(const is_late&, const is_late&) = default;
};

struct look_for_node {
  int host = 0;          ///< of the launcher's
  bool listens = false;  ///< somebody does at its port; else it is time to find out

  friend bool operator==(const look_for_node&, const look_for_node&) = default;
};

/// Of a launcher to itself: these lines are in the ledger's file.
struct ledger_written {
  std::uint64_t size = 0;  ///< of the file, with them
  std::string lines = {};

  friend bool operator==(const ledger_written&, const ledger_written&) = default;
};

/// The same: hosts were lost, and the run's arbiter (runtime/process/arbiter.hpp) was asked whether
/// this process goes on with whom it still reaches.
struct round_decided {
  enum class outcome : std::uint8_t {
    won,       ///< and nobody else can
    open,      ///< nobody was reached any more, so it has resigned, and nobody else has won
    lost,      ///< another host goes on
    unknown,   ///< the arbiter cannot be asked: it is asked again
    awaited,   ///< it has not answered within the suspicion
    ask_again  ///< it is time to
  };
  std::uint64_t attempt = 0;  ///< which of its questions
  std::uint32_t round = 0;    ///< that was open, and asked for
  outcome how = {};
  std::string why = {};

  friend bool operator==(const round_decided&, const round_decided&) = default;
};

struct connect_to {
  process_address other = {};

  friend bool operator==(const connect_to&, const connect_to&) = default;
};

struct connected {
  process_name other = {};
  std::string failure = {};  ///< why it cannot be reached; empty: it is

  friend bool operator==(const connected&, const connected&) = default;
};

struct forget {
  process_name who = {};
  std::string why = {};

  friend bool operator==(const forget&, const forget&) = default;
};

struct agent_told {
  int host = 0;             ///< of the launcher's, from 0
  std::uint64_t agent = 0;  ///< which of that host, as its starter counts them
  std::string answer = {};  ///< runtime::text_of(agent_answer)
  bool gone = false;        ///< the agent is, and the answer says why

  friend bool operator==(const agent_told&, const agent_told&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, process_name& x) {
  return f(caf::meta::type_name("process_name"), x.process, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, join& x) {
  return f(caf::meta::type_name("join"), x.who, x.protocol, x.program, x.host, x.pid, x.start_time);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, admitted& x) {
  return f(caf::meta::type_name("admitted"), x.job, x.run, x.secret);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, process_address& x) {
  return f(caf::meta::type_name("process_address"), x.who, x.host, x.port, x.transport, x.windows);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, present& x) {
  return f(caf::meta::type_name("present"), x.where, x.node, x.connector);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, withdraw& x) {
  return f(caf::meta::type_name("withdraw"), x.who, x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ledger_written& x) {
  return f(caf::meta::type_name("ledger_written"), x.size, x.lines);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, round_decided& x) {
  return f(caf::meta::type_name("round_decided"), x.attempt, x.round, x.how, x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, connect_to& x) {
  return f(caf::meta::type_name("connect_to"), x.other);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, connected& x) {
  return f(caf::meta::type_name("connected"), x.other, x.failure);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, forget& x) {
  return f(caf::meta::type_name("forget"), x.who, x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, agent_told& x) {
  return f(caf::meta::type_name("agent_told"), x.host, x.agent, x.answer, x.gone);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, withdrawn& x) {
  return f(caf::meta::type_name("withdrawn"), x.who);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, is_late& x) {
  return f(caf::meta::type_name("is_late"), x.who);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, look_for_node& x) {
  return f(caf::meta::type_name("look_for_node"), x.host, x.listens);
}

}  // namespace troupe::messages
