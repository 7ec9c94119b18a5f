// A wire: messages between processes, each a short header plus bytes that are copied from memory to
// memory.
//
// The interface of the plug-in libtroupe_ucx.so (kernels/backend/plugin.hpp), which exports
// `troupe_ucx_wire`. This header does not include UCX. wire_transport.hpp is built on it.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// The other end of a connection. A wire counts from 1 and never reuses a number.
enum class peer_number : std::uint64_t {};

/// Destination of the bytes of an arriving message.
struct landing {
  void* to = nullptr;                   ///< null: the bytes are dropped and `done` is not called
  std::shared_ptr<const void> keep;     ///< held while the destination may be written
  std::function<void(bool)> done = {};  ///< true: they have arrived; false: they will not
  bool on_device = false;               ///< the CPU cannot write to `to`
};

/// Callbacks of a wire, on its own thread, one at a time. They must not block or throw.
class wire_owner {
 public:
  virtual ~wire_owner() = default;

  /// Called once per message of a live peer, in any order. The header is valid during the call.
  virtual landing arrived(peer_number from, std::span<const std::byte> header, std::size_t bytes)
      = 0;

  /// Called once per peer, as soon as it is gone or closed; no message follows. Unfinished
  /// operations get `done(false)` afterwards, when their memory is no longer in use.
  virtual void lost(peer_number who, const std::string& why) = 0;
};

struct outgoing {
  std::vector<std::byte> header;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;     ///< held while the bytes may be read
  std::function<void(bool)> done = {};  ///< true: the bytes were taken; on the wire's thread
};

/// A thread of its own does all the work and sleeps when there is none. Any thread may call.
class wire {
 public:
  virtual ~wire() = default;  ///< call `stop` first

  /// Before this call, callers are not answered and the owner gets no callbacks.
  virtual void start() = 0;
  /// Ends unfinished operations with `done(false)` and refuses callers. After it returns, there are
  /// no callbacks, and requests to the wire are dropped. Do not call it on the wire's own thread.
  virtual void stop() = 0;

  /// The address for other processes: "127.0.0.1:40123". A plain value that may travel in a
  /// message.
  virtual std::string address() const = 0;
  /// Whether bytes may lie in device memory, written and readable outside the device's queues. Such
  /// bytes are announced and fetched, never sent along with the header.
  virtual bool takes_device_memory() const = 0;

  /// Returns at once. For an unreachable peer, the owner gets `lost`.
  virtual peer_number connect(const std::string& address) = 0;
  /// Calls `done(false)` for a peer that is gone.
  virtual void send(peer_number to, outgoing what) = 0;
  virtual void close(peer_number who, const std::string& why) = 0;
};

struct wire_settings {
  /// The numeric address to listen on, at which other processes reach this machine. Not 0.0.0.0:
  /// other processes could not call it.
  std::string listen_address = "127.0.0.1";
  /// Uses the first free port from `port` to `last_port`; only `port` when `last_port` is 0. Both
  /// 0: any port.
  std::uint16_t port = 0, last_port = 0;

  /// The run's shared secret (runtime/process/credentials.hpp). A peer that cannot prove that it
  /// knows it is refused before its data is used (WIRE-1).
  std::string secret;
  /// Instead of a secret, for tests and benchmarks: trusts every user of this machine. Only on a
  /// loopback address.
  bool without_secret = false;
  std::string run_id;          ///< equal on both sides
  std::uint64_t process = 0;   ///< number of this process in the run
  std::string build;           ///< equal on both sides; empty: this program's build
  std::uint32_t protocol = 0;  ///< 0: this program's version

  /// Timeout of a handshake. A fraction of the failure detector's timeout, because a good peer may
  /// be slow.
  std::chrono::milliseconds handshake_within{5000};
  /// Breaks a connection on which the other system has not answered, or has not accepted pending
  /// data, for this long. Set to the failure detector's timeout. 0: the system's default.
  std::chrono::milliseconds silent_for{0};
  /// Maximum number of callers in a handshake; beyond it the oldest one is disconnected.
  std::size_t most_unknown = 64;
  /// Called once per kind of refusal, on the wire's thread. Empty: make_ucx_wire uses the log.
  std::function<void(const std::string&)> report_refusal = {};

  /// Polls for this long before the thread sleeps. Kept short: a thread that it woke may need this
  /// core. Does not yield either: beside compute threads it would return only after their time
  /// slice.
  std::chrono::microseconds spin{20};
  /// Gives UCX device pointers where it accepts them. Equal on both ends. Not tested on a device
  /// yet, so nothing sets it (docs/decisions/0014-transports.md).
  bool device_memory = false;
  /// Starts a thread, as in runtime/core/thread.hpp. Empty: make_ucx_wire passes the program's own
  /// to the plug-in.
  std::function<std::jthread(const std::string& name, std::function<void()> work)> start_thread
      = {};
};

/// The plug-in's exported function. Throws std::runtime_error with what was tried and UCX's reason.
using wire_maker = wire*(wire_owner& owner, const wire_settings& settings);

}  // namespace troupe::runtime
