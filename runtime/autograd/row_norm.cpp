#include "kernels/op/heads.hpp"
#include "kernels/op/norm.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// All queries or all keys of the rows of a fused QKV product.
struct heads_of_rows {
  std::int64_t first = 0;  ///< element of a group
  std::int64_t R = 0, G = 0, width = 0;
  std::int64_t row = 0, group = 0;  ///< strides in the product

  std::int64_t channels() const { return G * width; }

  template <class T>
  void take(stream& stream, tensor& to, const tensor& from) const {
    stream.run(kernels::copy_heads<T>{.to = to.data<T>(),
                                      .from = from.data<T>() + first,
                                      .R = R,
                                      .G = G,
                                      .width = width,
                                      .to_row = channels(),
                                      .to_group = width,
                                      .from_row = row,
                                      .from_group = group});
  }
  template <class T>
  tensor taken(stream& stream, const tensor& from) const {
    auto out = tensor::empty<T>(stream, {R, channels()});
    take<T>(stream, out, from);
    return out;
  }
  template <class T>
  void put(stream& stream, tensor& to, const tensor& from) const {
    stream.run(kernels::copy_heads<T>{.to = to.data<T>() + first,
                                      .from = from.data<T>(),
                                      .R = R,
                                      .G = G,
                                      .width = width,
                                      .to_row = row,
                                      .to_group = group,
                                      .from_row = channels(),
                                      .from_group = width});
  }
};

heads_of_rows heads(const tensor& qkv, const attention_options& x, bool keys) {
  return {.first = keys ? x.key_place() : 0,
          .R = qkv.size() / channels_of(qkv),
          .G = x.groups,
          .width = keys ? x.head_size : x.key_place(),
          .row = x.groups * x.group_width(),
          .group = x.group_width()};
}

template <class T>
struct row_norm_node final : node {
  norm_options options;
  struct side {
    heads_of_rows which;
    head_norm_parameters by;
    tensor x;           ///< (R, channels)
    tensor statistics;  ///< (2, R)
    tensor grad;        ///< (R, channels), between I and W

    const float* mean() const { return statistics.data<float>(); }
    const float* rstd() const { return statistics.data<float>() + which.R; }
  };
  side sides[2];
  std::shared_ptr<gradient_slot> dx, dy;

  void input_gradients(tape& tape) override {
    const auto grad = std::move(dy->sum);
    auto part = copy_of(tape.stream(), grad);  // the gradient of the values is passed through
    for (auto& s : sides) {
      s.grad = s.which.template taken<T>(tape.stream(), grad);
      auto to = tensor::empty<T>(tape.stream(), s.grad.extents());
      tape.stream().run(kernels::norm_backward_input<T>{.dx = to.template data<T>(),
                                                        .dy = s.grad.template data<T>(),
                                                        .x = s.x.template data<T>(),
                                                        .gain = tape.value<T>(s.by.gain),
                                                        .mean = s.mean(),
                                                        .rstd = s.rstd(),
                                                        .R = s.which.R,
                                                        .C = s.which.channels(),
                                                        .kind = options.kind,
                                                        .gain_offset = options.gain_offset});
      s.which.template put<T>(tape.stream(), part, to);
    }
    tape.add(*dx, std::move(part));
  }

  void weight_gradients(tape& tape) override {
    for (const auto& s : sides) {
      if (!tape.trains({s.by.gain, s.by.bias}))
        continue;
      const auto gain = tape.place_of_gradient(s.by.gain), bias = tape.place_of_gradient(s.by.bias);
      tape.stream().run(kernels::norm_backward_weight<T>{.dgain = gain.to,
                                                         .dbias = bias.to,
                                                         .dy = s.grad.template data<T>(),
                                                         .x = s.x.template data<T>(),
                                                         .mean = s.mean(),
                                                         .rstd = s.rstd(),
                                                         .R = s.which.R,
                                                         .C = s.which.channels(),
                                                         .kind = options.kind,
                                                         .gain_accumulates = gain.accumulates,
                                                         .bias_accumulates = bias.accumulates});
    }
  }
};

template <class T>
variable run_of_rows(tape& tape,
                     const variable& qkv,
                     const attention_options& layout,
                     const norm_options& options,
                     head_norm_parameters query,
                     head_norm_parameters key) {
  auto n = std::make_unique<row_norm_node<T>>();
  n->options = options;
  auto y = copy_of(tape.stream(), qkv.data);
  for (const bool keys : {false, true}) {
    auto& s = n->sides[keys ? 1 : 0];
    s.which = heads(qkv.data, layout, keys);
    s.by = keys ? key : query;
    auto x = s.which.template taken<T>(tape.stream(), qkv.data);
    auto normed = tensor::empty<T>(tape.stream(), x.extents());
    if (tape.recording())
      s.statistics = tensor::empty<float>(tape.stream(), {2, s.which.R});
    float* const mean = s.statistics.template data<float>();
    tape.stream().run(
        kernels::norm_forward<T>{.y = normed.template data<T>(),
                                 .mean = mean,
                                 .rstd = mean == nullptr ? nullptr : mean + s.which.R,
                                 .x = x.template data<T>(),
                                 .gain = tape.value<T>(s.by.gain),
                                 .bias = s.by.bias < 0 ? nullptr : tape.value<T>(s.by.bias),
                                 .R = s.which.R,
                                 .C = s.which.channels(),
                                 .eps = options.epsilon,
                                 .kind = options.kind,
                                 .gain_offset = options.gain_offset});
    s.which.template put<T>(tape.stream(), y, normed);
    if (tape.recording())
      s.x = std::move(x);
  }
  auto result = tape.make(std::move(y), qkv.placements);
  if (tape.recording()) {
    n->dx = qkv.gradient;
    n->dy = result.gradient;
    tape.record(std::move(n));
  }
  return result;
}

}  // namespace

variable row_norm(tape& tape,
                  const variable& qkv,
                  const attention_options& layout,
                  const norm_options& options,
                  head_norm_parameters query,
                  head_norm_parameters key) {
  require_placement(qkv, placement::feature_sharded, "row_norm");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_of_rows<T>(tape, qkv, layout, options, query, key);
  });
}

}  // namespace troupe::runtime
