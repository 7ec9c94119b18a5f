#include "kernels/op/heads.hpp"
#include "kernels/op/linear.hpp"
#include "runtime/autograd/parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Heads in the rows of a tensor.
struct heads_in {
  std::int64_t first;       ///< element of a row where the first head begins
  std::int64_t row, group;  ///< strides
};
struct extent_of_heads {
  std::int64_t rows, heads, width;
};

template <class T>
void copy(stream& stream,
          tensor& to,
          const heads_in& there,
          const tensor& from,
          const heads_in& here,
          const extent_of_heads& all) {
  stream.run(kernels::copy_heads<T>{.to = to.data<T>() + there.first,
                                    .from = from.data<T>() + here.first,
                                    .R = all.rows,
                                    .G = all.heads,
                                    .width = all.width,
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
    const auto R = extents.size() / all, rest = all - first;
    copy<T>(tape.stream(), part, {0, all, 0}, of_first, {0, first, 0}, {R, 1, first});
    copy<T>(tape.stream(), part, {first, all, 0}, of_rest, {0, rest, 0}, {R, 1, rest});
    tape.add(*dx, std::move(part));
  }
};

template <class T>
std::pair<variable, variable> split(tape& tape, const variable& x, std::int64_t channels) {
  const auto all = channels_of(x.data);
  const auto part = [&](std::int64_t first, std::int64_t n) {
    auto y = tensor::empty<T>(tape.stream(), with_channels(x.data.extents(), n));
    copy<T>(tape.stream(), y, {0, n, 0}, x.data, {first, all, 0}, {x.data.size() / all, 1, n});
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
  std::int64_t R, H, D, Dv, S;  ///< rows, heads, head sizes, elements of the shared key

  std::int64_t own() const { return D - S; }
  heads_in q() const { return {0, H * D, D}; }
  heads_in kv(std::int64_t first) const { return {first, H * (own() + Dv), own() + Dv}; }
  heads_in shared() const { return {0, S, 0}; }
  heads_in fused(std::int64_t first) const { return {first, H * (2 * D + Dv), 2 * D + Dv}; }
  extent_of_heads extent(std::int64_t width) const { return {R, H, width}; }
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
    copy<T>(stream, of_q, at.q(), grad, at.fused(0), at.extent(at.D));
    copy<T>(stream, of_kv, at.kv(0), grad, at.fused(at.D), at.extent(own));
    copy<T>(stream, of_kv, at.kv(own), grad, at.fused(2 * at.D), at.extent(at.Dv));
    const auto from = at.fused(at.D + own);
    stream.run(kernels::sum_heads<T>{.to = of_shared.template data<T>(),
                                     .from = grad.data<T>() + from.first,
                                     .R = at.R,
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
  copy<T>(stream, fused, at.fused(0), q.data, at.q(), at.extent(at.D));
  copy<T>(stream, fused, at.fused(at.D), kv.data, at.kv(0), at.extent(own));
  copy<T>(stream, fused, at.fused(at.D + own), shared.data, at.shared(), at.extent(at.S));
  copy<T>(stream, fused, at.fused(2 * at.D), kv.data, at.kv(own), at.extent(at.Dv));
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

latent_layout layout_of(const variable& shared_key, const attention_options& options) {
  const auto S = channels_of(shared_key.data);
  return {.R = shared_key.data.size() / S,
          .H = options.heads,
          .D = options.head_size,
          .Dv = options.values(),
          .S = S};
}

// --- absorbed form ------------------------------------------------------------------------------

// Products take the rows of one head together, so they are collected head by head, (H, R, ..).
template <class T>
variable absorb(tape& tape,
                const variable& q,
                const variable& latent,
                const variable& shared,
                int up,
                const latent_layout& at) {
  auto& stream = tape.stream();
  const auto L = channels_of(latent.data), W = L + at.S, own = at.own(), row = (at.H + 1) * W;
  auto parts = tensor::empty<T>(stream, {at.H, at.R, own});
  copy<T>(stream, parts, {0, own, at.R * own}, q.data, at.q(), at.extent(own));
  auto queries = tensor::empty<T>(stream, {at.H, at.R, L});
  for (std::int64_t h = 0; h < at.H; ++h)
    stream.run(
        kernels::linear_backward_input<T>{.dx = queries.template data<T>() + h * at.R * L,
                                          .dz = parts.template data<T>() + h * at.R * own,
                                          .weight = tape.value<T>(up) + h * (own + at.Dv) * L,
                                          .R = at.R,
                                          .N = own,
                                          .K = L});
  auto out = tensor::empty<T>(stream, with_channels(q.data.extents(), row));
  copy<T>(stream, out, {0, row, W}, queries, {0, L, at.R * L}, at.extent(L));
  copy<T>(stream, out, {L, row, W}, q.data, {own, at.q().row, at.D}, at.extent(at.S));
  copy<T>(stream, out, {at.H * W, row, 0}, latent.data, {0, L, 0}, {at.R, 1, L});
  copy<T>(stream, out, {at.H * W + L, row, 0}, shared.data, {0, at.S, 0}, {at.R, 1, at.S});
  return tape.make(std::move(out), q.placements);
}

template <class T>
variable values_of(tape& tape, const variable& o, int up, const attention_options& options) {
  auto& stream = tape.stream();
  const auto H = options.heads, L = channels_of(o.data) / H, R = o.data.size() / (H * L);
  const auto Dv = options.values(), own = options.rotated_from;
  auto sums = tensor::empty<T>(stream, {H, R, L});
  copy<T>(stream, sums, {0, L, R * L}, o.data, {0, H * L, L}, {R, H, L});
  auto values = tensor::empty<T>(stream, {H, R, Dv});
  for (std::int64_t h = 0; h < H; ++h)
    stream.run(kernels::linear_forward<T>{.y = values.template data<T>() + h * R * Dv,
                                          .z = nullptr,
                                          .x = sums.template data<T>() + h * R * L,
                                          .weight = tape.value<T>(up) + (h * (own + Dv) + own) * L,
                                          .bias = nullptr,
                                          .R = R,
                                          .N = Dv,
                                          .K = L});
  auto out = tensor::empty<T>(stream, with_channels(o.data.extents(), H * Dv));
  copy<T>(stream, out, {0, H * Dv, Dv}, values, {0, Dv, R * Dv}, {R, H, Dv});
  return tape.make(std::move(out), o.placements);
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
  return with_element(tape.type(), [&]<class T>(T) {
    return fuse<T>(tape, q, kv, shared_key, layout_of(shared_key, options));
  });
}

variable absorbed_qkv(tape& tape,
                      const variable& q,
                      const variable& latent,
                      const variable& shared_key,
                      int up,
                      const attention_options& options) {
  ensure(!tape.recording(), "CACHE-1: decoding has no backward pass");
  require_placement(q, placement::feature_sharded, "absorbed_qkv");
  require_placement(latent, placement::replicated_partial_gradient, "absorbed_qkv");
  require_placement(shared_key, placement::replicated_partial_gradient, "absorbed_qkv");
  return with_element(tape.type(), [&]<class T>(T) {
    return absorb<T>(tape, q, latent, shared_key, up, layout_of(shared_key, options));
  });
}

attention_options absorbed(const attention_options& options, std::int64_t latent) {
  auto out = options;
  out.groups = 1;
  out.head_size = latent + options.head_size - options.rotated_from;
  out.value_size = out.rotated_from = latent;
  out.values_in_keys = true;
  return out;
}

variable absorbed_output(tape& tape, const variable& o, int up, const attention_options& options) {
  ensure(!tape.recording(), "CACHE-1: decoding has no backward pass");
  require_placement(o, placement::feature_sharded, "absorbed_output");
  return with_element(tape.type(), [&]<class T>(T) { return values_of<T>(tape, o, up, options); });
}

}  // namespace troupe::runtime
