// Processes and hosts that a simulation plays in one thread: what each has, how messages and
// tickets go from one to another, and what its death is.
//
//   virtual_network > virtual_host > virtual_process    one node actor each, with a context of its
//   own
//
// Between processes it is as between real ones: a message to the dead vanishes, a request of the
// dead is never answered, news of a death comes later, with the reason that the link gives and not
// the one with which the actor ended, before or after what the dead had sent. A connection over
// which actors speak is a stream: what it carries is delayed while the network is parted, and lost
// by death alone. What CAF sends by itself, answers to requests, takes no time and passes a parted
// network. Connections of data break between the living, too (virtual_links.hpp).

#pragma once

#include "actors/node/context.hpp"
#include "actors/simulation/virtual_links.hpp"
#include "actors/simulation/world.hpp"
#include "runtime/transport/local/local_transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

class virtual_process;

struct virtual_host {
  int number = 0;
  std::string name;
};

/// All processes of a job. One thread.
class virtual_network {
 public:
  virtual_network(world& in, choices from, mix how);
  /// Ends the world, whose actors still know it.
  ~virtual_network();

  virtual_host& add_host();
  /// `told` has what the job needs (data, viewers, jobs, faults); this adds transport, lanes,
  /// groups and the way of messages.
  virtual_process& add_process(virtual_host& on, const node_context& told);

  const std::vector<std::unique_ptr<virtual_process>>& processes() const { return processes_; }
  /// Null: of none, as the test's own actors.
  virtual_process* process_of(caf::actor_id actor) const;
  void belongs(caf::actor_id actor, virtual_process& to) { of_actor_[actor] = &to; }

  /// Its actors, lanes and leases are gone; those of others who watch them are told later.
  void kill(virtual_process& x);
  /// Called when one has been killed.
  void on_killed(std::function<void(virtual_process&)> tell) { killed_ = std::move(tell); }
  /// From one to the other nothing arrives until then; what is sent meanwhile arrives after. The
  /// other way is open.
  void part(const virtual_process& from, const virtual_process& to, std::uint64_t until_ns);

  /// Connections of data.
  virtual_wiring& wiring() { return wiring_; }
  /// Where ranks of several processes meet.
  group_meeting& meeting() { return *meeting_; }

  /// How late it is heard that somebody is gone or a connection closed, this time.
  std::uint64_t news_ns() {
    return mix_.network_latency_ns + choices_.below(mix_.longest_delay_ns + 1);
  }

  /// What it takes from one process to another that leaves now.
  std::uint64_t latency(const virtual_process& from, const virtual_process& to);

  /// From now on nothing is late.
  void calm_down() {
    mix_ = calm();
    parted_until_.clear();
  }

  /// Called before each piece of work of a lane, with its name; what it throws is the lane's
  /// failure.
  void before_work(std::function<void(const std::string&)> look) { look_ = std::move(look); }

  world& in() { return world_; }
  choices& chance() { return choices_; }
  const mix& how() const { return mix_; }
  caf::actor nowhere();

 private:
  friend class virtual_process;
  void watch(const caf::actor_addr& watcher, const caf::actor& watched);

  world& world_;
  choices choices_;
  mix mix_;
  std::vector<std::unique_ptr<virtual_host>> hosts_;
  std::vector<std::unique_ptr<virtual_process>> processes_;
  std::map<caf::actor_id, virtual_process*> of_actor_;
  std::shared_ptr<group_meeting> meeting_ = std::make_shared<group_meeting>();
  virtual_wiring wiring_{*this};
  std::map<std::pair<int, int>, std::uint64_t> parted_until_;
  std::map<std::pair<caf::actor_id, caf::actor_id>, std::uint64_t> last_arrival_;
  caf::actor nowhere_;
  std::function<void(const std::string&)> look_;
  std::function<void(virtual_process&)> killed_;
};

/// One of them.
class virtual_process {
 public:
  virtual_process(virtual_network& of, virtual_host& on, int number, const node_context& told);
  ~virtual_process();

  /// From now on it is that one of the job, and has connections of data with the others.
  void take_place(messages::process_name who);
  virtual_links* links() const { return links_.get(); }  ///< null: it has none

  int number() const { return number_; }
  const virtual_host& host() const { return host_; }
  bool is_dead() const { return dead_; }
  const std::shared_ptr<node_context>& context() const { return context_; }
  runtime::local_transport& leases() { return *leases_; }
  /// Tickets that their makers took back before anybody had redeemed them.
  std::uint64_t taken_back() const { return taken_back_; }
  virtual_network& network() { return network_; }

 private:
  friend class virtual_network;
  friend class virtual_transport;
  class network_end;

  virtual_network& network_;
  virtual_host& host_;
  int number_;
  bool dead_ = false;
  std::uint64_t taken_back_ = 0;
  std::shared_ptr<runtime::local_transport> leases_;
  std::shared_ptr<node_context> context_;
  std::shared_ptr<virtual_links> links_;
};

/// Tickets of one virtual process: its own change hands as in any process; those of others are
/// asked for, and arrive after the network's latency, unless the connection breaks. Throws as
/// transport.hpp says; peer_lost when the holder is dead. Waits on a fiber.
class virtual_transport final : public runtime::transport {
 public:
  explicit virtual_transport(virtual_process& of) : process_(of) {}

  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id generation,
                          std::shared_ptr<const void> until_taken = {}) override;
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override;
  void take_back(std::span<const runtime::ticket> tickets) override;
  void end_generation(runtime::generation_id last) override;
  std::size_t leased() const override { return process_.leases().leased(); }
  const runtime::transport_counters& counters() const override {
    return process_.leases().counters();
  }

 private:
  virtual_process* holder_of(const runtime::ticket& x) const;
  void wait_for(virtual_process& holder, const runtime::ticket& x, const runtime::redeemer& by);

  virtual_process& process_;
  runtime::generation_id ended_ = {};
};

}  // namespace troupe::actors::simulation
