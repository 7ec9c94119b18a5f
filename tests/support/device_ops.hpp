// Runs an operation of an owner (ops.hpp) on the emulated device: copies the owner's arrays there
// and the results back. Also makes the same owner in double, for the reference kernels.
//
//   auto m = redrawn(norm_memory<bf16>{.R = 5, .C = 768}, seed);
//   auto exact = in_double(m);
//   on_device(m, m.forward());
//   kernels::reference::run(exact.forward());
//   CHECK(error_of(m.y, exact.y) < ...);
//
// `arrays(owner)` lists all arrays that lie on the device; `pointers(op)` visits all members of an
// operation that point to one.

#pragma once

#include "kernels/reference/reference.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/ops.hpp"

#include <functional>
#include <memory>
#include <tuple>

namespace troupe::tests {

// --- arrays of owners --------------------------------------------------------------------------

template <class T>
auto arrays(norm_memory<T>& m) {
  return std::tie(
      m.x, m.gain, m.bias, m.dy, m.residual, m.y, m.dx, m.mean, m.rstd, m.dgain, m.dbias);
}
template <class T>
auto arrays(head_norm_memory<T>& m) {
  return std::tie(m.x, m.gain, m.bias, m.dy, m.y, m.dx, m.mean, m.rstd, m.dgain, m.dbias);
}
template <class T>
auto arrays(activation_memory<T>& m) {
  return std::tie(m.x, m.dy, m.y, m.dx);
}
template <class T>
auto arrays(rope_memory<T>& m) {
  return std::tie(m.x, m.position, m.frequency);
}
template <class T>
auto arrays(embedding_memory<T>& m) {
  return std::tie(
      m.table, m.position_table, m.id, m.position, m.dy, m.y, m.dtable, m.dposition_table);
}
template <class T>
auto arrays(dropout_memory<T>& m) {
  return std::tie(m.x, m.residual, m.dy, m.y, m.dx, m.sample, m.bias);
}
template <class T, class Narrow>
auto arrays(adamw_memory<T, Narrow>& m) {
  return std::tie(m.x, m.m, m.v, m.dx, m.rounded);
}

// --- owners in double --------------------------------------------------------------------------

template <class To, class From>
void copy_array(std::vector<To>& to, const std::vector<From>& from) {
  to.clear();
  for (const auto& value : from) {
    if constexpr (std::is_arithmetic_v<From>)
      to.push_back(To(value));
    else
      to.push_back(To(double(value)));
  }
}

template <class To, class From>
To with_arrays_of(To to, From& from) {
  const auto copy = [&]<std::size_t... i>(std::index_sequence<i...>) {
    (copy_array(std::get<i>(arrays(to)), std::get<i>(arrays(from))), ...);
  };
  copy(std::make_index_sequence<std::tuple_size_v<decltype(arrays(from))>>());
  return to;
}

template <class T>
norm_memory<double> in_double(norm_memory<T>& m) {
  return with_arrays_of(norm_memory<double>{.R = m.R,
                                            .C = m.C,
                                            .kind = m.kind,
                                            .with_residual = m.with_residual,
                                            .eps = m.eps,
                                            .gain_offset = m.gain_offset},
                        m);
}
template <class T>
head_norm_memory<double> in_double(head_norm_memory<T>& m) {
  return with_arrays_of(head_norm_memory<double>{.R = m.R,
                                                 .G = m.G,
                                                 .heads = m.heads,
                                                 .D = m.D,
                                                 .kind = m.kind,
                                                 .gain_offset = m.gain_offset,
                                                 .eps = m.eps},
                        m);
}
template <class T>
activation_memory<double> in_double(activation_memory<T>& m) {
  return with_arrays_of(
      activation_memory<double>{.R = m.R, .N = m.N, .kind = m.kind, .gated = m.gated}, m);
}
template <class T>
rope_memory<double> in_double(rope_memory<T>& m) {
  return with_arrays_of(rope_memory<double>{.R = m.R,
                                            .G = m.G,
                                            .heads = m.heads,
                                            .D = m.D,
                                            .rotated = m.rotated,
                                            .interleaved = m.interleaved},
                        m);
}
template <class T>
embedding_memory<double> in_double(embedding_memory<T>& m) {
  return with_arrays_of(
      embedding_memory<double>{
          .R = m.R, .C = m.C, .V = m.V, .P = m.P, .with_positions = m.with_positions},
      m);
}
template <class T>
dropout_memory<double> in_double(dropout_memory<T>& m) {
  return with_arrays_of(dropout_memory<double>{.sequences = m.sequences,
                                               .T_ = m.T_,
                                               .C = m.C,
                                               .p = m.p,
                                               .with_residual = m.with_residual,
                                               .with_bias = m.with_bias},
                        m);
}

/// Draws all input arrays again from other seeds.
template <class Memory>
Memory redrawn(Memory m, int seed) {
  std::uint32_t number = 1000 * std::uint32_t(seed);
  const auto draw = [&]<class T>(std::vector<T>& x) {
    if constexpr (!std::is_integral_v<T>) {
      if (!x.empty() && x.front() != T(unwritten))
        x = normal<T>(x.size(), ++number);
    }
  };
  std::apply([&](auto&... x) { (draw(x), ...); }, arrays(m));
  return m;
}

// --- pointers of operations --------------------------------------------------------------------

template <class T, class F>
void pointers(kernels::norm_forward<T>& op, const F& f) {
  f(op.y), f(op.mean), f(op.rstd), f(op.x), f(op.gain), f(op.bias), f(op.residual), f(op.sum);
}
template <class T, class F>
void pointers(kernels::norm_backward_input<T>& op, const F& f) {
  f(op.dx), f(op.dy), f(op.x), f(op.gain), f(op.mean), f(op.rstd), f(op.residual);
}
template <class T, class F>
void pointers(kernels::norm_backward_weight<T>& op, const F& f) {
  f(op.dgain), f(op.dbias), f(op.dy), f(op.x), f(op.mean), f(op.rstd);
}
template <class T, class F>
void pointers(kernels::head_norm_forward<T>& op, const F& f) {
  f(op.y), f(op.mean), f(op.rstd), f(op.x), f(op.gain), f(op.bias);
}
template <class T, class F>
void pointers(kernels::head_norm_backward_input<T>& op, const F& f) {
  f(op.dx), f(op.dy), f(op.x), f(op.gain), f(op.mean), f(op.rstd);
}
template <class T, class F>
void pointers(kernels::head_norm_backward_weight<T>& op, const F& f) {
  f(op.dgain), f(op.dbias), f(op.dy), f(op.x), f(op.mean), f(op.rstd);
}
template <class T, class F>
void pointers(kernels::activation_forward<T>& op, const F& f) {
  f(op.y), f(op.x), f(op.weight);
}
template <class T, class F>
void pointers(kernels::activation_backward<T>& op, const F& f) {
  f(op.dx), f(op.dweight), f(op.dy), f(op.x), f(op.weight);
}
template <class T, class F>
void pointers(kernels::rope<T>& op, const F& f) {
  f(op.x), f(op.position), f(op.frequency);
}
template <class T, class F>
void pointers(kernels::embedding_forward<T>& op, const F& f) {
  f(op.y), f(op.table), f(op.id), f(op.position_table), f(op.position);
}
template <class T, class F>
void pointers(kernels::embedding_backward<T>& op, const F& f) {
  f(op.dtable), f(op.id), f(op.dposition_table), f(op.position), f(op.dy);
}
template <class T, class F>
void pointers(kernels::dropout_forward<T>& op, const F& f) {
  f(op.y), f(op.x), f(op.residual), f(op.sample), f(op.bias);
}
template <class T, class F>
void pointers(kernels::dropout_backward<T>& op, const F& f) {
  f(op.dx), f(op.dy), f(op.sample);
}
template <class F>
void pointers(kernels::adamw<float>& op, const F& f) {
  f(op.x), f(op.m), f(op.v), f(op.dx), f(op.rounded);
}

// --- on the device -----------------------------------------------------------------------------

/// Copies of arrays in device memory, each `shift` elements after an aligned address.
class device_mirror {
 public:
  explicit device_mirror(std::size_t shift) : shift_(shift) {}

  template <class T>
  void add(std::vector<T>& host) {
    auto device = std::make_shared<device_array<T>>(host, shift_);
    copies_.push_back({reinterpret_cast<const std::byte*>(host.data()),
                       host.size() * sizeof(T),
                       reinterpret_cast<std::byte*>(device->data()),
                       [device, &host] { host = device->download(); }});
  }

  /// The device address that mirrors this host address.
  template <class T>
  T* at(T* host) const {
    const auto* const place = reinterpret_cast<const std::byte*>(host);
    for (const auto& copy : copies_) {
      if (place >= copy.host && place < copy.host + copy.bytes)
        return reinterpret_cast<T*>(copy.device + (place - copy.host));
    }
    if (host != nullptr)
      throw std::logic_error("an operation points outside the arrays of its owner");
    return nullptr;
  }
  void* at(void* host) const { return at(static_cast<std::byte*>(host)); }

  void download() const {
    for (const auto& copy : copies_)
      copy.download();
  }

 private:
  struct one {
    const std::byte* host;
    std::size_t bytes;
    std::byte* device;
    std::function<void()> download;
  };
  std::size_t shift_;
  std::vector<one> copies_;
};

template <class Memory, class Op>
void on_device(Memory& m, Op op, std::size_t shift = 0) {
  device_mirror mirror(shift);
  const auto add = [&](auto& array) {
    if (!array.empty())
      mirror.add(array);
  };
  std::apply([&](auto&... array) { (add(array), ...); }, arrays(m));
  // Empty arrays have no address; operations do not read them.
  pointers(op, [&](auto& pointer) { pointer = mirror.at(pointer); });
  run_on_device(op);
  mirror.download();
}

/// The error beyond one rounding of the result, relative to the largest number.
template <class T>
double error_of(const std::vector<T>& mine, const std::vector<double>& exact) {
  if constexpr (sizeof(T) < 4) {
    return beyond_rounding(mine, exact);
  } else {
    for (const auto value : mine)
      if (std::isnan(double(value)))
        return HUGE_VAL;
    return relative_error(mine, exact);
  }
}

}  // namespace troupe::tests
