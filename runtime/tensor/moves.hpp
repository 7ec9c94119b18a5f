// Copies of tensors between the host, streams and devices.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/tensor/tensor.hpp"

#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A new tensor in the stream's memory, filled from the host.
template <class T>
tensor uploaded(stream& stream, std::span<const T> from, shape extents) {
  auto out = tensor::empty<T>(stream, extents);
  ensure(std::size_t(extents.size()) == from.size(), "TENSOR-4: a tensor is filled as a whole");
  stream.write(out.raw(), from.data(), from.size_bytes());
  return out;
}
template <class T>
tensor uploaded(stream& stream, const std::vector<T>& from, shape extents) {
  return uploaded(stream, std::span<const T>(from), extents);
}

/// A tensor of elements at(i), made once and cached by the stream under `name` (stream::constant).
template <class At>
tensor constant(stream& stream, const std::string& name, shape extents, const At& at) {
  using T = decltype(at(std::int64_t{0}));
  const auto n = extents.size();
  return {stream.constant(name,
                          std::size_t(n) * sizeof(T),
                          [&](std::byte* to) {
                            for (std::int64_t i = 0; i < n; ++i)
                              reinterpret_cast<T*>(to)[i] = at(i);
                          }),
          dtype_of<T>(),
          extents};
}

/// Copies the elements to the host. Waits for the stream's earlier work.
template <class T>
std::vector<T> elements_of(const stream& stream, const tensor& x) {
  std::vector<T> out(std::size_t(x.size()));
  stream.read(out.data(), x.data<T>(), out.size() * sizeof(T));
  return out;
}

/// Makes tensors usable by the stream. A tensor of the host or of another device is copied to the
/// stream's device. A tensor of another queue on the same device is lent: the device waits for it.
/// Any other tensor is returned as it is.
tensor taken(stream& stream, const tensor& x);
bundle taken(stream& stream, const bundle& x);

/// Declares that the work enqueued so far completes these tensors; `taken` on other streams waits
/// for it.
void publish(stream& stream, const bundle& x);

/// A copy in the stream's memory.
tensor copy_of(stream& stream, const tensor& x);

/// Adds bytes to a digest. Bytes of a device are read to the host first, which waits for the
/// stream.
void add_bytes(
    digester& to, const stream& by, memory_kind where, const void* from, std::size_t bytes);

/// Flips one bit of a number in the stream's memory, for fault injection.
void flip_bit(stream& by, float* x);

}  // namespace troupe::runtime
