// One connection, with a UCX worker of its own.
//
// Endpoints have UCX's error handling for peers, within a machine too, where that leaves TCP:
// without it shared memory would be faster, but what was being
// sent to a peer that died never ends, and destroying its worker may end this process
// (docs/decisions/0014-transports.md). A worker of its own says which peer a message is of, and
// takes all that is left of a connection with it.
//
// It is made before the handshake (entrance.hpp) is over, and what is to be sent waits until it is.
// In front of each message stand 16 bytes that both ends have from their handshake: what comes
// without them is of somebody else who has found UCX's own port, and is dropped. When both ends
// have heard each other the port is shut.

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

  /// `announces`: bytes are fetched by their receiver, never sent along. `was_called`: by us, so
  /// that the owner knows its number already. `silent_for`: wire_settings's.
  peer(const context& of,
       peer_number number,
       wire_owner& owner,
       bool announces,
       bool was_called,
       std::chrono::milliseconds silent_for);
  /// Tells everything that is under way `done(false)`, when nobody touches its memory any more. Of
  /// a connection that is not closed yet the worker's end makes an end.
  ~peer();
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  /// For the other end, as the handshake carries it.
  const std::string& worker_address() const { return worker_address_; }
  /// It may connect: it is about to be told that address.
  void expect() { door_.open(); }
  /// The handshake is over. What fails breaks it.
  void connect(const handshake& talk);
  /// Whether the owner has heard of it: else nobody misses it.
  bool is_known() const { return introduced_ || was_called_; }

  void send(outgoing what);
  /// True when there was something to do.
  bool progress();
  /// False: there is something to do before anybody sleeps. What fails breaks it.
  bool arm();

  void break_off(const std::string& why);
  /// Whether the connection of one that is broken is closed. The first call begins it, progress
  /// goes on with it.
  bool close();
  /// When it is broken, unless the other end has greeted by then; nothing: it has.
  std::optional<clock::time_point> greeted_until() const { return greeted_until_; }
  void expire(clock::time_point now);
  /// Why it is of no use any more; empty while it is.
  const std::string& broken() const { return broken_; }
  /// Messages that were dropped, since they were of somebody else.
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
  std::vector<outgoing> waiting_;  ///< for the handshake
  std::uint64_t forged_ = 0;
  ucp_ep_h endpoint_ = nullptr;         ///< null: there is none yet, or it is being closed
  ucs_status_ptr_t closing_ = nullptr;  ///< null: it is closed, or nobody has begun to
  std::string broken_;
  operations under_way_;
  std::vector<announced> announced_;
};

}  // namespace troupe::runtime::ucx
