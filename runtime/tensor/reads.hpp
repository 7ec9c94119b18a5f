// What the host wants to know of a stream's results. Everything is asked for before anything is
// waited for: then it is waited for once.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Of one thread, the stream's.
class reads {
 public:
  explicit reads(runtime::stream& stream) : stream_(stream) {}
  reads(const reads&) = delete;
  reads& operator=(const reads&) = delete;

  runtime::stream& stream() { return stream_; }

  /// `then` gets the elements as they are when the stream has come so far. On the CPU, where that
  /// is now, nobody may write to them before finish(). Of a shadow's tensor they are zero.
  template <class T>
  void add(const tensor& x, std::function<void(std::span<const T>)> then) {
    ensure(!x || x.type() == dtype_of<T>(), "TENSOR-1: elements are read as the type they have");
    begun_.push_back(
        {there(x), [n = std::size_t(x.size()), then = std::move(then)](const std::byte* at) {
           then({reinterpret_cast<const T*>(at), n});
         }});
  }

  /// What only needs what was added before.
  void then(std::function<void()> what) {
    begun_.push_back({nullptr, [what = std::move(what)](const std::byte*) { what(); }});
  }

  /// Waits, and calls everything in the order in which it was added.
  void finish();

 private:
  struct read {
    memory_block at;
    std::function<void(const std::byte*)> then;
  };

  /// Host memory that has the elements of x by the end.
  memory_block there(const tensor& x);

  runtime::stream& stream_;
  std::vector<read> begun_;
  memory_block page_;  ///< pinned, shared by what is small
  std::size_t left_ = 0;
};

}  // namespace troupe::runtime
