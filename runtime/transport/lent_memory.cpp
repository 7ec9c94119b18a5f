#include "runtime/transport/lent_memory.hpp"

#include "runtime/transport/process_memory.hpp"

#include <random>
#include <unistd.h>

namespace troupe::runtime {

namespace {

const void* pointer(std::uint64_t address) {
  return reinterpret_cast<const void*>(std::uintptr_t(address));
}

std::uint64_t address(const void* pointer) {
  return std::uint64_t(reinterpret_cast<std::uintptr_t>(pointer));
}

std::uint64_t by_chance() {
  std::random_device chance;
  return std::uint64_t(chance()) << 32 | chance();
}

}  // namespace

lender::lender() : next_serial_(by_chance()) {
  let_siblings_read();
}

lender::~lender() {
  for (auto& [whose, x] : loans_)
    x.guard->store(0);
}

lent_place lender::lend(peer_number to,
                        std::uint64_t fetch,
                        const std::byte* at,
                        std::shared_ptr<const void> keep) {
  std::shared_ptr<const void> before
      = end(to, fetch);  // a peer that reuses a number loses its first loan
  const std::lock_guard lock(mutex_);
  if (free_.empty())
    free_.push_back(&guards_.emplace_back(0));
  auto* const guard = free_.back();
  free_.pop_back();
  next_serial_ += next_serial_ == 0 ? 1 : 0;
  const auto serial = next_serial_++;
  guard->store(serial);
  loans_.emplace(std::pair(to, fetch), loan{guard, std::move(keep)});
  return {.pid = ::getpid(), .at = address(at), .guard = address(guard), .serial = serial};
}

void lender::free(loan& x) {
  x.guard->store(0);
  free_.push_back(x.guard);
}

std::shared_ptr<const void> lender::end(peer_number to, std::uint64_t fetch) {
  const std::lock_guard lock(mutex_);
  const auto found = loans_.find({to, fetch});
  if (found == loans_.end())
    return nullptr;
  free(found->second);
  auto out = std::move(found->second.keep);
  loans_.erase(found);
  return out;
}

void lender::end_all(peer_number of) {
  std::vector<loan> ended;  // released without the mutex, because their pools lock theirs
  const std::lock_guard lock(mutex_);
  for (auto x = loans_.lower_bound({of, 0}); x != loans_.end() && x->first.first == of;) {
    free(x->second);
    ended.push_back(std::move(x->second));
    x = loans_.erase(x);
  }
}

std::size_t lender::size() const {
  const std::lock_guard lock(mutex_);
  return loans_.size();
}

lent_reading read_lent(const lent_place& x, std::uint64_t begin, std::span<std::byte> into) {
  std::uint64_t serial = 0;
  auto failure = read_memory(x.pid, pointer(x.at + begin), into);
  if (failure == 0)
    failure = read_memory(x.pid, pointer(x.guard), std::as_writable_bytes(std::span(&serial, 1)));
  if (failure != 0)
    return {lent_bytes::unread, failure};
  return {serial == x.serial ? lent_bytes::there : lent_bytes::gone};
}

}  // namespace troupe::runtime
