#include "actors/support/command_desk.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace troupe::actors {

void command_desk::put(order x) {
  const char* refusal = nullptr;
  std::function<void()> wake;  // called without the lock, which the end of the supervisor takes
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      refusal = "the run has ended";
    else if (waiting_.size() >= most_waiting)
      refusal = "too many commands are waiting; try again later";
    else
      waiting_.push_back(std::move(x));
    wake = wake_;
  }
  if (refusal == nullptr && wake)
    wake();
  if (refusal != nullptr && x.answer)
    x.answer({.done = false, .message = refusal});
}

std::optional<command_desk::order> command_desk::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty())
    return {};
  std::optional out(std::move(waiting_.front()));
  waiting_.pop_front();
  return out;
}

std::vector<command_desk::order> command_desk::take_questions() {
  const std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(waiting_.begin(), waiting_.end(), [](const order& x) {
    return !std::holds_alternative<runtime::commands::status>(x.what);
  });
  std::vector<order> out(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  return out;
}

void command_desk::on_order(const void* whose, std::function<void()> wake) {
  const auto wakes = wake;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    whose_ = whose;
    wake_.swap(wake);
    waits = !waiting_.empty();
  }
  if (waits)
    wakes();
}

void command_desk::no_longer_wakes(const void* whose) {
  std::function<void()> wake;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (whose_ == whose)
    wake_.swap(wake);
}

void command_desk::close() {
  std::deque<order> refused;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = {};
    refused.swap(waiting_);
  }
  for (const auto& one : refused)
    if (one.answer)
      one.answer({.done = false, .message = "the run has ended"});
}

}  // namespace troupe::actors
