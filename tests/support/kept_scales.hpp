// Sublayers with a parameter that stays f32 in every store.

#pragma once

#include "runtime/autograd/parts.hpp"
#include "runtime/model/extension.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <memory>
#include <utility>

namespace troupe::tests {

template <class T>
struct scale_node final : runtime::node {
  runtime::tensor x, grad;
  std::shared_ptr<runtime::gradient_slot> dx, dy;
  int scale = 0;

  void input_gradients(runtime::tape& on) override {
    grad = std::move(dy->sum);
    const auto C = runtime::channels_of(x);
    const float* const by = on.value<float>(scale);
    runtime::tensor part = runtime::tensor::empty<T>(on.stream(), x.extents());
    on.stream().run([&] {
      for (std::int64_t i = 0; i < x.size(); ++i)
        part.data<T>()[i] = T(float(grad.data<T>()[i]) * by[i % C]);
    });
    on.add(*dx, std::move(part));
  }

  void weight_gradients(runtime::tape& on) override {
    if (!on.trains({scale}))
      return;
    const auto C = runtime::channels_of(x);
    const auto place = on.place_of_gradient(scale);
    on.stream().run([&] {
      for (std::int64_t c = 0; c < C; ++c) {
        double sum = place.accumulates ? place.to[c] : 0;
        for (auto i = c; i < x.size(); i += C)
          sum += double(float(grad.data<T>()[i])) * double(float(x.data<T>()[i]));
        place.to[c] = float(sum);
      }
    });
  }
};

/// x * scale, with one f32 factor per channel. CPU only.
inline runtime::variable scaled(runtime::tape& on, const runtime::variable& x, int scale) {
  return runtime::with_element(on.type(), [&]<class T>(T) {
    const auto C = runtime::channels_of(x.data);
    const float* const by = on.value<float>(scale);
    runtime::tensor y = runtime::tensor::empty<T>(on.stream(), x.data.extents());
    on.stream().run([&] {
      for (std::int64_t i = 0; i < x.data.size(); ++i)
        y.data<T>()[i] = T(float(x.data.data<T>()[i]) * by[i % C]);
    });
    auto out = on.make(std::move(y), x.placements);
    if (on.recording()) {
      auto n = std::make_unique<scale_node<T>>();
      n->x = x.data;
      n->dx = x.gradient;
      n->dy = out.gradient;
      n->scale = scale;
      on.record(std::move(n));
    }
    return out;
  });
}

/// Scales the stream by the parameter "scale" with keep_f32.
inline void add_scale(runtime::module_builder& to, const runtime::feed_forward_spec& like) {
  const int scale = to.add({.name = "scale",
                            .extents = {like.hidden},
                            .initial = runtime::distribution::uniform(0.5, 1.5),
                            .keep_f32 = true});
  to.segment("",
             [=](runtime::tape& on, runtime::pass& p) { p.hidden = scaled(on, p.hidden, scale); });
}

/// A tiny GPT with 2 layers, each with a scale between its sublayers.
inline runtime::model_spec kept_scales() {
  const auto config = tiny_gpt(2);
  auto out = runtime::gpt_spec(config);
  for (std::size_t l = 0; l < 2; ++l) {
    auto& all = out.part<runtime::layer_spec>(l).sublayers;
    all.insert(all.begin() + 1,
               runtime::own_sublayer{
                   .name = "scaled",
                   .build = [C = config.hidden](
                                runtime::module_builder& to) { add_scale(to, {.hidden = C}); },
                   .host_only = true});
  }
  return out;
}

}  // namespace troupe::tests
