// Tickets of other processes, over a wire.
//
//   wire_transport mine({.process = 7}, [&](wire_owner& owner) {
//     return make_ucx_wire(owner, {.secret = secret_of_run, .run_id = run, .process = 7});
//   });
//   mine.introduce({8, "127.0.0.1:40123"});       // what mine.address() of process 8 said
//   tensor x = mine.redeem(ticket_of_8, {&stream, token});
//
// Redeeming asks the holder for the bytes (wire_message.hpp) and sleeps until they have come. In
// the host's memory large ones go from the deposited tensor to the new one without a copy of ours,
// those that the wire sends along with the header with one. On one host the redeemer itself reads
// large ones where they lie (lent_memory.hpp). For a device they pass through pinned
// memory, two pieces at a time: the redeemer's stream takes one while the wire fills the other, and
// a stager does the same on the holder's side; unless the wire reads the memory of devices itself.
//
// Who is gone: everything that waits for a lost peer is told at once, and what it had begun to
// redeem is released. What a stranger sends is checked before it is believed; a peer that sends
// what is no message is cut off.
//
// A connection that breaks without its process being forgotten is lost for the generation in which
// somebody waited for it, and is made anew for the next one (LINK-1).

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

/// Where the holder of tickets is reached. A plain value, which may travel in a message.
struct transport_address {
  std::uint64_t process = 0;
  std::string where;
};

struct wire_transport_settings {
  std::uint64_t process = 0;  ///< the holder of what is deposited here; no two of a run are equal
  /// Own tickets go over the wire, as those of other processes do.
  bool through_the_wire = false;
  /// With other processes of this host that say so, too: tensors are read where they lie.
  bool shares_memory = false;
  std::uint64_t least_lent = std::uint64_t{32} << 10;  ///< bytes; smaller ones are sent
  std::size_t piece = std::size_t{4} << 20;            ///< bytes of pinned memory at a time
  /// Told of a connection that broke while somebody waited for tensors of that generation: on the
  /// wire's thread.
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
  /// Before the first ticket of that process is redeemed; the connection is made when it is. One
  /// that is introduced again, elsewhere or after it was lost, is connected anew.
  void introduce(const transport_address& who);
  /// Closes all connections with a process that does not answer: what it was being sent is
  /// released, which no end of a generation does, and those who wait for it are told. It stays lost
  /// until it is introduced again.
  void forget(std::uint64_t process, const std::string& why);
  /// Closes all connections with a process that lives, of which one broke; whoever redeems of it
  /// next connects anew, unless it was forgotten. After the end of their generation, at both
  /// processes before either begins another one: else what one of them hears of late would break
  /// the next one, too (LINK-1).
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
    peer_number taker = {};  ///< who asked first
  };
  struct other {
    std::string where;
    peer_number number = {};     ///< 0: not connected yet
    generation_id missed = {};   ///< it has let go what was being read; 0: nothing
    std::string lost;            ///< why, when it is
    bool heals = false;          ///< with the next generation: its process was not forgotten
    bool is_unreadable = false;  ///< the system does not give this process its memory
  };
  struct fetch;
  class reception;

  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t bytes) override;
  landing believe(peer_number from, const wire_message& x, std::size_t bytes);
  void lost(peer_number who, const std::string& why) override;
  void answer(peer_number from, const wire_message& x);
  /// What is asked for, and with its last byte what holds until it is delivered.
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
  const std::uint64_t host_;  ///< a number of this host; 0: no memory is shared
  memory_pool pool_;          ///< of the host
  transport_counters counters_;

  mutable std::mutex mutex_;
  std::uint64_t next_slot_ = 1, next_fetch_ = 1;
  generation_id ended_ = {};
  std::unordered_map<std::uint64_t, lease> leases_;
  std::unordered_map<std::uint64_t, generation_id> taken_back_;  ///< before they were redeemed
  std::unordered_map<std::uint64_t, std::shared_ptr<fetch>> fetches_;
  std::set<const reception*> receptions_;  ///< that are being finished
  std::map<std::uint64_t, other> others_;
  std::map<peer_number, std::uint64_t> askers_;  ///< what process has asked by this connection

  std::unique_ptr<lender> lender_;       ///< null: nothing is lent
  std::unique_ptr<wire_stager> stager_;  ///< made when the first tensor of a device is deposited
  std::unique_ptr<wire> wire_;
};

}  // namespace troupe::runtime
