// A tensor: a shape over shared memory.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/tensor/dtype.hpp"
#include "runtime/tensor/shape.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Contiguous and row-major. Copies share the elements. The maker fills it; once it is passed on,
/// it is immutable.
class tensor {
 public:
  tensor() = default;
  tensor(memory_block block, dtype type, shape extents)
      : block_(std::move(block)), type_(type), extents_(extents) {}

  /// A new tensor; its elements are undefined.
  template <class T>
  static tensor empty(stream& stream, shape extents) {
    return {stream.allocate(std::size_t(extents.size()) * sizeof(T)), dtype_of<T>(), extents};
  }

  explicit operator bool() const { return block_ != nullptr; }
  dtype type() const { return type_; }
  const shape& extents() const { return extents_; }
  std::int64_t size() const { return extents_.size(); }
  std::size_t bytes() const { return std::size_t(size()) * size_of(type_); }
  const std::byte* raw() const { return block_.get(); }
  std::byte* raw() { return block_.get(); }
  const memory_block& block() const { return block_; }
  memory_kind kind() const { return kind_of(block_); }

  /// Elements in host or device memory (kind()). Breaks promise TENSOR-1 if T is not the tensor's
  /// type.
  template <class T>
  T* data() {
    ensure(!block_ || type_ == dtype_of<T>(), "TENSOR-1: elements are read as the type they have");
    return reinterpret_cast<T*>(block_.get());
  }
  template <class T>
  const T* data() const {
    return const_cast<tensor*>(this)->data<T>();
  }
  template <class T>
  std::span<const T> elements() const {
    return {data<T>(), std::size_t(size())};
  }

  /// The same elements with other extents of the same size.
  tensor view(shape extents) const {
    ensure(extents.size() == size(), "TENSOR-2: a view has as many elements as its tensor");
    return {block_, type_, extents};
  }

  /// Elements from `offset` on, as a tensor that shares the memory.
  tensor slice(std::int64_t offset, shape extents) const {
    ensure(offset >= 0 && offset + extents.size() <= size(), "TENSOR-3: a slice lies inside");
    return {
        memory_block(block_, block_.get() + std::size_t(offset) * size_of(type_)), type_, extents};
  }

 private:
  memory_block block_;
  dtype type_ = dtype::f32;
  shape extents_;
};

/// The content of one edge of a plan: a few named, immutable tensors.
class bundle {
 public:
  void add(std::string name, tensor x) { parts_.emplace_back(std::move(name), std::move(x)); }

  /// Throws broken_promise (BUNDLE-1) if the name does not exist.
  const tensor& at(std::string_view name) const {
    for (const auto& [key, x] : parts_)
      if (key == name)
        return x;
    throw broken_promise("BUNDLE-1: a bundle has the requested tensor: " + std::string(name));
  }

  bool has(std::string_view name) const {
    for (const auto& part : parts_)
      if (part.first == name)
        return true;
    return false;
  }

  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  std::size_t size() const { return parts_.size(); }

 private:
  std::vector<std::pair<std::string, tensor>> parts_;
};

}  // namespace troupe::runtime
