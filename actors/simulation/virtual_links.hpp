// Connections of data between virtual processes: what a real process has in neighbours.hpp.
//
// As there are two data planes there are two kinds: over some tickets of another process are
// redeemed, over others groups sum. One that has broken carries nothing any more, and each end
// hears of it at a time of its own; until then whoever waits for something over it waits on.
// Then they are told peer_lost and the node is told that it broke: of groups always, of tickets
// when somebody missed it, as wire_transport.hpp and windows.hpp have it. It is made anew for the
// next generation (LINK-1). A connection that one end closes breaks for the other one.

#pragma once

#include "actors/node/registries.hpp"
#include "actors/process/neighbours.hpp"

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

/// As both ends know it.
struct virtual_connection {
  bool is_broken = false;
};

enum class data_plane : std::uint8_t { tickets, groups };

/// What breaks between two processes, and after how long each end hears of it.
struct broken_planes {
  bool tickets = true, groups = true;
  std::array<std::uint64_t, 2> heard_ns = {};
};

/// All connections of a network. One thread.
class virtual_wiring {
 public:
  explicit virtual_wiring(virtual_network& of) : network_(of) {}

  /// It takes its place in the job.
  void add(virtual_links& x);
  /// The newest of that place; null: nobody has come yet.
  virtual_links* at(int place) const;

  /// The connection by which `from` reaches the other one; it is made where none stands.
  std::shared_ptr<virtual_connection> between(data_plane plane,
                                              virtual_links& from,
                                              virtual_links& to);

  /// Between two that live. Whether there was anything to break.
  bool break_off(virtual_links& a,
                 virtual_links& b,
                 const broken_planes& how,
                 const std::string& why);
  /// All between these two: the other end hears of it.
  void close(virtual_links& by, virtual_links& other);
  /// All of a process that is dead: the living hear of it.
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

/// Those of one process. One thread.
class virtual_links final : public neighbours {
 public:
  virtual_links(virtual_network& network, const virtual_process& of, messages::process_name self);
  ~virtual_links() override;

  int number() const;  ///< of its process, of which no two are equal
  bool is_dead() const;
  std::string obituary() const;  ///< what others hear of its death

  void renew_connections(int process) override;
  std::unique_ptr<runtime::communicator> join(runtime::window_group_description what,
                                              const std::vector<int>& processes,
                                              int rank,
                                              const runtime::cancel_token& until) override;

  /// Of its tickets: what was lost with a connection is there again for the next generation.
  void end_generation();

  /// That connection has broken. Of one that it has closed meanwhile it hears nothing.
  void hear(data_plane plane,
            const virtual_links& other,
            const std::shared_ptr<virtual_connection>& which,
            const std::string& why);

  /// Somebody waits for tickets of another process for as long as this lives.
  class redeeming {
   public:
    /// Throws peer_lost: the connection has broken in this generation.
    redeeming(virtual_links& by, virtual_links& holder, runtime::generation_id generation);
    ~redeeming();
    redeeming(const redeeming&) = delete;
    redeeming& operator=(const redeeming&) = delete;

    bool carries() const { return !over_->is_broken; }
    bool is_lost() const { return !lost_.empty(); }
    void throw_if_lost() const;  ///< peer_lost

   private:
    friend class virtual_links;
    virtual_links& by_;
    runtime::generation_id generation_;
    std::shared_ptr<virtual_connection> over_;
    std::string lost_;  ///< why
  };

 private:
  struct group_end;
  class group_communicator;
  struct end {
    std::shared_ptr<virtual_connection> over = {};  ///< null: not connected
    std::string lost = {};                          ///< why, until the next generation
  };

  virtual_links(virtual_network& network,
                const virtual_process& of,
                messages::process_name self,
                std::shared_ptr<broken_connections> told);
  end& connected(data_plane plane, virtual_links& to);
  /// The newest generation of those who waited over it; 0: nobody did.
  runtime::generation_id release(const virtual_connection& over, const std::string& why);
  void begin(runtime::generation_id x);

  virtual_network& network_;
  const virtual_process& process_;
  const std::shared_ptr<broken_connections> told_;
  std::map<std::pair<data_plane, int>, end> ends_;  ///< by the other's number
  std::set<redeeming*> redeeming_;
  std::vector<std::weak_ptr<group_end>> groups_;
  runtime::generation_id newest_ = {};  ///< of a group that was joined
};

}  // namespace troupe::actors::simulation
