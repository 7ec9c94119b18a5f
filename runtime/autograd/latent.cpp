#include "kernels/op/heads.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Heads in the rows of a tensor.
struct heads_in {
  std::int64_t first;       ///< element of a row where the first head begins
  std::int64_t row, group;  ///< strides
};

template <class T>
void copy(stream& stream,
          tensor& to,
          const heads_in& there,
          const tensor& from,
          const heads_in& here,
          std::int64_t heads,
          std::int64_t width) {
  stream.run(kernels::copy_heads<T>{.to = to.data<T>() + there.first,
                                    .from = from.data<T>() + here.first,
                                    .R = to.size() / there.row,
                                    .G = heads,
                                    .width = width,
                                    .to_row = there.row,
                                    .to_group = there.group,
                                    .from_row = here.row,
                                    .from_group = here.group});
}

// --- split_channels -----------------------------------------------------------------------------

template <class T>
struct split_node final : node {
  std::shared_ptr<gradient_slot> dx, dfirst, drest;
  shape extents;
  std::int64_t all, first;

  void input_gradients(tape& tape) override {
    const auto of_first = std::move(dfirst->sum), of_rest = std::move(drest->sum);
    auto part = tensor::empty<T>(tape.stream(), extents);
    copy<T>(tape.stream(), part, {0, all, all}, of_first, {0, first, first}, 1, first);
    const auto rest = all - first;
    copy<T>(tape.stream(), part, {first, all, all}, of_rest, {0, rest, rest}, 1, rest);
    tape.add(*dx, std::move(part));
  }
};

template <class T>
std::pair<variable, variable> split(tape& tape, const variable& x, std::int64_t channels) {
  const auto all = channels_of(x.data);
  const auto part = [&](std::int64_t first, std::int64_t n) {
    auto y = tensor::empty<T>(tape.stream(), with_channels(x.data.extents(), n));
    copy<T>(tape.stream(), y, {0, n, n}, x.data, {first, all, all}, 1, n);
    return tape.make(std::move(y), x.placements);
  };
  std::pair<variable, variable> out{part(0, channels), part(channels, all - channels)};
  if (tape.recording()) {
    auto n = std::make_unique<split_node<T>>();
    n->dx = x.gradient;
    n->dfirst = out.first.gradient;
    n->drest = out.second.gradient;
    n->extents = x.data.extents();
    n->all = all;
    n->first = channels;
    tape.record(std::move(n));
  }
  return out;
}

// --- latent_qkv ---------------------------------------------------------------------------------

/// Places of the parts in their own tensors and in the fused one.
struct latent_layout {
  std::int64_t H, D, Dv, S;  ///< heads, head sizes, elements of the shared key

  std::int64_t own() const { return D - S; }
  heads_in q() const { return {0, H * D, D}; }
  heads_in kv(std::int64_t first) const { return {first, H * (own() + Dv), own() + Dv}; }
  heads_in shared() const { return {0, S, 0}; }
  heads_in fused(std::int64_t first) const { return {first, H * (2 * D + Dv), 2 * D + Dv}; }
};

template <class T>
struct latent_node final : node {
  std::shared_ptr<gradient_slot> dq, dkv, dshared, dy;
  shape q, kv, shared;
  latent_layout at;

  void input_gradients(tape& tape) override {
    auto& stream = tape.stream();
    const auto grad = std::move(dy->sum);
    auto of_q = tensor::empty<T>(stream, q), of_kv = tensor::empty<T>(stream, kv);
    auto of_shared = tensor::empty<T>(stream, shared);
    const auto own = at.own();
    copy<T>(stream, of_q, at.q(), grad, at.fused(0), at.H, at.D);
    copy<T>(stream, of_kv, at.kv(0), grad, at.fused(at.D), at.H, own);
    copy<T>(stream, of_kv, at.kv(own), grad, at.fused(2 * at.D), at.H, at.Dv);
    const auto from = at.fused(at.D + own);
    stream.run(kernels::sum_heads<T>{.to = of_shared.template data<T>(),
                                     .from = grad.data<T>() + from.first,
                                     .R = of_shared.size() / at.S,
                                     .G = at.H,
                                     .width = at.S,
                                     .to_row = at.S,
                                     .from_row = from.row,
                                     .from_group = from.group});
    tape.add(*dq, std::move(of_q));
    tape.add(*dkv, std::move(of_kv));
    tape.add(*dshared, std::move(of_shared));
  }
};

template <class T>
variable fuse(tape& tape,
              const variable& q,
              const variable& kv,
              const variable& shared,
              const latent_layout& at) {
  auto& stream = tape.stream();
  auto fused = tensor::empty<T>(stream, with_channels(q.data.extents(), at.H * (2 * at.D + at.Dv)));
  const auto own = at.own();
  copy<T>(stream, fused, at.fused(0), q.data, at.q(), at.H, at.D);
  copy<T>(stream, fused, at.fused(at.D), kv.data, at.kv(0), at.H, own);
  copy<T>(stream, fused, at.fused(at.D + own), shared.data, at.shared(), at.H, at.S);
  copy<T>(stream, fused, at.fused(2 * at.D), kv.data, at.kv(own), at.H, at.Dv);
  auto out = tape.make(std::move(fused), q.placements);
  if (tape.recording()) {
    auto n = std::make_unique<latent_node<T>>();
    n->dq = q.gradient;
    n->dkv = kv.gradient;
    n->dshared = shared.gradient;
    n->dy = out.gradient;
    n->q = q.data.extents();
    n->kv = kv.data.extents();
    n->shared = shared.data.extents();
    n->at = at;
    tape.record(std::move(n));
  }
  return out;
}

}  // namespace

std::pair<variable, variable> split_channels(tape& tape, const variable& x, std::int64_t channels) {
  require_residual(x, "split_channels");
  return with_element(tape.type(), [&]<class T>(T) { return split<T>(tape, x, channels); });
}

variable latent_qkv(tape& tape,
                    const variable& q,
                    const variable& kv,
                    const variable& shared_key,
                    const attention_options& options) {
  require_placement(q, placement::feature_sharded, "latent_qkv");
  require_placement(kv, placement::feature_sharded, "latent_qkv");
  require_placement(shared_key, placement::replicated_partial_gradient, "latent_qkv");
  const latent_layout at{.H = options.heads,
                         .D = options.head_size,
                         .Dv = options.values(),
                         .S = channels_of(shared_key.data)};
  return with_element(tape.type(),
                      [&]<class T>(T) { return fuse<T>(tape, q, kv, shared_key, at); });
}

}  // namespace troupe::runtime
