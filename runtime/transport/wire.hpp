// A wire: messages between processes, each a short header and bytes that go from memory to memory.
//
// What libtroupe_ucx.so does for this room (kernels/backend/plugin.hpp); it exports
// `troupe_ucx_wire`. Nothing here includes UCX. What is made of it: wire_transport.hpp.

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

/// The other end of a connection, as one wire counts them from 1. Never used again.
enum class peer_number : std::uint64_t {};

/// Where the bytes of a message go that has come.
struct landing {
  void* to = nullptr;                   ///< null: they are dropped, and `done` is not called
  std::shared_ptr<const void> keep;     ///< as long as somebody may still write there
  std::function<void(bool)> done = {};  ///< true: they are there; false: they will not come
  bool on_device = false;               ///< the CPU cannot write there
};

/// What a wire tells, on its own thread, one call at a time. Neither waits nor throws.
class wire_owner {
 public:
  virtual ~wire_owner() = default;

  /// Once for each message of a peer that lives, in any order. The header is only lent.
  virtual landing arrived(peer_number from, std::span<const std::byte> header, std::size_t bytes)
      = 0;

  /// Once for a peer, as soon as it is known to be gone or was closed: nothing comes of it any
  /// more. What was under way with it is told `done(false)` afterwards, when nobody reads or writes
  /// its memory any more.
  virtual void lost(peer_number who, const std::string& why) = 0;
};

struct outgoing {
  std::vector<std::byte> header;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;     ///< as long as somebody may still read the bytes
  std::function<void(bool)> done = {};  ///< true: they were taken; on the wire's thread
};

/// One thread of its own does all the work and sleeps where there is none. Any thread calls.
class wire {
 public:
  virtual ~wire() = default;  ///< after `stop`

  /// Nobody is answered, and the owner is told nothing, before.
  virtual void start() = 0;
  /// What was under way is told `done(false)`, and who calls is refused; once it returns nobody
  /// is told anything, and whatever is asked of the wire is dropped. Not on its own thread.
  virtual void stop() = 0;

  /// Where others reach it: "127.0.0.1:40123". A plain value, which may travel in a message.
  virtual std::string address() const = 0;
  /// Bytes may lie in the memory of a device, written and free to be read outside of its queues.
  /// They are announced and fetched, never sent along with the header.
  virtual bool takes_device_memory() const = 0;

  /// Returns at once; of a peer that cannot be reached the owner is told that it is lost.
  virtual peer_number connect(const std::string& address) = 0;
  /// To a peer that is gone: `done(false)`.
  virtual void send(peer_number to, outgoing what) = 0;
  virtual void close(peer_number who, const std::string& why) = 0;
};

struct wire_settings {
  /// A numeric address of this machine at which others reach it, to listen on. Not all of them at
  /// once (0.0.0.0): nobody could be told where to call.
  std::string listen_address = "127.0.0.1";
  /// The first that is free from `port` to `last_port`, or `port` alone where that is 0. Both 0:
  /// any.
  std::uint16_t port = 0, last_port = 0;

  /// What all processes of a run know, and nobody else (runtime/process/credentials.hpp). Who
  /// cannot prove that he knows it is refused before anything of his is believed (WIRE-1).
  std::string secret;
  /// Instead of a secret, for tests and benchmarks: whoever uses this machine is believed. On a
  /// loopback address only.
  bool without_secret = false;
  std::string run_id;          ///< both sides say the same
  std::uint64_t process = 0;   ///< which of the run
  std::string build;           ///< both sides say the same; empty: this program's
  std::uint32_t protocol = 0;  ///< 0: this program's

  /// Who has not shown who he is by then is closed. A part of the time of suspicion: the process of
  /// a good peer may be slow for so long.
  std::chrono::milliseconds handshake_within{5000};
  /// A connection over which the other system has not answered for so long, or has had no room for
  /// what waits, is broken: the time of suspicion. 0: the systems decide.
  std::chrono::milliseconds silent_for{0};
  /// Callers who have not shown who they are, at a time. One more, and the one who has taken
  /// longest makes room.
  std::size_t most_unknown = 64;
  /// Told of who is refused, once for each kind of reason; empty for make_ucx_wire: the log. On the
  /// wire's thread.
  std::function<void(const std::string&)> report_refusal = {};

  /// How long the thread looks before it sleeps: who it has woken may wait for its core so long.
  /// Nor does it yield meanwhile: where others compute it would come back after their time slice.
  std::chrono::microseconds spin{20};
  /// UCX is given pointers of devices, where it says that it takes them. Both ends say the same.
  /// Not shown on a device yet, so nothing sets it (docs/decisions/0014-transports.md).
  bool device_memory = false;
  /// runtime/core/thread.hpp's; empty for make_ucx_wire, which gives the plug-in that of the
  /// program.
  std::function<std::jthread(const std::string& name, std::function<void()> work)> start_thread
      = {};
};

/// What the plug-in exports. Throws std::runtime_error: what was tried and what UCX said.
using wire_maker = wire*(wire_owner& owner, const wire_settings& settings);

}  // namespace troupe::runtime
