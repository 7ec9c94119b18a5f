// The wire: one thread, a listener, and its peers.

#pragma once

#include "runtime/transport/ucx/peer.hpp"

#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace troupe::runtime::ucx {

class wire_of_ucx final : public wire {
 public:
  wire_of_ucx(wire_owner& owner, const wire_settings& how);
  ~wire_of_ucx() override;

  void start() override;
  std::string address() const override { return address_; }
  bool takes_device_memory() const override { return takes_device_memory_; }
  peer_number connect(const std::string& address) override;
  void send(peer_number to, outgoing what) override;
  void close(peer_number who, const std::string& why) override;

 private:
  using work = std::function<void()>;

  void post(work what);
  void serve(std::promise<void> ready);
  void listen();
  void work_on();
  bool do_posted();
  bool answer_callers();
  bool progress();
  void bury();
  void sleep();
  void watch(int descriptor);
  std::map<peer_number, std::unique_ptr<peer>>::iterator add(peer_number number);

  static void called(ucp_conn_request_h who, void* self);

  wire_owner& owner_;
  const wire_settings how_;
  std::string address_;
  bool takes_device_memory_ = false;

  std::mutex mutex_;  ///< of these three
  std::vector<work> posted_;
  std::uint64_t next_ = 1;
  bool asleep_ = false;
  int posted_event_ = -1, epoll_ = -1;

  // Of the thread alone.
  bool started_ = false, over_ = false;
  context context_;
  worker worker_;  ///< the listener's
  listener listener_;
  std::vector<ucp_conn_request_h> callers_;
  std::map<peer_number, std::unique_ptr<peer>> peers_;
  std::chrono::steady_clock::time_point busy_at_;

  std::thread thread_;
};

}  // namespace troupe::runtime::ucx
