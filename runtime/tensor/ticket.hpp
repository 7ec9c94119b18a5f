// A claim check for a tensor that some process holds.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/tensor/dtype.hpp"
#include "runtime/tensor/shape.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A plain value: copying it copies no data and takes no ownership. Redeeming it
/// (runtime/transport) gives the tensor, once. It is leased: redeeming, the end of its generation
/// or the death of its holder release what it stands for.
struct ticket {
  std::uint64_t holder = 0;  ///< process that has the bytes
  std::uint64_t slot = 0;    ///< where in that process; never reused within a run
  generation_id generation = {};
  dtype type = dtype::f32;
  shape extents;

  friend bool operator==(const ticket&, const ticket&) = default;
};

/// What one edge of a plan carries: named tensors, as tickets.
struct ticket_bundle {
  std::vector<std::string> names;
  std::vector<ticket> tickets;  ///< one for each name

  friend bool operator==(const ticket_bundle&, const ticket_bundle&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ticket& x) {
  return f(x.holder, x.slot, x.generation, x.type, x.extents);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ticket_bundle& x) {
  return f(x.names, x.tickets);
}

}  // namespace troupe::runtime
