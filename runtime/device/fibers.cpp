#include "runtime/device/fibers.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <cxxabi.h>
#include <utility>

#if defined(__has_feature)  // clang reports sanitizers by __has_feature, GCC by macros
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::runtime {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t stack_bytes = 2 << 20;  // instrumented frames are many times larger

void leave(void** fake, const void* to, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, to, bytes);
}
void arrive(void* fake, const void** from, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, from, bytes);
}
/// Clears ASan's poisoning by frames of an earlier stack at this address.
void forget(const void* stack, std::size_t bytes) {
  __asan_unpoison_memory_region(stack, bytes);
}
#else
constexpr std::size_t stack_bytes = 256 << 10;  // untouched pages take no memory

void leave(void**, const void*, std::size_t) {}
void arrive(void*, const void**, std::size_t*) {}
void forget(const void*, std::size_t) {}
#endif

#if defined(__SANITIZE_THREAD__)
void* new_identity() {
  return __tsan_create_fiber(0);
}
void destroy_identity(void* of) {
  __tsan_destroy_fiber(of);
}
void* own_identity() {
  return __tsan_get_current_fiber();
}
void become(void* other) {
  __tsan_switch_to_fiber(other, 0);
}
#else
void* new_identity() {
  return nullptr;
}
void destroy_identity(void*) {}
void* own_identity() {
  return nullptr;
}
void become(void*) {}
#endif

/// The thread's state of handled exceptions (__cxa_eh_globals). Each stack needs its own: one fiber
/// may wait inside a handler while another throws.
class handled_exceptions {
 public:
  void swap_with_thread() {
    std::byte now[size];
    auto* const of_thread = reinterpret_cast<std::byte*>(abi::__cxa_get_globals());
    std::memcpy(now, of_thread, size);
    std::memcpy(of_thread, kept_, size);
    std::memcpy(kept_, now, size);
  }

 private:
  static constexpr std::size_t size
      = sizeof(void*) + sizeof(unsigned int);  // Itanium C++ ABI, 2.2.2
  std::byte kept_[size] = {};
};

}  // namespace

class fiber_pool::fiber final : public running_fiber {
 public:
  fiber(fiber_pool& owner, std::string name, std::function<void()> work)
      : owner_(owner), name_(std::move(name)), work_(std::move(work)), identity_(new_identity()) {
    boost::context::protected_fixedsize_stack stacks(stack_bytes);
    const auto stack = stacks.allocate();
    own_stack_ = static_cast<const std::byte*>(stack.sp) - stack.size;
    own_bytes_ = stack.size;
    forget(own_stack_, own_bytes_);
    own_ = boost::context::fiber(
        std::allocator_arg,
        boost::context::preallocated(stack.sp, stack.size, stack),
        stacks,
        [this](boost::context::fiber&& caller) { return carry_out(std::move(caller)); });
  }
  ~fiber() override {
    // The destructor of a boost fiber that never ran resumes its stack once to unwind it.
    destroy_identity(identity_);
  }

  const std::string& name() const { return name_; }
  bool has_ended() const { return ended_; }
  bool can_go_on() const { return !running_ && (abandoned_ || !holds_ || holds_()); }
  void abandon() { abandoned_ = true; }
  std::optional<std::uint64_t> wakes_at() const { return wakes_at_; }

  /// Called by the pool's owner, or by another fiber that joins.
  void resume() {
    running_ = true;
    auto* const before = running_fiber::exchange(this);
    auto* const watch_before = watch_of_thread(watch_);
    exceptions_.swap_with_thread();
    caller_identity_ = own_identity();
    leave(&caller_fake_, own_stack_, own_bytes_);
    become(identity_);
    own_ = std::move(own_).resume();
    arrive(caller_fake_, nullptr, nullptr);
    exceptions_.swap_with_thread();
    watch_ = watch_of_thread(watch_before);
    running_fiber::exchange(before);
    running_ = false;
  }

  void wait(std::function<bool()> holds) override {
    if (abandoned_)
      throw cancelled();
    holds_ = std::move(holds);
    suspend();
    holds_ = nullptr;
    if (abandoned_)
      throw cancelled();
  }
  void sleep(std::uint64_t ns) override {
    const auto until = owner_.now_ns() + ns;
    wakes_at_ = until;
    const std::shared_ptr<void> awake(nullptr, [this](void*) { wakes_at_.reset(); });
    wait([this, until] { return owner_.now_ns() >= until; });
  }
  std::uint64_t now_ns() const override { return owner_.now_ns(); }

 private:
  boost::context::fiber carry_out(boost::context::fiber&& caller) {
    arrive(nullptr, &caller_stack_, &caller_bytes_);
    caller_ = std::move(caller);
    work_();
    work_ = nullptr;
    ended_ = true;
    leave(nullptr, caller_stack_, caller_bytes_);  // null: this stack is no longer needed
    become(caller_identity_);
    return std::move(caller_);
  }

  void suspend() {
    leave(&own_fake_, caller_stack_, caller_bytes_);
    become(caller_identity_);
    caller_ = std::move(caller_).resume();
    arrive(own_fake_, &caller_stack_, &caller_bytes_);
  }

  fiber_pool& owner_;
  std::string name_;
  std::function<void()> work_;
  std::function<bool()> holds_;  ///< empty before the first run
  std::optional<std::uint64_t> wakes_at_;
  bool running_ = false, ended_ = false, abandoned_ = false;
  boost::context::fiber own_, caller_;
  handled_exceptions exceptions_;
  watched_thread* watch_ = nullptr;  ///< of the thread, while this fiber runs on it

  // Used by the sanitizers: stack addresses, and TSan's fiber handles.
  void* identity_;
  void* caller_identity_ = nullptr;
  const void* own_stack_ = nullptr;
  std::size_t own_bytes_ = 0;
  void* own_fake_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
  void* caller_fake_ = nullptr;
};

fiber_pool::fiber_pool()
    : turn_([this] {
        const auto able = runnable();
        if (able.empty())
          return false;
        run(able.front());
        return true;
      }) {}

fiber_pool::~fiber_pool() {
  while (!fibers_.empty()) {
    const auto which = fibers_.begin()->first;
    abandon(which);
    run(which);
  }
}

fiber_pool::number fiber_pool::start(std::string name, std::function<void()> work) {
  const auto which = next_++;
  fibers_.emplace(which, std::make_unique<fiber>(*this, std::move(name), std::move(work)));
  return which;
}

fiber_pool::fiber& fiber_pool::at(number which) const {
  return *fibers_.at(which);
}

std::vector<fiber_pool::number> fiber_pool::runnable() const {
  std::vector<number> out;
  for (const auto& [which, x] : fibers_)
    if (x->can_go_on())
      out.push_back(which);
  return out;
}

void fiber_pool::run(number which) {
  auto& x = at(which);
  x.resume();
  if (x.has_ended())
    fibers_.erase(which);
}

bool fiber_pool::has_ended(number which) const {
  return !fibers_.contains(which);
}

const std::string& fiber_pool::name(number which) const {
  return at(which).name();
}

std::vector<fiber_pool::number> fiber_pool::alive() const {
  std::vector<number> out;
  for (const auto& [which, x] : fibers_)
    out.push_back(which);
  return out;
}

void fiber_pool::abandon(number which) {
  if (!has_ended(which))
    at(which).abandon();
}

void fiber_pool::join(number which) {
  if (auto* const waiting = running_fiber::current()) {
    try {
      return waiting->wait([this, which] { return has_ended(which); });
    } catch (const cancelled&) {
      // The joining fiber is abandoned, perhaps inside a destructor: it abandons the other one,
      // too.
      abandon(which);
      while (!has_ended(which))
        run(which);
      return;
    }
  }
  while (!has_ended(which)) {
    if (turn_())
      continue;
    stuck_.push_back(name(which));
    abandon(which);
  }
}

std::optional<std::uint64_t> fiber_pool::next_wake() const {
  std::optional<std::uint64_t> out;
  for (const auto& [which, x] : fibers_)
    if (const auto at = x->wakes_at(); at && (!out || *at < *out))
      out = at;
  return out;
}

}  // namespace troupe::runtime
