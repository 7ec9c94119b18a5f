#include "runtime/device/stream.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/device/operation_timer.hpp"
#include "runtime/device/queue_points.hpp"
#include "runtime/telemetry/trace.hpp"

#include <cstring>

namespace troupe::runtime {

stream::stream(kernels::backend where, int threads, memory_pool pool, int device)
    : where_(where), threads_(threads), pool_(std::move(pool)) {
  if (where != kernels::backend::cuda || pool_.is_shadow())
    return;
  require_device(device);
  queue_ = open_devices().make_queue(device);
  queue_->attend();
  native_queue_ = queue_->native();
  pool_.serve(queue_);
  anchor_ = queue_->mark(true);
  anchor_->wait();
  anchor_ns_ = std::int64_t(now_ns());
}

stream::~stream() {
  if (!timer_)
    return;
  try {
    timer_->close(*this);
  } catch (const std::exception&) {  // the lane has already reported the failure
  }
}

void stream::run(const kernels::operation& op) {
  const auto space = scratch(kernels::scratch(where_, op, threads_));
  if (pool_.is_shadow())  // only the scratch is counted
    return;
  const kernels::context in{threads_, space, native_queue_};
  if (!timer_ || !timer_->counts())
    return kernels::run(where_, op, in);
  auto began = now();
  kernels::run(where_, op, in);
  auto ended = now();
  timer_->add(call_of(op, queue_ == nullptr), std::move(began), std::move(ended), *this);
}

std::span<std::byte> stream::scratch(std::size_t bytes) {
  if (bytes > scratch_size_) {
    scratch_.reset();  // earlier work on this stream used it
    scratch_ = pool_.allocate(bytes);
    scratch_size_ = bytes;
  }
  return {scratch_.get(), bytes};
}

memory_block stream::constant(const std::string& name,
                              std::size_t bytes,
                              const std::function<void(std::byte*)>& make) {
  constexpr std::size_t most = 16;
  if (pool_.is_shadow())
    return pool_.allocate(bytes);
  const auto found = constants_.find(name);
  if (found != constants_.end())
    return found->second;
  if (constants_.size() == most)
    constants_.clear();
  std::vector<std::byte> host(bytes);
  make(host.data());
  auto block = pool_.allocate(bytes);
  pool_.write(block.get(), host.data(), bytes);
  return constants_.emplace(name, std::move(block)).first->second;
}

void stream::copy(void* to, const void* from, std::size_t bytes) {
  if (pool_.is_shadow() || bytes == 0)
    return;
  if (queue_ != nullptr)
    queue_->copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void stream::wait_for(const std::shared_ptr<device_event>& point) {
  if (point == nullptr)
    return;
  if (queue_ != nullptr)
    queue_->wait_for(*point);
  else
    point->wait();
}

moment stream::now() {
  if (queue_ != nullptr)
    return moment(queue_->mark(true));
  const auto* const fiber = running_fiber::current();
  return moment(fiber != nullptr ? fiber->now_ns() : now_ns());
}

std::int64_t stream::ns_of(const moment& x) const {
  if (x.event_ == nullptr)
    return x.ns_;
  const auto ns = anchor_ns_ + std::int64_t(x.event_->ms_after(*anchor_) * 1e6);
  // The driver reports milliseconds as a float: 4 us of error after a minute.
  if (ns - anchor_ns_ > 1'000'000'000) {
    anchor_ = x.event_;
    anchor_ns_ = ns;
  }
  return ns;
}

bool stream::has_passed(const moment& x) const {
  return x.event_ == nullptr || x.event_->passed();
}

void stream::attend() {
  if (queue_ != nullptr)
    queue_->attend();
}

void stream::show_progress() {
  if (queue_ == nullptr)
    return;
  if (points_ == nullptr)
    points_ = std::make_shared<queue_points>();
  points_->add(queue_->mark());
  follow_work(points_);
}

template <class Wait>
void stream::wait_by(Wait wait) const {
  auto by = others_.lock();
  if (by == nullptr)
    return wait();
  const flagged_wait told({wait_reason::party::group, "", number_, std::move(by)});
  wait();
}

void stream::finish() {
  if (queue_ != nullptr)
    wait_by([this] { queue_->finish(); });
}

void stream::read(void* to, const void* from, std::size_t bytes) const {
  wait_by([&] { pool_.read(to, from, bytes); });
}

void stream::depends_on(std::weak_ptr<const awaited> x, std::uint64_t number) {
  others_ = std::move(x);
  number_ = number;
}

void stream::check() {
  if (queue_ != nullptr)
    queue_->check();
}

void stream::require_host(const char* what) const {
  if (queue_ != nullptr)
    throw input_error(
        "{} needs tensors in host memory, but this run computes on a device: set "
        "`backend` cpu, or write it with operations that run on devices",
        what);
}

void stream::time_operations(std::shared_ptr<operation_profile> to) {
  timer_ = std::make_unique<operation_timer>(std::move(to));
}

void stream::begin_step(bool training) {
  // Autotuning of products needs more scratch than later steps. Releasing it lets a device that is
  // out of memory reclaim it from the pool.
  if (queue_) {
    scratch_.reset();
    scratch_size_ = 0;
  }
  if (timer_)
    timer_->begin_step(training, *this);
}

}  // namespace troupe::runtime
