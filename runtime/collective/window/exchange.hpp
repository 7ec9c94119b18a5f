// Messages between processes that cannot read each other's memory, over a wire of transport/.
//
// There are four kinds: a rank has arrived (with its offer, without addresses), a request for a
// piece of an offered array, its bytes, and a refusal. Requests are checked against the offer of
// their round. The wire's thread copies the bytes before it sends them, so no array is read after
// its rank has left (WINDOW-3).

#pragma once

#include "runtime/collective/window/group.hpp"
#include "runtime/transport/wire.hpp"

#include <set>
#include <unordered_map>

namespace troupe::runtime {

/// Known state of a rank in another process.
struct window_mirror {
  std::uint64_t rounds = 0;
  bool left = false;
  std::optional<window_offer> offers[2] = {};
  std::uint64_t offered[2] = {};
  /// Posts that arrived before an earlier round: messages are not ordered.
  std::map<std::uint64_t, std::optional<window_offer>> early = {};
};

class window_exchange final : private wire_owner {
 public:
  static constexpr std::int64_t most_bytes_of_piece = 16 << 20;

  using maker = std::function<std::unique_ptr<wire>(wire_owner&)>;
  struct hooks {
    std::function<std::shared_ptr<window_group>(const std::string& key)> group;
    std::function<void(std::uint64_t process, const std::string& why)> lost;
  };

  /// The wire's thread calls the hooks. Throws what `make` throws.
  window_exchange(std::uint64_t process, const maker& make, hooks hooks);
  ~window_exchange() override;

  std::string address() const { return wire_->address(); }
  /// `waits`: the other process calls this one, so both use one connection. Messages wait for its
  /// first one: no collective continues without that.
  std::shared_ptr<window_wire> wire_to(const window_address& process,
                                       const std::string& group,
                                       generation_id generation,
                                       bool waits);
  void forget(std::uint64_t process, const std::string& why);
  /// Forgets the ranks of a group that is no longer used.
  void drop(const std::string& group);
  /// Ignores new messages of earlier generations. Otherwise late messages of dropped groups would
  /// stay forever.
  void begin_generation(generation_id first);
  /// Stops calling the hooks. Do not call it on the wire's thread.
  void stop() { wire_->stop(); }

 private:
  friend class distant_wire;
  struct message;
  struct fetch;
  struct other {
    peer_number number = {};            ///< 0: not connected
    bool calls = false;                 ///< this process waits for its call
    std::vector<outgoing> unsent = {};  ///< until then
  };
  using place = std::tuple<std::uint64_t, std::string, int>;  ///< process, group, rank

  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t bytes) override;
  void lost(peer_number who, const std::string& why) override;
  landing take_post(const message& x, std::size_t bytes);
  void apply(const message& x, std::optional<window_offer> offer);
  void answer(peer_number from, const message& x);
  landing take_bytes(peer_number from, const message& x, std::size_t bytes);
  void send(std::uint64_t process, message x, std::vector<std::int64_t> words);
  std::shared_ptr<fetch> ask(std::uint64_t process, message x, std::int64_t bytes);
  void wake(const std::string& group);

  const std::uint64_t process_;
  const hooks hooks_;
  mutable std::mutex mutex_;
  std::map<place, window_mirror> mirrors_;
  std::map<std::uint64_t, other> others_;
  std::map<peer_number, std::uint64_t> callers_;
  std::set<peer_number> closed_;  ///< until the wire confirms; late messages are ignored
  std::unordered_map<std::uint64_t, std::shared_ptr<fetch>> fetches_;
  std::uint64_t next_fetch_ = 1;
  generation_id first_ = {};
  std::unique_ptr<wire> wire_;
};

}  // namespace troupe::runtime
