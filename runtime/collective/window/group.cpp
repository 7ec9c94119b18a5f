#include "runtime/collective/window/group.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/lane_clock.hpp"
#include "runtime/core/process_key.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::runtime {

std::string key_of(const window_group_description& x) {
  return fmt::format("{}@{}", x.name, value(x.generation));
}

window_group::window_group(window_group_description what,
                           std::vector<home> homes,
                           std::shared_ptr<window_board> board,
                           std::shared_ptr<const shared_memory> memory,
                           window_tuning tuning,
                           std::shared_ptr<window_counters> counters)
    : what_(std::move(what)),
      homes_(std::move(homes)),
      board_(std::move(board)),
      memory_(std::move(memory)),
      tuning_(tuning),
      counters_(std::move(counters)) {
  for (int r = 0; r < size(); ++r) {
    auto* const wire = homes_[std::size_t(r)].wire.get();
    if (wire == nullptr)
      members_.emplace(r, std::make_unique<member>());
    else if (std::find(wires_.begin(), wires_.end(), wire) == wires_.end())
      wires_.push_back(wire);
  }
}

window_group::~window_group() {
  for (auto& [rank, x] : members_)
    if (x->channel >= 0)
      board_->give_back(x->channel);
}

window_array window_group::placed(window_array x) const {
  if (memory_ != nullptr)
    x.place = memory_->find(x.at, x.bytes).value_or(shared_place{});
  return x;
}

void window_group::join(int rank, const cancel_token& until) {
  ensure(rank >= 0 && rank < size() && is_here(rank), "WINDOW-5: a rank joins in its home process");
  auto& x = local(rank);
  ensure(!x.joined.exchange(true), "WINDOW-6: a rank joins its group once");
  auto* bell = &x.own_bell;
  if (board_ != nullptr) {
    x.channel = board_->take(key_of(what_), rank);
    bell = &board_->bell(x.channel);
  }
  x.bell = bell;
  x.until = until;
  x.waker = until.on_cancel([bell] { ring(*bell); });
  ++present_;
}

void window_group::part(int rank) {
  local(rank).waker.reset();
  if (--present_ == 0)
    for (auto* const wire : wires_)
      wire->unmap();
}

bool window_group::maps_arrays() const {
  return memory_ != nullptr
         && std::any_of(wires_.begin(), wires_.end(), [](auto* x) { return x->maps_arrays(); });
}

void window_group::begin(int rank, const collective_call& call) {
  {
    const std::lock_guard lock(mutex_);
    local(rank).call = {.what = call.what, .elements = call.elements};
  }
  check(rank);
}

bool window_group::has_arrived(int rank, std::uint64_t round) const {
  return (is_here(rank) ? local(rank).rounds.load() : wire_of(rank).rounds(rank)) >= round;
}

bool window_group::has_left(int rank) const {
  return is_here(rank) ? local(rank).left.load() : wire_of(rank).has_left(rank);
}

wait_reason window_group::meeting(int rank) const {
  return {wait_reason::party::group,
          local(rank).call.what,
          std::uint64_t(rank),
          weak_from_this().lock()};
}

wait_report window_group::missing(std::uint64_t rank) const {
  const auto at = members_.find(int(rank));
  if (at == members_.end())
    return {};
  wait_report out;
  {
    const std::lock_guard lock(mutex_);
    out.what = fmt::format("{} in '{}'", at->second->call.what, what_.name);
  }
  const auto round = at->second->rounds.load();
  for (int r = 0; r < size(); ++r)
    if (!has_arrived(r, round))
      out.whom.push_back(what_.members.empty() ? fmt::format("rank {} of {}", r, what_.name)
                                               : what_.members[std::size_t(r)]);
  return out;
}

void window_group::arrive(int rank, const window_offer* offer) {
  auto& x = local(rank);
  const auto round = x.rounds + 1;
  if (offer != nullptr) {
    const std::lock_guard lock(mutex_);
    x.offers[round % 2] = *offer;
    x.offered[round % 2] = round;
  }
  x.rounds = round;
  tell(rank, offer);
}

void window_group::meet(int rank, const window_offer& offer) {
  arrive(rank, &offer);
  const auto round = rounds(rank);
  for (int r = 0; r < size(); ++r)
    if (r != rank)
      await(
          rank, [&] { return has_arrived(r, round); }, meeting(rank));
}

// A rank that arrived and left earlier may have freed arrays while this rank read them. A rank that
// went on to the next round has seen this rank arrive, and left only later. So check `has_left`
// last.
void window_group::meet(int rank) {
  arrive(rank, nullptr);
  const auto round = rounds(rank);
  for (int r = 0; r < size(); ++r)
    if (r != rank)
      await(
          rank,
          [&] { return has_arrived(r, round + 1) || (has_arrived(r, round) && !has_left(r)); },
          meeting(rank));
}

/// Posts on the board first, because a woken rank reads it.
void window_group::tell(int rank, const window_offer* offer) {
  auto& x = local(rank);
  if (x.channel >= 0)
    board_->post(x.channel, x.rounds, x.left, offer);
  for (auto* const wire : wires_)
    wire->tell(rank, x.rounds, x.left, offer);
  for (const auto& [r, other] : members_)
    if (auto* const bell = other->bell.load(); r != rank && bell != nullptr)
      ring(*bell);
}

void window_group::await(int rank, const std::function<bool()>& holds, wait_reason why) {
  auto& x = local(rank);
  auto& bell = *x.bell;
  const flagged_wait told(std::move(why));
  const lane_timer timed(x.waited_ns);
  for (;;) {
    const auto seen = bell.rung.load();
    if (holds())
      return;
    check(rank);
    await_ring(bell, seen, tuning_.spin);
  }
}

void window_group::check(int rank) {
  auto& x = local(rank);
  if (!x.until.is_cancelled() && !is_lost_)
    return;
  leave(rank);
  if (x.until.is_cancelled())
    throw cancelled();
  throw peer_lost("rank {} of the group {} along {} was in {}{} when {}; its generation must end",
                  rank,
                  what_.name,
                  short_name(what_.along),
                  x.call.what,
                  x.call.elements > 0 ? fmt::format(" of {}", x.call.elements) : "",
                  lost_);
}

void window_group::await_release(int rank) {
  await(rank, [] { return false; }, {});
  throw cancelled();
}

void window_group::leave(int rank) {
  auto& x = local(rank);
  if (x.left)
    return;
  {
    std::unique_lock lock(mutex_);
    x.left = left_ = true;
    changed_.wait(lock, [&] { return readers_ == 0; });
  }
  tell(rank, nullptr);
}

window_offer window_group::offer(int rank, int of) {
  const auto round = rounds(rank);
  if (is_here(of)) {
    const std::lock_guard lock(mutex_);
    return local(of).offers[round % 2];
  }
  auto out = wire_of(of).offer(of, round);
  if (!out)
    await_release(rank);
  return *out;
}

window_group::reading::reading(window_group& of, int rank) : of_(of) {
  for (;;) {
    {
      const std::lock_guard lock(of.mutex_);
      if (!of.left_) {
        ++of.readers_;
        return;
      }
    }
    of.await_release(rank);
  }
}

window_group::reading::~reading() {
  const std::lock_guard lock(of_.mutex_);
  if (--of_.readers_ == 0)
    of_.changed_.notify_all();
}

bool window_group::copy_out(
    int rank, std::uint64_t round, std::size_t array, std::int64_t begin, std::span<std::byte> to) {
  const auto at = members_.find(rank);
  if (at == members_.end())
    return false;
  const auto& x = *at->second;
  const std::byte* from = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto& offer = x.offers[round % 2];
    const bool fits = !x.left && x.offered[round % 2] == round && array < offer.arrays.size()
                      && begin >= 0 && begin <= offer.arrays[array].bytes
                      && std::int64_t(to.size()) <= offer.arrays[array].bytes - begin;
    if (!fits)
      return false;
    from = static_cast<const std::byte*>(offer.arrays[array].at) + begin;
    ++readers_;
  }
  std::memcpy(to.data(), from, to.size());
  const std::lock_guard lock(mutex_);
  if (--readers_ == 0)
    changed_.notify_all();
  return true;
}

void window_group::lose(std::uint64_t process, const std::string& why) {
  std::string ranks;
  for (int r = 0; r < size(); ++r)
    if (homes_[std::size_t(r)].process == process && !is_here(r))
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
  if (ranks.empty())
    return;
  {
    const std::lock_guard lock(mutex_);
    if (is_lost_)
      return;
    lost_ = fmt::format("{} with rank {} was lost: {}", name_by_process_key(process), ranks, why);
    is_lost_ = true;
  }
  wake();
}

void window_group::wake() {
  for (const auto& [rank, x] : members_)
    if (auto* const bell = x->bell.load())
      ring(*bell);
}

}  // namespace troupe::runtime
