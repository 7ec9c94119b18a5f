// Where a wire is called, and from where it calls: sockets of TCP on which a handshake
// (handshake.hpp) shows who somebody is, before UCX hears of him. UCX has no listener that can be
// called by its own protocol: docs/decisions/0025-wires-in-company.md.
//
// A connection stays open after its handshake and says one thing more, by its end: that the other
// process has died or closed it.
//
// Who has not shown in time who he is, and who is one too many of those, is closed (WIRE-3).

#pragma once

#include "runtime/transport/handshake.hpp"
#include "runtime/transport/ucx/descriptor.hpp"
#include "runtime/transport/wire.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>

namespace troupe::runtime::ucx {

/// All of the wire's one thread.
class entrance {
 public:
  using clock = std::chrono::steady_clock;

  /// What is to be done for those who come. Throws std::runtime_error where it cannot.
  class host {
   public:
    virtual ~host() = default;
    /// Somebody who has called belongs to the run. His number from now on, and where our UCX is
    /// that he alone will use.
    virtual std::pair<peer_number, std::string> admit() = 0;
    /// The handshake is over. `talk` is done.
    virtual void introduced(peer_number who, const handshake& talk) = 0;
    /// One that was admitted or called is gone, before or after he was introduced.
    virtual void left(peer_number who, const std::string& why) = 0;
  };

  /// Listens. Throws std::runtime_error: the system refuses, or the address is not one to listen
  /// on.
  entrance(host& of, const wire_settings& settings);

  const std::string& address() const { return terms_.address; }
  /// What epoll waits for.
  int wakeup() const { return epoll_; }
  /// When somebody's time is over.
  std::optional<clock::time_point> next_end() const;

  /// Of a peer that cannot be reached `left` is told, from `progress`.
  void call(peer_number who, const std::string& address, const std::string& payload);
  /// Closes his connection.
  void forget(peer_number who);

  /// True when there was something to do. Without `accepts` nobody who calls is answered.
  bool progress(bool accepts);
  /// Of one who was admitted, and whom something else than his handshake gives away.
  void warn_once(const std::string& kind, const std::string& what);

 private:
  struct visitor {
    descriptor at;
    handshake talk;
    clock::time_point until;  ///< of his handshake
    std::string where, unsent;
    peer_number number = {};  ///< 0: he has not been admitted
    bool is_caller = false;   ///< he has called us
    bool introduced = false;
  };
  using visitors = std::map<std::uint64_t, visitor>;

  void listen(const wire_settings& settings);
  void accept();
  visitors::iterator add(descriptor at, handshake talk, std::string where);
  void attend(visitors::iterator x);
  void read(visitors::iterator x);
  void advance(visitor& x);
  bool flush(visitor& x);
  void end(visitors::iterator x, handshake_fault fault, std::string why);
  void make_room();
  void expire();

  host& host_;
  const std::chrono::milliseconds patience_, silent_for_;
  const std::size_t most_unknown_;
  const std::function<void(const std::string&)> report_refusal_;
  handshake_terms terms_;
  std::set<std::string> warned_;
  descriptor epoll_, listener_;
  visitors visitors_;  ///< by a number that is never used again; they came in this order
  std::uint64_t next_ = 1;
  bool listening_ = false;                   ///< callers wake us
  clock::time_point takes_callers_at_ = {};  ///< while the system had no room for one
  clock::time_point looks_for_ends_at_ = {};
};

}  // namespace troupe::runtime::ucx
