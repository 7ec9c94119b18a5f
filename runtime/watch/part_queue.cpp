#include "runtime/watch/part_queue.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

class queued_body final : public http::body_source {
 public:
  explicit queued_body(std::shared_ptr<part_queue> queue) : queue_(std::move(queue)) {}
  ~queued_body() override { queue_->close(); }
  std::optional<std::string> next() override { return queue_->take(); }

 private:
  std::shared_ptr<part_queue> queue_;
};

}  // namespace

void part_queue::on_part(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && (ended_ || !bytes_.empty()))
    wake_();
}

bool part_queue::put(std::string_view part) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || bytes_.size() < most_bytes_; });
  if (closed_)
    return false;
  bytes_ += part;
  if (wake_)
    wake_();
  return true;
}

void part_queue::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  if (wake_)
    wake_();
}

std::optional<std::string> part_queue::take() {
  const std::lock_guard lock(mutex_);
  if (bytes_.empty() && ended_)
    return {};
  changed_.notify_all();
  return std::exchange(bytes_, {});
}

void part_queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_ = {};
  changed_.notify_all();
}

bool part_queue::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::size_t part_queue::waiting() const {
  const std::lock_guard lock(mutex_);
  return bytes_.size();
}

std::unique_ptr<http::body_source> body_of(std::shared_ptr<part_queue> queue) {
  return std::make_unique<queued_body>(std::move(queue));
}

}  // namespace troupe::runtime
