// Fibers: one host thread switches between their stacks, with Boost.Context. Sanitizers are
// notified of each switch, so the presets dev and tsan check kernels like all other code.

#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace troupe::emulator {

/// Belongs to the thread that made it. Its function runs on its own stack, from resume to the next
/// suspend. The function never returns; fibers are reused and never destroyed.
class fiber {
 public:
  explicit fiber(std::function<void()> body);
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() = delete;

  /// Called by the owner thread, outside of fibers. Returns at the next suspend.
  void resume();

  /// Called by the fiber's own function. Returns at the next resume.
  void suspend();

 private:
  boost::context::fiber run(boost::context::fiber&& owner);

  std::function<void()> body_;
  boost::context::fiber own_;
  boost::context::fiber owner_;

  // Used by the sanitizers: addresses of the stacks, and TSan's handles for them.
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
