// Virtual processes and hosts in one thread: their contexts, the messages and tickets between them,
// and their deaths.
//
//   virtual_network > virtual_host > virtual_process    one node actor each, with its own context
//
// Processes interact as real ones do:
// * A message to a dead process vanishes, and a request from it is never answered.
// * News of a death comes later, before or after the last messages of the dead process. It carries
//   the reason of the broken link, not the actor's own exit reason.
// * A control connection is a stream: a partition delays its messages, and only a death loses them.
// * CAF's own traffic (answers to requests) takes no time and ignores partitions.
// * Data connections also break between living processes (virtual_links.hpp).

#pragma once

#include "actors/host/context.hpp"
#include "actors/simulation/virtual_links.hpp"
#include "actors/simulation/world.hpp"
#include "runtime/transport/local/local_transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

class virtual_process;

struct virtual_host {
  int number = 0;
  std::string name;
  std::string domain = {};  ///< failure domain; empty: the host alone
};

/// All processes of a job. One thread.
class virtual_network {
 public:
  virtual_network(world& in, choices from, mix how);
  /// Ends the world first: its actors still use this object.
  ~virtual_network();

  virtual_host& add_host(std::string domain = {});
  /// `told` has what the job needs (data, viewers, jobs, faults); this adds the transport, lanes,
  /// groups and message path.
  virtual_process& add_process(virtual_host& on, const node_context& told);

  const std::vector<std::unique_ptr<virtual_process>>& processes() const { return processes_; }
  /// Null for actors outside all processes, such as a test's own.
  virtual_process* process_of(caf::actor_id actor) const;
  void belongs(caf::actor_id actor, virtual_process& to) { of_actor_[actor] = &to; }

  /// Ends its actors, lanes and leases at once; watchers in other processes get the news later.
  void kill(virtual_process& x);
  /// Sets the callback after each kill.
  void on_killed(std::function<void(virtual_process&)> tell) { killed_ = std::move(tell); }
  /// Partitions one direction until that time: messages sent meanwhile arrive afterwards.
  void part(const virtual_process& from, const virtual_process& to, std::uint64_t until_ns);

  /// The data connections.
  virtual_wiring& wiring() { return wiring_; }
  /// The groups shared by ranks of several processes.
  group_meeting& meeting() { return *meeting_; }

  /// Draws the delay after which a death or a closed connection is detected.
  std::uint64_t news_ns() {
    return mix_.network_latency_ns + choices_.below(mix_.longest_delay_ns + 1);
  }

  bool is_steady() const { return mix_.steady; }

  /// Draws the latency of a message that leaves now.
  std::uint64_t latency(const virtual_process& from, const virtual_process& to);

  /// Ends all delays and partitions.
  void calm_down() {
    mix_ = calm();
    parted_until_.clear();
  }

  /// Called before each task of a lane, with the lane's name. An exception from it fails the lane.
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
  std::unordered_map<caf::actor_id, virtual_process*> of_actor_;
  std::shared_ptr<group_meeting> meeting_ = std::make_shared<group_meeting>();
  virtual_wiring wiring_{*this};
  std::map<std::pair<int, int>, std::uint64_t> parted_until_;
  std::map<std::pair<caf::actor_id, caf::actor_id>, std::uint64_t> last_arrival_;
  caf::actor nowhere_;
  std::function<void(const std::string&)> look_;
  std::function<void(virtual_process&)> killed_;
};

/// One process.
class virtual_process {
 public:
  virtual_process(virtual_network& of, virtual_host& on, int number, const node_context& told);
  ~virtual_process();

  /// Gives the process its place in the job, and data connections to the others.
  void take_place(messages::process_name who);
  virtual_links* links() const { return links_.get(); }  ///< null before take_place()

  int number() const { return number_; }
  const virtual_host& host() const { return host_; }
  bool is_dead() const { return dead_; }
  const std::shared_ptr<node_context>& context() const { return context_; }
  runtime::local_transport& leases() { return *leases_; }
  /// Tickets that were taken back before they were redeemed.
  std::uint64_t taken_back() const { return taken_back_; }
  virtual_network& network() { return network_; }

 private:
  friend class virtual_network;
  friend class virtual_transport;
  class network_end;
  void add_data_plane(node_context& to);

  virtual_network& network_;
  virtual_host& host_;
  int number_;
  bool dead_ = false;
  std::uint64_t taken_back_ = 0;
  std::shared_ptr<runtime::local_transport> leases_;
  std::shared_ptr<node_context> context_;
  std::shared_ptr<virtual_links> links_;
};

/// The ticket transport of a virtual process. Its own tickets are redeemed at once. Tensors of
/// other processes arrive after the network's latency, unless the connection breaks. Throws as
/// transport.hpp says, and peer_lost when the holder is dead. Waits on a fiber.
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
