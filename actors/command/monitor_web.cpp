#include "actors/command/monitor_web.hpp"

#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/watch/monitor_proxy.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fmt/format.h>
#include <mutex>
#include <string_view>

namespace troupe::command {
namespace {

/// Accepts only loopback addresses: the page's token and the control token pass this port without
/// TLS.
runtime::http::endpoint page_endpoint(const std::string& listen) {
  if (listen.empty())
    return {};
  auto [host, port] = runtime::read_host_and_port(listen);
  if (host == "localhost")
    host = "127.0.0.1";
  if (!runtime::is_loopback(host))
    throw usage_error(
        "--listen {} is open to other hosts, and the page has no TLS: give 127.0.0.1:PORT, and run "
        "`ssh -L PORT:127.0.0.1:PORT THIS_HOST` on the other host",
        shown(listen));
  return {.address = host, .port = port};
}

std::string page_url(const runtime::http::endpoint& at, const runtime::monitor_proxy& page) {
  const bool is_v6 = at.address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/#token={}",
                     is_v6 ? "[" : "",
                     at.address,
                     is_v6 ? "]" : "",
                     page.port(),
                     page.token());
}

struct ignored_records final : runtime::run_listener {
  void begin(std::string_view) override {}
  void take(std::string_view) override {}
  void connection(const std::string&) override {}
};

class awaited_signal {
 public:
  void set(const char* name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
    changed_.notify_all();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !name_.empty(); });
    return name_;
  }
  /// Waits. Returns false if a signal came within this time.
  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [this] { return !name_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_;
};

}  // namespace

int show_monitor_page(const std::shared_ptr<const monitored_run>& run, const std::string& listen) {
  awaited_signal signal;
  const signal_watch signals([&](const char* name) { signal.set(name); });
  const auto at = page_endpoint(listen);
  if (const auto found = find_monitored_run(*run); !found.folder) {
    // Checks the address once: the page would retry a wrong one forever. A run in a folder may
    // start later.
    ignored_records to;
    runtime::follower(
        found, to, [&](auto time) { return signal.pause(time); }, limits_for(found))
        .read();
  }
  const runtime::monitor_proxy page(at, [run] { return find_monitored_run(*run).at; });
  print_page("the page of the run: {}\n", page_url(at, page));
  if (std::fflush(stdout) != 0)
    throw runtime::io_error("cannot write the URL of the page to standard output: {}",
                            runtime::system_message(errno));
  return exit_code_of_signal(signal.wait());
}

}  // namespace troupe::command
