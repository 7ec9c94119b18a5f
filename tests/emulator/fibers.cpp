#include "tests/emulator/fibers.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#if defined(__has_feature)  // clang announces sanitizers differently from GCC
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::emulator {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t stack_bytes = 512 << 10;  // instrumented frames are much larger

void leave(void** fake, const void* to, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, to, bytes);
}
void arrive(void* fake, const void** from, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, from, bytes);
}
#else
constexpr std::size_t stack_bytes = 128 << 10;  // untouched pages cost nothing

void leave(void**, const void*, std::size_t) {}
void arrive(void*, const void**, std::size_t*) {}
#endif

#if defined(__SANITIZE_THREAD__)
void* new_name() {
  return __tsan_create_fiber(0);
}
void* current_name() {
  return __tsan_get_current_fiber();
}
void switch_to(void* name) {
  __tsan_switch_to_fiber(name, 0);
}
#else
void* new_name() {
  return nullptr;
}
void* current_name() {
  return nullptr;
}
void switch_to(void*) {}
#endif

}  // namespace

fiber::fiber(std::function<void()> body) : body_(std::move(body)), own_name_(new_name()) {
  boost::context::protected_fixedsize_stack stacks(stack_bytes);
  const auto stack = stacks.allocate();
  own_stack_ = static_cast<const std::byte*>(stack.sp) - stack.size;
  own_bytes_ = stack.size;
  own_ = boost::context::fiber(
      std::allocator_arg,
      boost::context::preallocated(stack.sp, stack.size, stack),
      stacks,
      [this](boost::context::fiber&& owner) { return run(std::move(owner)); });
}

boost::context::fiber fiber::run(boost::context::fiber&& owner) {
  arrive(nullptr, &owner_stack_, &owner_bytes_);
  owner_ = std::move(owner);
  body_();
  return std::move(owner_);
}

void fiber::resume() {
  owner_name_ = current_name();
  leave(&owner_fake_, own_stack_, own_bytes_);
  switch_to(own_name_);
  own_ = std::move(own_).resume();
  arrive(owner_fake_, nullptr, nullptr);
}

void fiber::suspend() {
  leave(&own_fake_, owner_stack_, owner_bytes_);
  switch_to(owner_name_);
  owner_ = std::move(owner_).resume();
  arrive(own_fake_, &owner_stack_, &owner_bytes_);
}

}  // namespace troupe::emulator
