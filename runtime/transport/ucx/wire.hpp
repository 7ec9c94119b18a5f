// The UCX wire: one thread with an entrance and its peers.

#pragma once

#include "runtime/transport/ucx/entrance.hpp"
#include "runtime/transport/ucx/peer.hpp"

#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace troupe::runtime::ucx {

class wire_of_ucx final : public wire, private entrance::host {
 public:
  wire_of_ucx(wire_owner& owner, const wire_settings& settings);
  ~wire_of_ucx() override;

  void start() override;
  void stop() override;
  std::string address() const override { return address_; }
  bool takes_device_memory() const override { return takes_device_memory_; }
  peer_number connect(const std::string& address) override;
  void send(peer_number to, outgoing what) override;
  void close(peer_number who, const std::string& why) override;

 private:
  using work = std::function<void()>;
  using clock = std::chrono::steady_clock;

  /// A lost peer with a connection that is still closing; the owner knows of the loss.
  struct dying {
    std::unique_ptr<peer> who;
    clock::time_point until;
  };

  void post(work what);
  void serve(std::promise<void>& ready);
  void listen();
  void work_on();
  bool do_posted();
  bool progress();
  void bury();
  bool arm();
  void sleep();
  int longest_sleep() const;
  void watch(int one);
  std::map<peer_number, std::unique_ptr<peer>>::iterator add(peer_number number, bool was_called);

  // entrance::host
  std::pair<peer_number, std::string> admit() override;
  void introduced(peer_number who, const handshake& talk) override;
  void left(peer_number who, const std::string& why) override;

  peer_number next_number();

  wire_owner& owner_;
  const wire_settings settings_;
  const descriptor posted_event_, epoll_;
  std::string address_;
  bool takes_device_memory_ = false;

  std::mutex mutex_;  ///< protects the three members below
  std::vector<work> posted_;
  std::uint64_t next_ = 1;
  bool asleep_ = false;

  // Used only by the thread.
  bool started_ = false, over_ = false;
  context context_;
  std::unique_ptr<entrance> entrance_;
  std::map<peer_number, std::unique_ptr<peer>> peers_;
  std::list<dying> dying_;
  clock::time_point busy_at_;

  std::jthread thread_;
};

}  // namespace troupe::runtime::ucx
