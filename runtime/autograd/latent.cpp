#include "kernels/op/heads.hpp"
#include "kernels/op/linear.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

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

// --- join_channels, split_channels --------------------------------------------------------------

/// Zeros stand for an empty part.
template <class T>
tensor joined(stream& stream,
              const std::vector<tensor>& parts,
              const std::vector<std::int64_t>& widths,
              const shape& extents) {
  auto out = tensor::empty<T>(stream, extents);
  const auto all = channels_of(out), R = out.size() / all;
  if (std::any_of(parts.begin(), parts.end(), [](const tensor& x) { return !x; }))
    stream.clear(out.raw(), out.bytes());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); first += widths[i++])
    if (parts[i])
      copy<T>(stream, out, {first, all, 0}, parts[i], {0, widths[i], 0}, {R, 1, widths[i]});
  return out;
}

template <class T>
std::vector<tensor> parted(stream& stream,
                           const tensor& x,
                           const std::vector<std::int64_t>& widths) {
  const auto all = channels_of(x), R = x.size() / all;
  std::vector<tensor> out;
  std::int64_t first = 0;
  for (const auto width : widths) {
    out.push_back(tensor::empty<T>(stream, with_channels(x.extents(), width)));
    copy<T>(stream, out.back(), {0, width, 0}, x, {first, all, 0}, {R, 1, width});
    first += width;
  }
  return out;
}

template <class T>
struct join_node final : node {
  std::vector<std::shared_ptr<gradient_slot>> dparts;
  std::shared_ptr<gradient_slot> dy;
  std::vector<std::int64_t> widths;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    auto parts = parted<T>(tape.stream(), grad, widths);
    for (std::size_t i = 0; i < parts.size(); ++i)
      tape.add(*dparts[i], std::move(parts[i]));
  }
};

template <class T>
struct split_node final : node {
  std::shared_ptr<gradient_slot> dx;
  std::vector<std::shared_ptr<gradient_slot>> dparts;
  std::vector<std::int64_t> widths;
  shape extents;

  void input_gradients(tape& tape) override {
    std::vector<tensor> parts;
    for (const auto& slot : dparts)
      parts.push_back(std::move(slot->sum));
    tape.add(*dx, joined<T>(tape.stream(), parts, widths, extents));
  }
};

template <class T>
variable join(tape& tape, const std::vector<variable>& parts) {
  std::vector<tensor> data;
  std::vector<std::int64_t> widths;
  std::int64_t all = 0;
  for (const auto& x : parts) {
    data.push_back(x.data);
    widths.push_back(channels_of(x.data));
    all += widths.back();
  }
  const auto& first = parts.front();
  auto out
      = tape.make(joined<T>(tape.stream(), data, widths, with_channels(first.data.extents(), all)),
                  first.placements);
  if (tape.recording()) {
    auto n = std::make_unique<join_node<T>>();
    for (const auto& x : parts)
      n->dparts.push_back(x.gradient);
    n->dy = out.gradient;
    n->widths = std::move(widths);
    tape.record(std::move(n));
  }
  return out;
}

template <class T>
std::vector<variable> split(tape& tape,
                            const variable& x,
                            const std::vector<std::int64_t>& widths) {
  std::vector<variable> out;
  for (auto& part : parted<T>(tape.stream(), x.data, widths))
    out.push_back(tape.make(std::move(part), x.placements));
  if (tape.recording()) {
    auto n = std::make_unique<split_node<T>>();
    n->dx = x.gradient;
    for (const auto& part : out)
      n->dparts.push_back(part.gradient);
    n->widths = widths;
    n->extents = x.data.extents();
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
  ensure(options.groups == options.heads && options.rotated_from == options.head_size - S,
         "LATENT-1: each head has a key of its own, and the shared key is the rotated end of all");
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
                                          .K = L,
                                          .row_invariant = stream.row_invariant()});
  auto out = tensor::empty<T>(stream, with_channels(o.data.extents(), H * Dv));
  copy<T>(stream, out, {0, H * Dv, Dv}, values, {0, Dv, R * Dv}, {R, H, Dv});
  return tape.make(std::move(out), o.placements);
}

}  // namespace

variable join_channels(tape& tape, const std::vector<variable>& parts) {
  require_residual(parts.front(), "join_channels");
  for (const auto& x : parts)
    require_placement(x, parts.front().placements[axis::tensor], "join_channels");
  return with_element(tape.type(), [&]<class T>(T) { return join<T>(tape, parts); });
}

std::vector<variable> split_channels(tape& tape,
                                     const variable& x,
                                     const std::vector<std::int64_t>& widths) {
  if (x.placements[axis::tensor] != placement::replicated_partial_gradient)
    require_residual(x, "split_channels");
  return with_element(tape.type(), [&]<class T>(T) { return split<T>(tape, x, widths); });
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
