// Batched reads of a stream's results by the host: all copies are enqueued first, then one wait
// completes them.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Used only by the stream's thread.
class reads {
 public:
  explicit reads(runtime::stream& stream) : stream_(stream) {}
  reads(const reads&) = delete;
  reads& operator=(const reads&) = delete;

  runtime::stream& stream() { return stream_; }

  /// Calls `then` with the elements of x in finish(). On the CPU they are not copied: x must not
  /// change before finish(). With a shadow pool the elements are zero.
  template <class T>
  void add(const tensor& x, std::function<void(std::span<const T>)> then) {
    ensure(!x || x.type() == dtype_of<T>(), "TENSOR-1: elements are read as the type they have");
    begun_.push_back(
        {there(x), [n = std::size_t(x.size()), then = std::move(then)](const std::byte* at) {
           then({reinterpret_cast<const T*>(at), n});
         }});
  }

  /// Adds a step that only depends on earlier ones.
  void then(std::function<void()> what) {
    begun_.push_back({nullptr, [what = std::move(what)](const std::byte*) { what(); }});
  }

  /// Waits for the stream, then calls everything in the order of addition.
  void finish();

 private:
  struct read {
    memory_block at;
    std::function<void(const std::byte*)> then;
  };

  /// Host memory that contains the elements of x after finish().
  memory_block there(const tensor& x);

  runtime::stream& stream_;
  std::vector<read> begun_;
  memory_block page_;  ///< pinned, shared by small reads
  std::size_t left_ = 0;
};

}  // namespace troupe::runtime
