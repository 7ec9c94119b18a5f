// Data connections between virtual processes, in place of the real ones of neighbours.hpp.
//
// There is one kind per data plane: one redeems tickets of another process, the other serves
// reductions in groups. A broken connection carries nothing, and each end detects the loss at its
// own time. Until then its waits continue. Then they fail with peer_lost, and the node is told:
// always for groups, for tickets only if a wait failed (wire_transport.hpp, windows.hpp). The next
// generation makes a new connection (LINK-1). Closing a connection at one end breaks it for the
// other.

#pragma once

#include "actors/host/neighbours.hpp"
#include "actors/host/registries.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

class virtual_links;
class virtual_network;
class virtual_process;

/// State shared by both ends.
struct virtual_connection {
  bool is_broken = false;
};

enum class data_plane : std::uint8_t { tickets, groups };

/// Planes that break between two processes, and the delay until each end detects it.
struct broken_planes {
  bool tickets = true, groups = true;
  std::array<std::uint64_t, 2> heard_ns = {};
};

/// All data connections of a network. One thread.
class virtual_wiring {
 public:
  explicit virtual_wiring(virtual_network& of) : network_(of) {}

  /// Registers the links of a process at its place in the job.
  void add(virtual_links& x);
  /// The newest links of that place; null if there are none yet.
  virtual_links* at(int place) const;

  /// The connection by which `from` reaches `to`; created on first use.
  std::shared_ptr<virtual_connection> between(data_plane plane,
                                              virtual_links& from,
                                              virtual_links& to);

  /// Breaks connections between two living processes. False if there was none to break.
  bool break_off(virtual_links& a,
                 virtual_links& b,
                 const broken_planes& how,
                 const std::string& why);
  /// Closes all connections between two processes; the other end detects it later.
  void close(virtual_links& by, virtual_links& other);
  /// Breaks all connections of a dead process; the living ends detect it later.
  void lose(virtual_links& dead);

 private:
  using key = std::tuple<data_plane, int, int>;
  static key key_of(data_plane plane, const virtual_links& from, const virtual_links& to);
  std::vector<key> of_pair(const virtual_links& a, const virtual_links& b) const;
  bool break_one(const key& which);
  void tell_later(std::uint64_t after_ns,
                  const key& which,
                  virtual_links& to,
                  virtual_links& other,
                  const std::string& why);

  virtual_network& network_;
  std::map<int, virtual_links*> newest_;  ///< by place
  std::map<key, std::shared_ptr<virtual_connection>> all_;
};

/// Data connections of one process. One thread.
class virtual_links final : public neighbours {
 public:
  virtual_links(virtual_network& network, const virtual_process& of, messages::process_name self);
  ~virtual_links() override;

  int number() const;  ///< of its process; unique
  bool is_dead() const;
  std::string obituary() const;  ///< reason that others see after its death

  void renew_connections(int process) override;
  std::unique_ptr<runtime::communicator> join(runtime::window_group_description what,
                                              const std::vector<int>& processes,
                                              int rank,
                                              const runtime::cancel_token& until) override;

  /// Clears losses of ticket connections, so that the next generation connects anew.
  void end_generation();

  /// Called when this end detects a broken connection. Ignores connections that it has closed.
  void hear(data_plane plane,
            const virtual_links& other,
            const std::shared_ptr<virtual_connection>& which,
            const std::string& why);

  /// A wait for tickets of another process, during its lifetime.
  class redeeming {
   public:
    /// Throws peer_lost if the connection has broken in this generation.
    redeeming(virtual_links& by, virtual_links& holder, runtime::generation_id generation);
    ~redeeming();
    redeeming(const redeeming&) = delete;
    redeeming& operator=(const redeeming&) = delete;

    bool carries() const { return !over_->is_broken; }
    bool is_lost() const { return !lost_.empty(); }
    void throw_if_lost() const;  ///< throws peer_lost

   private:
    friend class virtual_links;
    virtual_links& by_;
    runtime::generation_id generation_;
    std::shared_ptr<virtual_connection> over_;
    std::string lost_;  ///< reason
  };

 private:
  struct group_end;
  class group_communicator;
  struct end {
    std::shared_ptr<virtual_connection> over = {};  ///< null: not connected
    std::string lost = {};                          ///< reason, until the next generation
  };

  virtual_links(virtual_network& network,
                const virtual_process& of,
                messages::process_name self,
                std::shared_ptr<broken_connections> told);
  end& connected(data_plane plane, virtual_links& to);
  /// Fails all waits on that connection. Returns their newest generation; 0 if there were none.
  runtime::generation_id release(const virtual_connection& over, const std::string& why);
  void begin(runtime::generation_id x);

  virtual_network& network_;
  const virtual_process& process_;
  const std::shared_ptr<broken_connections> told_;
  std::map<std::pair<data_plane, int>, end> ends_;  ///< by the other process's number
  std::set<redeeming*> redeeming_;
  std::vector<std::weak_ptr<group_end>> groups_;
  runtime::generation_id newest_ = {};  ///< newest generation of a joined group
};

}  // namespace troupe::actors::simulation
