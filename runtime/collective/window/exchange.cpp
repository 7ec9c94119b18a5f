#include "runtime/collective/window/exchange.hpp"

#include "runtime/collective/window/distant_wire.hpp"
#include "runtime/collective/window/exchange_message.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {

namespace {
constexpr std::size_t most_mirrors = 1 << 14;
constexpr std::size_t most_early = 8;
}  // namespace

window_exchange::window_exchange(std::uint64_t process, const maker& make, hooks hooks)
    : process_(process), hooks_(std::move(hooks)), wire_(make(*this)) {
  wire_->start();
}

window_exchange::~window_exchange() {
  wire_->stop();
}

std::shared_ptr<window_wire> window_exchange::wire_to(const window_address& process,
                                                      const std::string& group,
                                                      generation_id generation,
                                                      bool waits) {
  {
    const std::lock_guard lock(mutex_);
    auto& x = others_[process.process];
    x.calls = waits;
    if (x.number == peer_number{} && !waits)
      x.number = wire_->connect(process.wire);
    else if (x.number == peer_number{})
      for (const auto& [number, caller] : callers_)  // the newest call is the last
        if (caller == process.process)
          x.number = number;
  }
  return std::make_shared<distant_wire>(*this, process.process, group, generation);
}

// Ignores what these connections still deliver; a later connection has another number.
void window_exchange::forget(std::uint64_t process, const std::string& why) {
  std::vector<peer_number> all;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = others_.find(process); at != others_.end()) {
      all.push_back(std::exchange(at->second.number, peer_number{}));
      at->second.unsent.clear();
    }
    std::erase_if(callers_, [&](const auto& x) {
      if (x.second == process)
        all.push_back(x.first);
      return x.second == process;
    });
    std::erase_if(fetches_, [&](const auto& x) { return x.second->from == process; });
    std::erase(all, peer_number{});
    closed_.insert(all.begin(), all.end());
  }
  for (const auto one : all)
    wire_->close(one, why);
}

void window_exchange::drop(const std::string& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(mirrors_, [&](const auto& x) { return std::get<1>(x.first) == group; });
}

void window_exchange::begin_generation(generation_id first) {
  const std::lock_guard lock(mutex_);
  first_ = std::max(first_, first);
}

void window_exchange::wake(const std::string& group) {
  if (const auto found = hooks_.group(group))
    found->wake();
}

landing window_exchange::arrived(peer_number from,
                                 std::span<const std::byte> header,
                                 std::size_t bytes) {
  message x;
  const auto good = message{};
  const bool fits = header.size() == sizeof x;
  if (fits)
    std::memcpy(&x, header.data(), sizeof x);
  if (!fits || x.magic != good.magic || x.version != good.version || x.group.back() != 0
      || x.verb < window_verb::post || x.verb > window_verb::refusal
      || (bytes > 0 && x.verb != window_verb::post && x.verb != window_verb::bytes)
      || bytes > std::size_t(window_exchange::most_bytes_of_piece)) {
    wire_->close(from, "it sent an invalid message between windows");
    return {};
  }
  std::vector<outgoing> unsent;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.contains(from))
      return {};
    callers_[from] = x.process;
    if (const auto at = others_.find(x.process);
        at != others_.end() && at->second.calls && at->second.number < from) {
      at->second.number = from;
      unsent.swap(at->second.unsent);
    }
  }
  for (auto& one : unsent)
    wire_->send(from, std::move(one));
  switch (x.verb) {
    case window_verb::post:
      return take_post(x, bytes);
    case window_verb::ask:
      answer(from, x);
      return {};
    case window_verb::bytes:
    case window_verb::refusal:
      return take_bytes(from, x, bytes);
  }
  return {};
}

landing window_exchange::take_post(const message& x, std::size_t bytes) {
  if (bytes == 0) {
    apply(x, std::nullopt);
    return {};
  }
  const auto words = std::make_shared<std::vector<std::int64_t>>(
      std::min(bytes / sizeof(std::int64_t), most_words_of_offer));
  if (bytes != words->size() * sizeof(std::int64_t))
    return {};
  return {words->data(), words, [this, x, words](bool there) {
            if (auto offer = offer_in(*words); there && offer)
              apply(x, std::move(offer));
          }};
}

void window_exchange::apply(const message& x, std::optional<window_offer> offer) {
  const std::string group = x.group.data();
  {
    const std::lock_guard lock(mutex_);
    const place where{x.process, group, x.rank};
    const bool is_over = generation_id(x.generation) < first_;
    if ((is_over || mirrors_.size() >= most_mirrors) && !mirrors_.contains(where))
      return;
    auto& to = mirrors_[where];
    to.left = to.left || x.left != 0;
    // The rank's leave may arrive before the offer of its last round.
    if (x.left == 0 && x.round > to.rounds && to.early.size() < most_early)
      to.early[x.round] = std::move(offer);
    for (auto at = to.early.begin(); at != to.early.end() && at->first <= to.rounds + 1;
         at = to.early.erase(at)) {
      to.rounds = at->first;
      if (at->second) {
        to.offers[at->first % 2] = std::move(at->second);
        to.offered[at->first % 2] = at->first;
      }
    }
  }
  wake(group);
}

/// Runs on the wire's thread and never waits.
void window_exchange::answer(peer_number from, const message& x) {
  auto said = x;
  said.process = process_;
  said.verb = window_verb::refusal;
  std::shared_ptr<std::byte[]> copy;
  const auto group = hooks_.group(x.group.data());
  if (group != nullptr && x.bytes > 0 && x.bytes <= window_exchange::most_bytes_of_piece) {
    copy = std::make_shared_for_overwrite<std::byte[]>(std::size_t(x.bytes));
    if (group->copy_out(x.rank, x.round, x.array, x.begin, {copy.get(), std::size_t(x.bytes)}))
      said.verb = window_verb::bytes;
  }
  const bool there = said.verb == window_verb::bytes;
  const std::span<const std::byte> bytes(copy.get(), there ? std::size_t(x.bytes) : 0);
  wire_->send(from, {said.header(), bytes, copy});
}

landing window_exchange::take_bytes(peer_number, const message& x, std::size_t bytes) {
  std::shared_ptr<fetch> to;
  const bool refused = x.verb == window_verb::refusal;
  {
    const std::lock_guard lock(mutex_);
    const auto at = fetches_.find(x.fetch);
    if (at == fetches_.end() || at->second->from != x.process
        || (!refused && at->second->bytes != bytes))
      return {};
    to = at->second;
    fetches_.erase(at);
    if (refused)
      to->over = to->refused = true;
  }
  if (refused) {
    wake(to->group);
    return {};
  }
  return {to->place.get(), to, [this, to](bool there) {
            {
              const std::lock_guard lock(mutex_);
              to->over = there;  // otherwise the process is lost and its groups are told
            }
            wake(to->group);
          }};
}

void window_exchange::send(std::uint64_t process, message x, std::vector<std::int64_t> words) {
  x.process = process_;
  const auto keep = std::make_shared<std::vector<std::int64_t>>(std::move(words));
  outgoing what{x.header(), std::as_bytes(std::span(*keep)), keep};
  peer_number to = {};
  {
    const std::lock_guard lock(mutex_);
    auto& other = others_[process];
    to = other.number;
    if (to == peer_number{} && other.calls) {
      other.unsent.push_back(std::move(what));
      return;
    }
  }
  wire_->send(to, std::move(what));
}

std::shared_ptr<window_exchange::fetch> window_exchange::ask(std::uint64_t process,
                                                             message x,
                                                             std::int64_t bytes) {
  auto out = std::make_shared<fetch>();
  out->from = process;
  out->group = x.group.data();
  out->bytes = std::size_t(bytes);
  out->place = std::make_shared_for_overwrite<std::byte[]>(out->bytes);
  {
    const std::lock_guard lock(mutex_);
    out->number = next_fetch_++;
    // A process that was forgotten meanwhile never replies; its group releases the waiting ranks.
    if (const auto to = others_.find(process);
        to == others_.end() || to->second.number == peer_number{})
      return out;
    fetches_[out->number] = out;
  }
  x.fetch = out->number;
  x.bytes = bytes;
  send(process, x, {});
  return out;
}

void window_exchange::lost(peer_number who, const std::string& why) {
  std::optional<std::uint64_t> process;
  {
    const std::lock_guard lock(mutex_);
    closed_.erase(who);
    for (auto& [id, x] : others_)
      if (x.number == who) {
        process = id;
        x.number = {};
        x.unsent.clear();
      }
    if (const auto at = callers_.find(who); at != callers_.end()) {
      process = at->second;
      callers_.erase(at);
    }
  }
  if (process)
    hooks_.lost(*process, why);
}

}  // namespace troupe::runtime
