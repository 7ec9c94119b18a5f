#include "runtime/collective/window/shared_wire.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/process_key.hpp"
#include "runtime/transport/process_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::runtime {

namespace {

constexpr std::size_t most_mappings = 256;  // per process and group

}  // namespace

std::shared_ptr<shared_memory_peer> open_peer(const window_address& where) {
  auto out = std::make_shared<shared_memory_peer>(where);
  out->handle = int(::syscall(SYS_pidfd_open, pid_t(where.pid), 0));
  out->board = window_board::open(where);
  std::uint64_t nonce = 0;
  const auto* const probe = reinterpret_cast<const void*>(std::uintptr_t(where.probe));
  out->may_read = read_memory(where.pid, probe, std::as_writable_bytes(std::span(&nonce, 1))) == 0
                  && nonce == where.nonce && out->lives();
  return out;
}

shared_memory_peer::~shared_memory_peer() {
  if (handle >= 0)
    ::close(handle);
}

bool shared_memory_peer::lives() const {
  pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
  return handle >= 0 && ::poll(&ended, 1, 0) == 0;
}

shared_wire::shared_wire(std::shared_ptr<shared_memory_peer> peer,
                         std::string group,
                         const std::vector<int>& ranks,
                         std::shared_ptr<window_wire> distant)
    : peer_(std::move(peer)), group_(std::move(group)), distant_(std::move(distant)) {
  for (const int rank : ranks)
    members_.emplace_back(std::make_unique<member>())->rank = rank;
}

shared_wire::member& shared_wire::of(int rank) {
  return **std::find_if(
      members_.begin(), members_.end(), [&](const auto& x) { return x->rank == rank; });
}

// Concurrent lookups by threads of this process find the same channel.
window_progress shared_wire::look(int rank) {
  auto& x = of(rank);
  if (x.channel < 0) {
    const auto found = peer_->board->find(group_, rank);
    if (!found)
      return {};
    x.serial = found->second;
    x.channel = found->first;
  }
  const auto now = peer_->board->progress(x.channel);
  return now.serial == x.serial ? now : window_progress{.left = true};
}

std::uint64_t shared_wire::rounds(int rank) {
  return look(rank).rounds;
}

bool shared_wire::has_left(int rank) {
  return look(rank).left;
}

std::optional<window_offer> shared_wire::offer(int rank, std::uint64_t round) {
  auto& x = of(rank);
  return peer_->board->offer(x.channel, x.serial, round);
}

// The content is already on this process's board, so only ring. A rank that has not joined yet
// reads the board when it joins.
void shared_wire::tell(int, std::uint64_t, bool, const window_offer*) {
  for (const auto& x : members_)
    if (look(x->rank).serial != 0)
      ring(peer_->board->bell(x->channel));
}

// Limited, because a mapping keeps a block that its owner has freed.
std::shared_ptr<const std::byte> shared_wire::map(const window_array& of) {
  if (of.place.descriptor < 0)
    return nullptr;
  const std::lock_guard lock(mutex_);
  auto found = mapped_.find(of.place.inode);
  if (found == mapped_.end()) {
    auto at = map_shared(peer_->where.pid, of.place, of.bytes);
    if (at == nullptr)
      return nullptr;
    if (mapped_.size() >= most_mappings)
      mapped_.erase(std::min_element(mapped_.begin(), mapped_.end(), [](auto& a, auto& b) {
        return a.second.used < b.second.used;
      }));
    found = mapped_.emplace(of.place.inode, mapping{std::move(at)}).first;
  }
  found->second.used = ++uses_;
  return {found->second.at, found->second.at.get() + of.place.offset};
}

void shared_wire::unmap() {
  std::map<std::uint64_t, mapping> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(mapped_);
}

void shared_wire::begin(window_read& x) {
  if (!peer_->may_read)
    distant_->begin(x);
}

bool shared_wire::is_ready(const window_read& x) {
  return peer_->may_read || distant_->is_ready(x);
}

bool shared_wire::finish(window_read& x) {
  if (!peer_->may_read)
    return distant_->finish(x);
  auto failure = read_memory(peer_->where.pid, x.at + x.begin, x.into);
  if (!peer_->lives())
    failure = ESRCH;
  if (failure == 0)
    return true;
  if ((failure == EFAULT || failure == ESRCH) && has_left(x.rank))
    return false;
  if (failure == ESRCH)
    throw peer_lost(
        "cannot read {} bytes of rank {} of the group {} in {} (pid {}), which is gone; its "
        "generation must end",
        x.into.size(),
        x.rank,
        group_,
        name_by_process_key(peer_->where.process),
        peer_->where.pid);
  throw io_error(
      "cannot read {} bytes of rank {} of the group {} in {} (pid {}): {}; check that the array of "
      "that rank has the size that it offers",
      x.into.size(),
      x.rank,
      group_,
      name_by_process_key(peer_->where.process),
      peer_->where.pid,
      system_message(failure));
}

}  // namespace troupe::runtime
