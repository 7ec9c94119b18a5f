#include "runtime/tensor/micro_batch.hpp"

namespace troupe::runtime {
namespace {

template <class T>
tensor undefined(shape extents, memory_pool& pool) {
  return {pool.allocate(std::size_t(extents.size()) * sizeof(T)), dtype_of<T>(), extents};
}

template <class T>
std::span<T> row_of(tensor& x, std::int64_t b) {
  const auto each = x.extents()[1];
  return {x.data<T>() + b * each, std::size_t(each)};
}

}  // namespace

micro_batch::micro_batch(std::int64_t B, std::int64_t T, memory_pool& pool)
    : tokens(undefined<std::int32_t>({B, T}, pool)),
      labels(undefined<std::int32_t>({B, T}, pool)),
      mask(undefined<float>({B, T}, pool)),
      positions(undefined<std::int32_t>({B, T}, pool)),
      samples(undefined<std::uint64_t>({B}, pool)) {}

micro_batch_row micro_batch::row(std::int64_t b) {
  return {row_of<std::int32_t>(tokens, b),
          row_of<std::int32_t>(labels, b),
          row_of<float>(mask, b),
          row_of<std::int32_t>(positions, b)};
}

void add_inputs(bundle& to, const micro_batch& x) {
  to.add("tokens", x.tokens);
  to.add("positions", x.positions);
  to.add("samples", x.samples);
  if (!x.documents)
    return;
  to.add("documents", x.documents);
  to.add("document_samples", x.document_samples);
}

void add_labels(bundle& to, const micro_batch& x) {
  to.add("labels", x.labels);
  to.add("mask", x.mask);
}

bundle to_bundle(const micro_batch& x) {
  bundle out;
  add_inputs(out, x);
  add_labels(out, x);
  return out;
}

}  // namespace troupe::runtime
