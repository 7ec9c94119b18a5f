// Tensors between the host, streams and devices.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/tensor/tensor.hpp"

#include <span>
#include <vector>

namespace troupe::runtime {

/// A new tensor where the stream computes, filled from the host.
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

/// The elements, on the host. Waits until the stream has come so far.
template <class T>
std::vector<T> elements_of(const stream& stream, const tensor& x) {
  std::vector<T> out(std::size_t(x.size()));
  stream.read(out.data(), x.data<T>(), out.size() * sizeof(T));
  return out;
}

/// For the use of the stream: a tensor of the host or of another device is copied to its device,
/// one of another queue is waited for, by the device, and lent; anything else is itself.
tensor taken(stream& stream, const tensor& x);
bundle taken(stream& stream, const bundle& x);

/// What the stream has enqueued so far is in these tensors when others take them.
void publish(stream& stream, const bundle& x);

/// A copy beside it.
tensor copy_of(stream& stream, const tensor& x);

/// Adds bytes that lie there, for the use of the stream, to what is digested: those of a device are
/// read to the host, and waited for.
void add_bytes(
    digester& to, const stream& by, memory_kind where, const void* from, std::size_t bytes);

/// Flips a bit of a number where the stream computes: to show what follows from a wrong one.
void flip_bit(stream& by, float* x);

}  // namespace troupe::runtime
