// Runs attention on the (emulated) device and with the reference kernels, on the same inputs.

#pragma once

#include "kernels/cuda/attention_choice.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ops.hpp"

#include <optional>

namespace troupe::tests {

/// Draws the inputs again from other seeds.
template <class T>
attention_memory<T> redrawn(attention_memory<T> m, std::uint32_t seed) {
  m.q = normal<T>(m.q.size(), 100 * seed + 1);
  m.k = normal<T>(m.k.size(), 100 * seed + 2);
  m.v = normal<T>(m.v.size(), 100 * seed + 3);
  m.d_o = normal<T>(m.d_o.size(), 100 * seed + 4);
  return m;
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = To(double(from[i]));
  return to;
}

/// Runs `op` with the kernels `by`, or as run_on_device does if it is empty.
template <class Op>
void attend_on_device(const Op& op, std::optional<kernels::cuda::own_kernels> by) {
  if (!by) {
    run_on_device(op);
    return;
  }
  const device_queue queue;
  device_array<std::byte> workspace(scratch_on_device(op));
  kernels::cuda::run_own(op, *by, queue.context({workspace.data(), workspace.size()}));
  queue.wait();
}

/// Copies `m` to the device, runs both passes there and copies the results back. Every array begins
/// `shift` elements after an aligned address. `uniform` declares all sequences equally long. `by`
/// overrides TROUPE_ATTENTION.
template <class T>
attention_memory<T> attended_on_device(attention_memory<T> m,
                                       std::size_t shift = 0,
                                       bool uniform = false,
                                       std::optional<kernels::cuda::own_kernels> by = {}) {
  const device_array<std::int32_t> query_starts(m.query_starts), key_starts(m.key_starts);
  const device_array<std::int32_t> query_position(m.query_position), key_position(m.key_position);
  const device_array<std::uint64_t> sample(m.sample);
  const device_array<T> q(m.q, shift), k(m.k, shift), v(m.v, shift), d_o(m.d_o, shift);
  device_array<T> o(m.o, shift), dq(m.dq, shift), dk(m.dk, shift), dv(m.dv, shift);
  device_array<float> lse(m.lse, shift);

  auto forward = m.forward();
  auto& a = forward.shape;
  a.uniform = uniform;
  a.query_starts = query_starts.data();
  a.key_starts = key_starts.data();
  a.query_position = query_position.data();
  a.key_position = key_position.data();
  a.sample = m.p_drop > 0 ? sample.data() : nullptr;
  const auto value = m.fused ? (m.per_group + 1) * m.D : 0, key = m.fused ? m.per_group * m.D : 0;
  forward.o = o.data();
  forward.lse = lse.data();
  forward.q = q.data();
  forward.k = (m.fused ? q.data() : k.data()) + key;
  forward.v = (m.fused ? q.data() : v.data()) + value;
  attend_on_device(forward, by);
  attend_on_device(kernels::attention_backward<T>{.dq = dq.data(),
                                                  .dk = (m.fused ? dq.data() : dk.data()) + key,
                                                  .dv = (m.fused ? dq.data() : dv.data()) + value,
                                                  .d_o = d_o.data(),
                                                  .o = o.data(),
                                                  .lse = lse.data(),
                                                  .q = forward.q,
                                                  .k = forward.k,
                                                  .v = forward.v,
                                                  .shape = a},
                   by);
  m.o = o.download();
  m.lse = lse.download();
  m.dq = dq.download();
  m.dk = dk.download();
  m.dv = dv.download();
  return m;
}

/// The reference results for the inputs of `m`, unrounded. The backward pass reads o and lse from
/// `m`, so it does not inherit the error of the forward pass.
template <class T>
attention_memory<double> judged(const attention_memory<T>& m) {
  attention_memory<double> judge{.H = m.H,
                                 .G = m.G,
                                 .D = m.D,
                                 .Dv = m.Dv,
                                 .query_lengths = m.query_lengths,
                                 .key_lengths = m.key_lengths,
                                 .causal = m.causal,
                                 .fused = m.fused,
                                 .p_drop = m.p_drop,
                                 .window = m.window,
                                 .first_head = m.first_head,
                                 .query_position = m.query_position,
                                 .key_position = m.key_position,
                                 .query_row = m.query_row,
                                 .key_row = m.key_row,
                                 .value_row = m.value_row};
  judge.q = converted<double>(m.q);
  judge.k = converted<double>(m.k);
  judge.v = converted<double>(m.v);
  judge.d_o = converted<double>(m.d_o);
  kernels::reference::run(judge.forward());
  const auto o = judge.o;
  const auto lse = judge.lse;
  judge.o = converted<double>(m.o);
  judge.lse = m.lse;
  kernels::reference::run(judge.backward());
  judge.o = o;
  judge.lse = lse;
  return judge;
}

}  // namespace troupe::tests
