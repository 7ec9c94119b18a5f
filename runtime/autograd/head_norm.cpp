#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// The queries or the keys of a fused product.
struct heads_of {
  std::int64_t offset = 0;  ///< elements from the beginning of a group
  kernels::head_norm_shape shape;

  std::int64_t statistics() const { return shape.R * shape.G * shape.heads; }
};

heads_of heads(const tensor& qkv, const attention_options& x, const norm_options& how, bool keys) {
  const auto queries = x.heads / x.groups;
  const auto width = (queries + 2) * x.head_size;
  return {.offset = keys ? queries * x.head_size : 0,
          .shape = {.R = qkv.size() / channels_of(qkv),
                    .G = x.groups,
                    .heads = keys ? 1 : queries,
                    .D = x.head_size,
                    .row = x.groups * width,
                    .group = width,
                    .eps = how.epsilon,
                    .kind = how.kind,
                    .gain_offset = how.gain_offset}};
}

template <class T>
struct head_norm_node final : node {
  tensor x;  ///< the whole product
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

  void input_gradients(tape& on) override {
    grad = std::move(dy->sum);
    auto part = copy_of(on.on(), grad);  // values pass
    for (const auto& s : sides)
      on.on().run(kernels::head_norm_backward_input<T>{part.template data<T>() + s.which.offset,
                                                       grad.data<T>() + s.which.offset,
                                                       x.data<T>() + s.which.offset,
                                                       on.value<T>(s.by.gain),
                                                       s.mean(),
                                                       s.rstd(),
                                                       s.which.shape});
    on.add(*dx, std::move(part));
  }

  void weight_gradients(tape& on) override {
    for (const auto& s : sides)
      on.on().run(
          kernels::head_norm_backward_weight<T>{on.gradient(s.by.gain),
                                                s.by.bias < 0 ? nullptr : on.gradient(s.by.bias),
                                                grad.data<T>() + s.which.offset,
                                                x.data<T>() + s.which.offset,
                                                s.mean(),
                                                s.rstd(),
                                                s.which.shape});
  }
};

template <class T>
variable run(tape& on,
             const variable& qkv,
             const attention_options& layout,
             const norm_options& how,
             head_norm_parameters query,
             head_norm_parameters key) {
  auto n = std::make_unique<head_norm_node<T>>();
  auto y = copy_of(on.on(), qkv.data);
  for (const bool keys : {false, true}) {
    auto& s = n->sides[keys ? 1 : 0];
    s.which = heads(qkv.data, layout, how, keys);
    s.by = keys ? key : query;
    const auto count = s.which.statistics();
    if (on.recording())
      s.statistics = tensor::empty<float>(on.on(), {2, count});
    float* const mean = s.statistics.template data<float>();
    on.on().run(kernels::head_norm_forward<T>{y.template data<T>() + s.which.offset,
                                              mean,
                                              mean == nullptr ? nullptr : mean + count,
                                              qkv.data.data<T>() + s.which.offset,
                                              on.value<T>(s.by.gain),
                                              s.by.bias < 0 ? nullptr : on.value<T>(s.by.bias),
                                              s.which.shape});
  }
  auto result = on.make(std::move(y), spread::features);
  if (on.recording()) {
    n->x = qkv.data;
    n->dx = qkv.gradient;
    n->dy = result.gradient;
    on.record(std::move(n));
  }
  return result;
}

}  // namespace

variable head_norm(tape& on,
                   const variable& qkv,
                   const attention_options& layout,
                   const norm_options& how,
                   head_norm_parameters query,
                   head_norm_parameters key) {
  require_spread(qkv, spread::features, "head_norm");
  return with_element(on.type(),
                      [&]<class T>(T) { return run<T>(on, qkv, layout, how, query, key); });
}

}  // namespace troupe::runtime
