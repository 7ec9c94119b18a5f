// The meeting of a launch: all its processes report to the process of rank 0, over TLS with the
// credentials of the run. Rank 0 has each host start its nodes, and tells the end of the run to
// all. docs/protocol/launch.md.

#pragma once

#include "runtime/http/server.hpp"
#include "runtime/launch/launch_messages.hpp"
#include "runtime/process/credentials.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A host of a launch, as its first process tells.
struct launch_host {
  std::string name;
  int ranks = 0, devices = 0, cores = 0;
  std::string domain;  ///< failure domain; empty: not told
};

/// Rank 0. Any thread, except the destructor.
///
///   MEETING-1  A launch has each rank from 0 to world - 1 once, with one build and one command.
///              Otherwise every process of it gets the reason and the exit code 2.
///   MEETING-2  While the run goes on, a process that is started again takes the rank of its
///              dead predecessor.
class meeting {
 public:
  /// Listens at a numeric address; port 0: any free one. Without credentials it uses no TLS. Throws
  /// io_error.
  meeting(launch_member self,
          const std::string& address,
          std::uint16_t port,
          const std::optional<credentials>& keys);
  /// Processes that have not been told the end find that rank 0 is gone.
  ~meeting();

  std::uint16_t port() const { return server_->ports().front(); }

  /// Waits until all ranks are there. Throws input_error with the reason (MEETING-1), and
  /// `cancelled` when `stop` returns true. Call `end` then. Logs what it waits for.
  void gather(std::chrono::milliseconds at_most, const std::function<bool()>& stop);

  /// After `gather`, in the order of their first ranks.
  std::vector<launch_host> hosts() const;

  /// Has each other host start a node. Returns their addresses, "10.0.0.2:7000", by host; that of
  /// the first host is empty. Throws as `gather`.
  std::vector<std::string> nodes(std::chrono::milliseconds at_most,
                                 const std::function<bool()>& stop);
  /// Instead: no host starts one.
  void begin_without_nodes() { begin(false); }

  /// Passes requests of other ranks to end the run in order: the name of their signal. An earlier
  /// request is passed at once. Empty: to no one from now on.
  void give_requests_to(std::function<void(const std::string& why)> take);

  /// Tells all the end, once; waits until each has heard it, at most `patience`.
  void end(int exit_code,
           const std::string& reason,
           std::chrono::milliseconds patience = std::chrono::seconds(3));

 private:
  using waiting = std::shared_ptr<http::exchange>;
  struct place {
    launch_member it;
    waiting joins = {}, ends = {};  ///< its unanswered requests
    waiting newest = {};            ///< request; tells whether its connection is open
    std::string node = {};          ///< the address that it has reported
    bool heard = false;             ///< the end
  };

  void joins(waiting x);
  void has_node(const waiting& x);
  void begin(bool with_nodes);
  void waits_for_end(waiting x);
  void has_heard(const waiting& x);
  void asks_to_end(const waiting& x);
  std::string fault_of(const launch_member& x) const;
  std::string missing() const;
  bool is_lost(const launch_member& x) const;
  bool is_first(const launch_member& x) const;
  void answer_join(const waiting& x, const place& of) const;
  void answer_with(launch_end end, waiting& x, const launch_member& who) const;
  void answer_all();
  std::string refusal() const;
  void wait(std::chrono::milliseconds at_most,
            const std::function<bool()>& stop,
            const std::function<bool()>& holds,
            const std::function<std::string()>& what,
            const std::function<std::string()>& late);

  const launch_member self_;
  const std::string token_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, place> places_;     ///< by rank; this process is one
  std::string fault_;               ///< the first one
  std::optional<bool> with_nodes_;  ///< no value: not decided
  std::optional<launch_end> end_;
  std::string asked_;
  std::function<void(const std::string&)> take_request_;
  std::unique_ptr<http::server> server_;  ///< the last: its thread uses the others
};

}  // namespace troupe::runtime
