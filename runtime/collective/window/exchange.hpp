// Messages between processes that cannot read each other's memory, over a wire of transport/.
//
// Four kinds: a rank has arrived (with what it offers, without addresses), a piece of an offered
// array is asked for, its bytes, and its refusal. What is asked for is checked against the offer of
// that round: nobody reads anything else. Each process has a thread of the wire's, and that copies
// the bytes before it sends them: so no array is read after its rank has left (WINDOW-3).

#pragma once

#include "runtime/collective/window/group.hpp"
#include "runtime/transport/wire.hpp"

#include <set>
#include <unordered_map>

namespace troupe::runtime {

/// A rank elsewhere, as far as its process has told.
struct window_mirror {
  std::uint64_t rounds = 0;
  bool left = false;
  std::optional<window_offer> offers[2] = {};
  std::uint64_t offered[2] = {};
  /// Rounds that were heard of before the one that is next: messages come in any order.
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

  /// The hooks are called on the wire's thread. Throws what `make` throws.
  window_exchange(std::uint64_t process, const maker& make, hooks hooks);
  ~window_exchange() override;

  std::string address() const { return wire_->address(); }
  std::shared_ptr<window_wire> wire_to(const window_address& process,
                                       const std::string& group,
                                       generation_id generation);
  void forget(std::uint64_t process, const std::string& why);
  /// Nothing of this group is asked for any more.
  void drop(const std::string& group);
  /// Of groups of earlier generations nothing new is kept: what is said late of one that was
  /// dropped would stay for ever.
  void begin_generation(generation_id first);
  /// The hooks are not called any more. Not on the wire's thread.
  void stop() { wire_->stop(); }

 private:
  friend class distant_wire;
  struct message;
  struct fetch;
  struct other {
    std::string where;
    peer_number number = {};
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
  std::set<peer_number> closed_;  ///< until the wire says so: what still comes is of nobody
  std::unordered_map<std::uint64_t, std::shared_ptr<fetch>> fetches_;
  std::uint64_t next_fetch_ = 1;
  generation_id first_ = {};
  std::unique_ptr<wire> wire_;
};

}  // namespace troupe::runtime
