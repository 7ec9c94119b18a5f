#include "runtime/core/cancel.hpp"

#include "runtime/core/error.hpp"

#include <atomic>
#include <list>
#include <mutex>
#include <utility>

namespace troupe::runtime {

struct cancel_token::state {
  std::atomic<bool> flag = false;
  std::mutex mutex;  // guards wakers; held during their calls, so that no waker dies in its call
  std::list<std::function<void()>> wakers;
};

cancel_token::cancel_token() : state_(std::make_shared<state>()) {}

bool cancel_token::is_cancelled() const {
  return state_->flag.load(std::memory_order_acquire);
}

void cancel_token::throw_if_cancelled() const {
  if (is_cancelled())
    throw cancelled();
}

void cancel_token::cancel() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->flag.exchange(true, std::memory_order_acq_rel))
    return;
  for (const auto& wake : state_->wakers)
    wake();
}

std::shared_ptr<void> cancel_token::on_cancel(std::function<void()> wake) const {
  const std::lock_guard lock(state_->mutex);
  if (is_cancelled())
    wake();
  const auto place = state_->wakers.insert(state_->wakers.end(), std::move(wake));
  return std::shared_ptr<void>(state_.get(), [owner = state_, place](void*) {
    const std::lock_guard inner(owner->mutex);
    owner->wakers.erase(place);
  });
}

}  // namespace troupe::runtime
