// A transport for tickets of other processes, over a wire.
//
//   wire_transport mine({.process = 7}, [&](wire_owner& owner) {
//     return make_ucx_wire(owner, {.secret = secret_of_run, .run_id = run, .process = 7});
//   });
//   mine.introduce({8, "127.0.0.1:40123"});       // from mine.address() of process 8
//   tensor x = mine.redeem(ticket_of_8, {&stream, token});
//
// redeem asks the holder for the bytes (wire_message.hpp) and sleeps until they have arrived. In
// host memory, large tensors go from the deposited tensor to the new one without a copy in this
// code; small ones travel with the header and are copied once. On one host the redeemer reads large
// tensors directly from the holder's memory (lent_memory.hpp). Device tensors pass through pinned
// memory, in two pieces at a time: the redeemer's stream copies one piece while the wire fills the
// other. A stager does the same on the holder's side. A wire that reads device memory itself skips
// the staging.
//
// When a peer is lost, every wait for it ends at once, and the tensors that it had begun to redeem
// are released. Messages are validated before use. A peer that sends an invalid message is
// disconnected.
//
// A connection can break while its process is not forgotten. It then counts as lost for the
// generation in which it was waited for, and is made again for the next generation (LINK-1).

#pragma once

#include "runtime/transport/byte_ranges.hpp"
#include "runtime/transport/lent_memory.hpp"
#include "runtime/transport/transport.hpp"
#include "runtime/transport/wire.hpp"
#include "runtime/transport/wire_message.hpp"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace troupe::runtime {

class wire_stager;

/// Address of a holder of tickets. A plain value that may travel in a message.
struct transport_address {
  std::uint64_t process = 0;
  std::string where;
};

struct wire_transport_settings {
  std::uint64_t process = 0;  ///< holder of the tickets deposited here; unique in a run
  /// Sends this process's own tickets over the wire too.
  bool through_the_wire = false;
  /// Reads tensors directly from other processes of this host that also set this.
  bool shares_memory = false;
  std::uint64_t least_lent = std::uint64_t{32} << 10;  ///< bytes; smaller tensors are sent
  std::size_t piece = std::size_t{4} << 20;            ///< bytes of pinned memory at a time
  /// Called on the wire's thread when a connection broke while tensors of that generation were
  /// awaited.
  std::function<void(std::uint64_t process, generation_id, const std::string& why)> broke = {};
};

class wire_transport final : public transport, private wire_owner {
 public:
  using maker = std::function<std::unique_ptr<wire>(wire_owner&)>;

  /// Throws what `maker` throws.
  wire_transport(const wire_transport_settings& settings, const maker& make);
  ~wire_transport() override;
  wire_transport(const wire_transport&) = delete;
  wire_transport& operator=(const wire_transport&) = delete;

  transport_address address() const;
  /// Call it before a ticket of that process is redeemed; the first redeem connects. A second call
  /// with a new address, or after a loss, connects anew.
  void introduce(const transport_address& who);
  /// Closes all connections with a process that does not answer. Fails all waits for it. Releases
  /// the tensors that were being sent to it; the end of a generation does not release them. The
  /// process stays lost until it is introduced again.
  void forget(std::uint64_t process, const std::string& why);
  /// Closes all connections with a running process after one of them broke. The next redeem
  /// connects anew, unless the process was forgotten. Call it in both processes after the end of
  /// their generation and before the next one begins. Otherwise a late report of the break also
  /// breaks the new connection (LINK-1).
  void renew_connections(std::uint64_t process, const std::string& why);

  ticket deposit(tensor x,
                 generation_id generation,
                 std::shared_ptr<const void> until_taken = {}) override;
  std::vector<tensor> redeem_all(std::span<const ticket> tickets, const redeemer& by) override;
  void take_back(std::span<const ticket> tickets) override;
  void end_generation(generation_id last) override;
  std::size_t leased() const override;
  const transport_counters& counters() const override { return counters_; }

 private:
  struct lease {
    tensor data;
    generation_id generation;
    std::shared_ptr<const void> until_taken;
    byte_ranges asked = {};
    peer_number taker = {};  ///< the peer that asked first
  };
  struct other {
    std::string where;
    peer_number number = {};     ///< 0: not connected yet
    generation_id missed = {};   ///< it released a tensor that was being read; 0: none
    std::string lost;            ///< the reason, when lost
    bool heals = false;          ///< reconnects in the next generation: not forgotten
    bool is_unreadable = false;  ///< the system does not let this process read its memory
  };
  struct fetch;
  class reception;

  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t bytes) override;
  landing believe(peer_number from, const wire_message& x, std::size_t bytes);
  void lost(peer_number who, const std::string& why) override;
  void answer(peer_number from, const wire_message& x);
  /// The requested tensor and, with its last byte, what is held until delivery.
  struct served {
    tensor data;
    std::shared_ptr<const void> until_taken;
  };
  void serve(peer_number to, const wire_message& x, served what);
  void deliver(peer_number to,
               const wire_message& x,
               std::span<const std::byte> bytes,
               std::shared_ptr<const void> keep,
               std::function<void(bool)> done);
  bool lends(const wire_message& asked, const tensor& data) const;
  void lend(peer_number to, const wire_message& x, served what);
  void end_loan(peer_number of, const wire_message& x);
  void refuse(peer_number to, const wire_message& x, wire_reason why);
  std::variant<served, wire_reason> release(peer_number from, const wire_message& x);
  void learn_unreadable(fetch& x, const lent_place& place, int failure);
  wire_message about_loan(const fetch& x, wire_verb verb) const;
  void borrow(peer_number from, const wire_message& x);
  landing land(peer_number from, const wire_message& x, std::size_t bytes);
  void fail(peer_number from, const wire_message& x);
  tensor take(const ticket& x);
  void start(const std::shared_ptr<fetch>& x);
  generation_id half_redeemed_of(std::uint64_t process) const;
  std::vector<peer_number> peers_of(std::uint64_t process) const;
  peer_number peer_of(const ticket& x);

  const wire_transport_settings settings_;
  const std::uint64_t host_;  ///< number of this host; 0: no memory is shared
  memory_pool pool_;          ///< host memory
  transport_counters counters_;

  mutable std::mutex mutex_;
  std::uint64_t next_slot_ = 1, next_fetch_ = 1;
  generation_id ended_ = {};
  std::unordered_map<std::uint64_t, lease> leases_;
  std::unordered_map<std::uint64_t, generation_id> taken_back_;  ///< not redeemed before
  std::unordered_map<std::uint64_t, std::shared_ptr<fetch>> fetches_;
  std::set<const reception*> receptions_;  ///< in finish()
  std::map<std::uint64_t, other> others_;
  std::map<peer_number, std::uint64_t> askers_;  ///< the process that asked over this connection

  std::unique_ptr<lender> lender_;       ///< null: no lending
  std::unique_ptr<wire_stager> stager_;  ///< created when the first device tensor is deposited
  std::unique_ptr<wire> wire_;
};

}  // namespace troupe::runtime
