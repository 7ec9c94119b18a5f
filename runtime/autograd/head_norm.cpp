#include "kernels/op/head_norm.hpp"

#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// The queries or the keys in a fused QKV product.
struct heads_of {
  std::int64_t offset = 0;  ///< in elements, within a group
  kernels::head_norm_shape shape;

  std::int64_t statistics() const { return shape.R * shape.G * shape.heads; }
};

heads_of heads(const tensor& qkv,
               const attention_options& x,
               const norm_options& options,
               bool keys) {
  const auto queries = x.heads / x.groups;
  const auto width = x.group_width();
  return {.offset = keys ? x.key_place() : 0,
          .shape = {.R = qkv.size() / channels_of(qkv),
                    .G = x.groups,
                    .heads = keys ? 1 : queries,
                    .D = x.head_size,
                    .row = x.groups * width,
                    .group = width,
                    .eps = options.epsilon,
                    .kind = options.kind,
                    .gain_offset = options.gain_offset}};
}

template <class T>
struct head_norm_node final : node {
  tensor x;  ///< the full product
  struct side {
    heads_of which;
    head_norm_parameters by;
    tensor statistics;  ///< (2, R G heads)

    const float* mean() const { return statistics.data<float>(); }
    const float* rstd() const { return statistics.data<float>() + which.statistics(); }
  };
  side sides[2];
  std::shared_ptr<gradient_slot> dx, dy;
  tensor grad;  ///< between I and W

  void input_gradients(tape& tape) override {
    grad = std::move(dy->sum);
    auto part = copy_of(tape.stream(), grad);  // the gradient of the values is passed through
    for (const auto& s : sides)
      tape.stream().run(
          kernels::head_norm_backward_input<T>{part.template data<T>() + s.which.offset,
                                               grad.data<T>() + s.which.offset,
                                               x.data<T>() + s.which.offset,
                                               tape.value<T>(s.by.gain),
                                               s.mean(),
                                               s.rstd(),
                                               s.which.shape});
    tape.add(*dx, std::move(part));
  }

  void weight_gradients(tape& tape) override {
    for (const auto& s : sides) {
      if (!tape.trains({s.by.gain, s.by.bias}))
        continue;
      const auto gain = tape.place_of_gradient(s.by.gain), bias = tape.place_of_gradient(s.by.bias);
      tape.stream().run(kernels::head_norm_backward_weight<T>{gain.to,
                                                              bias.to,
                                                              grad.data<T>() + s.which.offset,
                                                              x.data<T>() + s.which.offset,
                                                              s.mean(),
                                                              s.rstd(),
                                                              s.which.shape,
                                                              gain.accumulates,
                                                              bias.accumulates});
    }
  }
};

template <class T>
variable run(tape& tape,
             const variable& qkv,
             const attention_options& layout,
             const norm_options& options,
             head_norm_parameters query,
             head_norm_parameters key) {
  auto n = std::make_unique<head_norm_node<T>>();
  auto y = copy_of(tape.stream(), qkv.data);
  for (const bool keys : {false, true}) {
    auto& s = n->sides[keys ? 1 : 0];
    s.which = heads(qkv.data, layout, options, keys);
    s.by = keys ? key : query;
    const auto count = s.which.statistics();
    if (tape.recording())
      s.statistics = tensor::empty<float>(tape.stream(), {2, count});
    float* const mean = s.statistics.template data<float>();
    tape.stream().run(
        kernels::head_norm_forward<T>{y.template data<T>() + s.which.offset,
                                      mean,
                                      mean == nullptr ? nullptr : mean + count,
                                      qkv.data.data<T>() + s.which.offset,
                                      tape.value<T>(s.by.gain),
                                      s.by.bias < 0 ? nullptr : tape.value<T>(s.by.bias),
                                      s.which.shape});
  }
  auto result = tape.make(std::move(y), qkv.placements);
  if (tape.recording()) {
    n->x = qkv.data;
    n->dx = qkv.gradient;
    n->dy = result.gradient;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable head_norm(tape& tape,
                   const variable& qkv,
                   const attention_options& layout,
                   const norm_options& options,
                   head_norm_parameters query,
                   head_norm_parameters key) {
  require_placement(qkv, placement::feature_sharded, "head_norm");
  return with_element(tape.type(),
                      [&]<class T>(T) { return run<T>(tape, qkv, layout, options, query, key); });
}

}  // namespace troupe::runtime
