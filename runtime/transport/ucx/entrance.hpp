// Accepts and makes the calls of a wire: TCP sockets on which a handshake (handshake.hpp)
// authenticates a peer before UCX is involved. UCX has no listener for its own protocol:
// docs/decisions/0025-wires-in-company.md.
//
// A connection stays open after its handshake. Its end then shows that the other process has died
// or closed it.
//
// A caller that has not authenticated is disconnected after a timeout. When too many are waiting,
// the oldest one is disconnected (WIRE-3).

#pragma once

#include "runtime/transport/handshake.hpp"
#include "runtime/transport/ucx/descriptor.hpp"
#include "runtime/transport/wire.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>

namespace troupe::runtime::ucx {

/// Used only by the wire's thread.
class entrance {
 public:
  using clock = std::chrono::steady_clock;

  /// Creates and ends peers for the entrance. Throws std::runtime_error on failure.
  class host {
   public:
    virtual ~host() = default;
    /// A caller has proven that it belongs to the run. Returns its peer number, and the UCX address
    /// for this peer alone.
    virtual std::pair<peer_number, std::string> admit() = 0;
    /// The handshake has succeeded; `talk` is done.
    virtual void introduced(peer_number who, const handshake& talk) = 0;
    /// A peer that was admitted or called is gone, before or after `introduced`.
    virtual void left(peer_number who, const std::string& why) = 0;
  };

  /// Starts to listen. Throws std::runtime_error when the system refuses or the address is not
  /// usable.
  entrance(host& of, const wire_settings& settings);

  const std::string& address() const { return terms_.address; }
  /// The epoll descriptor to wait for.
  int wakeup() const { return epoll_; }
  /// The next handshake deadline.
  std::optional<clock::time_point> next_end() const;

  /// A peer that cannot be reached is reported by `left`, from `progress`.
  void call(peer_number who, const std::string& address, const std::string& payload);
  /// Closes the peer's connection.
  void forget(peer_number who);

  /// Returns true when there was work. Without `accepts`, callers have to wait.
  bool progress(bool accepts);
  /// Logs a refusal once per kind, also of an admitted peer.
  void warn_once(const std::string& kind, const std::string& what);

 private:
  struct visitor {
    descriptor at;
    handshake talk;
    clock::time_point until;  ///< deadline of the handshake
    std::string where, unsent;
    peer_number number = {};  ///< 0: not admitted
    bool is_caller = false;   ///< it called this process
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
  visitors visitors_;  ///< in order of arrival; numbers are never reused
  std::uint64_t next_ = 1;
  bool listening_ = false;  ///< the listener is in the epoll set
  clock::time_point takes_callers_at_
      = {};  ///< the listener's pause when the system is out of resources
  clock::time_point looks_for_ends_at_ = {};
};

}  // namespace troupe::runtime::ucx
