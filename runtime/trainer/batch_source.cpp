#include "runtime/trainer/batch_source.hpp"

#include <cstring>

namespace troupe::runtime {
namespace {

template <class T>
tensor copied(const std::vector<T>& from, shape extents, memory_pool& pool) {
  tensor out(pool.allocate(from.size() * sizeof(T)), dtype_of<T>(), extents);
  ensure(out.bytes() == from.size() * sizeof(T), "BATCH-1: a batch has B * T elements");
  std::memcpy(out.raw(), from.data(), out.bytes());
  return out;
}

}  // namespace

bundle to_bundle(const batch& x, memory_pool& pool) {
  bundle out;
  out.add("tokens", copied(x.tokens, {x.B, x.T}, pool));
  out.add("labels", copied(x.labels, {x.B, x.T}, pool));
  out.add("mask", copied(x.loss_mask, {x.B, x.T}, pool));
  out.add("positions", copied(x.position_ids, {x.B, x.T}, pool));
  out.add("samples", copied(x.positions, {x.B}, pool));
  return out;
}

bundle dataset_source::microbatch(const microbatch_address& at) const {
  batch rows;
  fill(rows, *data_, layout_, at.consumed, at.microbatch, at.replica);
  return to_bundle(rows, pool_);
}

}  // namespace troupe::runtime
