// One connection, with a UCX worker of its own.
//
// Endpoints have UCX's error handling for peers, within a machine too, where that leaves TCP and
// reading the other's memory (cma): without it shared memory would be faster, but what was being
// sent to a peer that died never ends, and destroying its worker may end this process
// (docs/decisions/0014-transports.md). A worker of its own says which peer a message is of, and
// takes all that is left of a connection with it.

#pragma once

#include "runtime/transport/ucx/address.hpp"
#include "runtime/transport/ucx/context.hpp"
#include "runtime/transport/wire.hpp"

#include <list>
#include <vector>

namespace troupe::runtime::ucx {

class peer {
 public:
  /// `announces`: bytes are fetched by their receiver, never sent along.
  peer(const context& of, peer_number number, wire_owner& owner, bool announces);
  /// Tells everything that is under way `done(false)`, when nobody touches its memory any more. Of
  /// a connection that is not closed yet the worker's end makes an end.
  ~peer();
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  // One of these, once. What fails breaks it.
  void call(const std::string& address);
  void answer(ucp_conn_request_h who);

  void send(outgoing what);
  /// True when there was something to do.
  bool progress();
  /// False: there is something to do before anybody sleeps. What fails breaks it.
  bool arm();

  void break_off(const std::string& why);
  /// Whether the connection of one that is broken is closed. The first call begins it, progress
  /// goes on with it.
  bool close();
  /// Why it is of no use any more; empty while it is.
  const std::string& broken() const { return broken_; }
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

  void connect(ucp_ep_params_t params);
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
  static void was_sent(void* request, ucs_status_t said, void* what);
  static void was_received(void* request, ucs_status_t said, std::size_t bytes, void* what);
  static void went_wrong(void* self, ucp_ep_h endpoint, ucs_status_t said);

  const peer_number number_;
  wire_owner& owner_;
  const bool announces_;
  worker worker_;
  ucp_ep_h endpoint_ = nullptr;         ///< null: there is none yet, or it is being closed
  ucs_status_ptr_t closing_ = nullptr;  ///< null: it is closed, or nobody has begun to
  std::string broken_;
  operations under_way_;
  std::vector<announced> announced_;
};

}  // namespace troupe::runtime::ucx
