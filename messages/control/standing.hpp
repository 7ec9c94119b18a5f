// A node that was started by hand stands on its host and waits for jobs. It hosts no rank itself:
// it has its host agent start the processes that do.
//
//   launcher -> standing node   serve         its job, with a place of it or as a spare; answered
//                                             by `serving`, or refused. That of a successor goes on
//                                             with the job, and the answer tells it who lives
//                               start_node    a process for a place of it
//                               kill_node     that one
//                               kill_agent    its host agent does not answer
//                               dismiss       no process is wanted any more
//                               keep_run      what it needs to go on with the run where the host of
//                                             the supervisor is gone; again when some of it changes
//                               keep_ledger   the same: what was written in the ledger
//   standing node -> launcher   agent_told    what its host agent has said (rendezvous.hpp)
//   standing node, to itself    hold_is_over  no launcher has come in the place of one that is gone
//                               succeed_here  the same, and it is time to go on with the run here
//                               successor_ended  that process
//
// It serves one job at a time, until it is dismissed and its processes are gone, or the launcher
// is and no successor of it comes.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "messages/protocol/handles.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

struct serve {
  std::uint32_t protocol = process_protocol;
  std::string program = {};       ///< version_text
  std::string run = {};           ///< its id
  int host = 0;                   ///< which of the launcher's
  int process = -1;               ///< which place begins there; -1: none, it is a spare
  double suspicion = 0;           ///< seconds, of the run
  std::uint32_t incarnation = 1;  ///< of the supervisor's process, and so of its launcher
  bool succeeded = false;         ///< when this launcher is gone another one goes on with the job
  std::string address = {};       ///< of the rendezvous
  std::uint16_t port = 0;         ///< the same
  /// It is no launcher that says this, but the run's front: nobody goes on with the run.
  bool over = false;
  launcher_actor launcher = {};

  friend bool operator==(const serve&, const serve&) = default;
};

/// A process of the job that a standing node has started.
struct standing_process {
  process_name who = {};
  std::uint64_t which = 0;  ///< the agent's incarnation of it
  std::int64_t pid = 0;     ///< there
  std::uint64_t start_time = 0;

  friend bool operator==(const standing_process&, const standing_process&) = default;
};

struct serving {
  std::string host = {};                       ///< its name
  std::string run = {};                        ///< the standing node's folder there, with the logs
  std::vector<standing_process> running = {};  ///< whom a launcher before this one had started

  friend bool operator==(const serving&, const serving&) = default;
};

struct start_node {
  std::uint64_t request = 0;  ///< comes back in the agent's answer
  process_name who = {};

  friend bool operator==(const start_node&, const start_node&) = default;
};

struct kill_node {
  std::uint64_t request = 0;
  int process = 0;
  std::uint64_t which = 0;  ///< the agent's incarnation of it

  friend bool operator==(const kill_node&, const kill_node&) = default;
};

struct kill_agent {
  int host = 0;

  friend bool operator==(const kill_agent&, const kill_agent&) = default;
};

struct hold_is_over {
  std::uint64_t job = 0;          ///< which of its
  std::uint32_t incarnation = 0;  ///< of the launcher that is gone

  friend bool operator==(const hold_is_over&, const hold_is_over&) = default;
};

/// For standing_node's copy of the run's folder (run_copy.hpp).
struct keep_run {
  std::uint32_t incarnation = 1;                          ///< of the launcher, which says this
  std::string address = {};                               ///< of the rendezvous
  std::uint16_t port = 0;                                 ///< the same
  std::string record = {}, order = {}, description = {};  ///< as files of the folder
  std::string secret = {};     ///< of the data planes, where hosts have no credentials; else empty
  std::string save = {};       ///< absolute: where the arbiter is
  std::string directory = {};  ///< that the run's relative paths begin at
  std::uint32_t round = 0;     ///< the arbiter's next
  std::vector<std::uint32_t> places = {};  ///< the newest incarnation of each place
  std::uint64_t ledger = 0;  ///< bytes of it that were written when this was first said

  friend bool operator==(const keep_run&, const keep_run&) = default;
};

struct keep_ledger {
  std::uint64_t at
      = 0;  ///< byte of the file, where they begin: what the copy has beyond is dropped
  std::string lines = {};

  friend bool operator==(const keep_ledger&, const keep_ledger&) = default;
};

/// Its answer: how much of the ledger the copy has, from the beginning on.
struct ledger_kept {
  std::uint64_t bytes = 0;

  friend bool operator==(const ledger_kept&, const ledger_kept&) = default;
};

struct succeed_here {
  std::uint64_t job = 0;          ///< which of its
  std::uint32_t incarnation = 0;  ///< of the launcher that is gone

  friend bool operator==(const succeed_here&, const succeed_here&) = default;
};

struct successor_ended {
  std::uint64_t job = 0;          ///< which of its
  std::uint32_t incarnation = 0;  ///< whose place it was to take
  std::string how = {};
  bool failed = false;  ///< else somebody else goes on with the run, or it has ended

  friend bool operator==(const successor_ended&, const successor_ended&) = default;
};

struct dismiss {
  std::uint64_t job = 0;  ///< of a standing node to itself, whose agent has not ended: which of its

  friend bool operator==(const dismiss&, const dismiss&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, serve& x) {
  return f(caf::meta::type_name("serve"),
           x.protocol,
           x.program,
           x.run,
           x.host,
           x.process,
           x.suspicion,
           x.incarnation,
           x.succeeded,
           x.address,
           x.port,
           x.over,
           x.launcher);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, standing_process& x) {
  return f(caf::meta::type_name("standing_process"), x.who, x.which, x.pid, x.start_time);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, serving& x) {
  return f(caf::meta::type_name("serving"), x.host, x.run, x.running);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, start_node& x) {
  return f(caf::meta::type_name("start_node"), x.request, x.who);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, kill_node& x) {
  return f(caf::meta::type_name("kill_node"), x.request, x.process, x.which);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, kill_agent& x) {
  return f(caf::meta::type_name("kill_agent"), x.host);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, hold_is_over& x) {
  return f(caf::meta::type_name("hold_is_over"), x.job, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, keep_run& x) {
  return f(caf::meta::type_name("keep_run"),
           x.incarnation,
           x.address,
           x.port,
           x.record,
           x.order,
           x.description,
           x.secret,
           x.save,
           x.directory,
           x.round,
           x.places,
           x.ledger);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, keep_ledger& x) {
  return f(caf::meta::type_name("keep_ledger"), x.at, x.lines);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ledger_kept& x) {
  return f(caf::meta::type_name("ledger_kept"), x.bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, succeed_here& x) {
  return f(caf::meta::type_name("succeed_here"), x.job, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, successor_ended& x) {
  return f(caf::meta::type_name("successor_ended"), x.job, x.incarnation, x.how, x.failed);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, dismiss& x) {
  return f(caf::meta::type_name("dismiss"), x.job);
}

}  // namespace troupe::messages
