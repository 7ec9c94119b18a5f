// One connection of a UCX wire, with its own UCX worker.
//
// Endpoints use UCX's peer error handling, also within a machine, where only TCP supports it.
// Shared memory without error handling would be faster. But a send to a dead peer then never ends,
// and destroying its worker may end this process (docs/decisions/0014-transports.md). A worker per
// connection identifies the peer of each message, and its end releases everything of the
// connection.
//
// A peer is created before the handshake (entrance.hpp) is over; messages wait until then. Each
// message starts with a 16-byte token that both ends know from their handshake. A message without
// it comes from a stranger that found UCX's own port, and is dropped. The port is shut when both
// ends have heard each other.

#pragma once

#include "runtime/transport/handshake.hpp"
#include "runtime/transport/ucx/context.hpp"
#include "runtime/transport/ucx/door.hpp"
#include "runtime/transport/wire.hpp"

#include <chrono>
#include <list>
#include <optional>
#include <vector>

namespace troupe::runtime::ucx {

class peer {
 public:
  using clock = std::chrono::steady_clock;

  /// `announces`: the receiver fetches the bytes; they are never sent along. `was_called`: this
  /// process made the call, so that the owner knows the number already. `silent_for`: as in
  /// wire_settings.
  peer(const context& of,
       peer_number number,
       wire_owner& owner,
       bool announces,
       bool was_called,
       std::chrono::milliseconds silent_for);
  /// Calls `done(false)` of all unfinished operations, when their memory is no longer in use.
  /// Destroying the worker also ends a connection that is still open.
  ~peer();
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  /// The worker's address, sent to the other end in the handshake.
  const std::string& worker_address() const { return worker_address_; }
  /// Opens the port; call it before the other end learns the address.
  void expect() { door_.open(); }
  /// Called after the handshake. A failure breaks the peer.
  void connect(const handshake& talk);
  /// Whether the owner knows this peer. The loss of an unknown peer is not reported.
  bool is_known() const { return introduced_ || was_called_; }

  void send(outgoing what);
  /// Returns true when there was work.
  bool progress();
  /// Returns false when work is pending and the thread must not sleep. A failure breaks the peer.
  bool arm();

  void break_off(const std::string& why);
  /// Closes the connection of a broken peer; returns true when it is closed. The first call starts
  /// the close, progress continues it.
  bool close();
  /// Deadline for the greeting of the other end; empty: it has greeted.
  std::optional<clock::time_point> greeted_until() const { return greeted_until_; }
  void expire(clock::time_point now);
  /// Why the peer is broken; empty while it works.
  const std::string& broken() const { return broken_; }
  /// Number of dropped messages without the right token.
  std::uint64_t forged() const { return forged_; }
  peer_number number() const { return number_; }
  int wakeup() const { return wakeup_of(worker_); }

 private:
  struct operation;
  using operations = std::list<operation>;
  struct announced {
    void* descriptor;
    std::size_t bytes;
    landing to;
  };

  void begin(unsigned id, outgoing what);
  void greet(bool answers);
  ucs_status_t on_greeting(std::span<const std::byte> header);
  bool is_of_peer(std::span<const std::byte>& header);
  void receive(announced x);
  ucs_status_t on_message(std::span<const std::byte> header,
                          void* data,
                          std::size_t bytes,
                          bool by_rendezvous);
  operations::iterator add(std::vector<std::byte> header,
                           std::shared_ptr<const void> keep,
                           std::function<void(bool)> done);
  ucp_request_param_t terms_of(operations::iterator x) const;
  void begun(operations::iterator x, ucs_status_ptr_t said);
  void end(operations::iterator x, ucs_status_t said);

  static ucs_status_t message_came(void* self,
                                   const void* header,
                                   std::size_t header_bytes,
                                   void* data,
                                   std::size_t bytes,
                                   const ucp_am_recv_param_t* params);
  static ucs_status_t greeting_came(void* self,
                                    const void* header,
                                    std::size_t header_bytes,
                                    void* data,
                                    std::size_t bytes,
                                    const ucp_am_recv_param_t* params);
  static void was_sent(void* request, ucs_status_t said, void* what);
  static void was_received(void* request, ucs_status_t said, std::size_t bytes, void* what);
  static void went_wrong(void* self, ucp_ep_h endpoint, ucs_status_t said);

  const peer_number number_;
  wire_owner& owner_;
  const bool announces_, was_called_;
  const std::chrono::milliseconds silent_for_;
  worker worker_;
  std::string worker_address_;
  door door_;
  bool introduced_ = false;
  bool was_greeted_ = false, was_answered_ = false;
  std::optional<clock::time_point> greeted_until_;
  std::string address_of_other_;
  message_token outgoing_token_ = {}, incoming_token_ = {};
  std::vector<outgoing> waiting_;  ///< messages for after the handshake
  std::uint64_t forged_ = 0;
  ucp_ep_h endpoint_ = nullptr;         ///< null: not created yet, or being closed
  ucs_status_ptr_t closing_ = nullptr;  ///< null: closed, or the close has not begun
  std::string broken_;
  operations under_way_;
  std::vector<announced> announced_;
};

}  // namespace troupe::runtime::ucx
