// Fibers: stacks between which one thread of the host switches. Boost.Context does the switching;
// the sanitizers are told of it, so that the presets dev and tsan see kernels as they see all code.

#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace troupe::emulator {

/// Belongs to the thread that made it. Its function runs on a stack of its own, from resume to the
/// next suspend; the function never returns and a fiber is never destroyed: they are reused.
class fiber {
 public:
  explicit fiber(std::function<void()> body);
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() = delete;

  /// By the owner, not by another fiber. Returns at the next suspend.
  void resume();

  /// By the fiber's own function. Returns at the next resume.
  void suspend();

 private:
  boost::context::fiber run(boost::context::fiber&& owner);

  std::function<void()> body_;
  boost::context::fiber own_;
  boost::context::fiber owner_;

  // For the sanitizers: where the stacks lie, and the thread sanitizer's names for them.
  const void* own_stack_ = nullptr;
  std::size_t own_bytes_ = 0;
  void* own_fake_ = nullptr;
  const void* owner_stack_ = nullptr;
  std::size_t owner_bytes_ = 0;
  void* owner_fake_ = nullptr;
  void* own_name_ = nullptr;
  void* owner_name_ = nullptr;
};

}  // namespace troupe::emulator
