// Tensors between the host, streams and devices.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <span>
#include <vector>

namespace troupe::runtime {

/// A new tensor where the stream computes, filled from the host.
template <class T>
tensor uploaded(stream& on, std::span<const T> from, shape extents) {
  auto out = tensor::empty<T>(on, extents);
  ensure(std::size_t(extents.size()) == from.size(), "TENSOR-4: a tensor is filled as a whole");
  on.write(out.raw(), from.data(), from.size_bytes());
  return out;
}
template <class T>
tensor uploaded(stream& on, const std::vector<T>& from, shape extents) {
  return uploaded(on, std::span<const T>(from), extents);
}

/// The elements, on the host. Waits until the stream has come so far.
template <class T>
std::vector<T> elements_of(const stream& on, const tensor& x) {
  std::vector<T> out(std::size_t(x.size()));
  on.read(out.data(), x.data<T>(), out.size() * sizeof(T));
  return out;
}

/// For the use of the stream: a tensor of the host or of another device is copied to its device,
/// one of another queue is waited for, by the device, and lent; anything else is itself.
tensor taken(stream& on, const tensor& x);
bundle taken(stream& on, const bundle& x);

/// What the stream has enqueued so far is in these tensors when others take them.
void publish(stream& on, const bundle& x);

/// A copy beside it.
tensor copy_of(stream& on, const tensor& x);

}  // namespace troupe::runtime
