// A tiny encoder and decoder: patches, and fewer of them than tokens.
//
//   unit    0        1        2          3        4        5
//           patches  layer    embedding  layer    layer    head
//   stream  encoder  encoder  decoder    decoder  decoder  decoder
//
// The rows of the encoder have positions of their own. Each layer of the decoder adds row t % P of
// the encoder's stream to its row t.

#pragma once

#include "runtime/tensor/moves.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Begins the stream "encoder": a norm of the patches.
struct patch_norm {
  std::int64_t width = 0;
};

/// This rank's part of `elements` that are sharded by rows with sequence parallelism, else all.
struct own_part {
  bool sharded = false;
  std::int64_t first = 0, size = 0;

  own_part(const runtime::tape& tape, std::int64_t elements)
      : sharded(tape.sequence_parallel()), size(sharded ? elements / tape.group_size() : elements) {
    first = sharded ? tape.rank() * size : 0;
  }

  runtime::shape extents(const runtime::shape& whole, std::int64_t channels) const {
    return sharded ? runtime::shape{size / channels, channels} : whole;
  }
  runtime::placement lies() const {
    return sharded ? runtime::placement::sequence_sharded : runtime::placement::replicated;
  }
};

/// A tensor (B, T, C) of f32 in the type of the tape.
inline runtime::variable as_variable(runtime::tape& tape, const runtime::tensor& x) {
  const auto all = runtime::elements_of<float>(tape.stream(), x);
  const own_part own(tape, x.size());
  return runtime::with_element(tape.type(), [&]<class E>(E) {
    std::vector<E> out;
    for (auto i = own.first; i < own.first + own.size; ++i)
      out.emplace_back(all[std::size_t(i)]);
    return tape.make(
        runtime::uploaded(tape.stream(), out, own.extents(x.extents(), x.extents()[2])),
        own.lies());
  });
}

inline void add(runtime::module_builder& to, const patch_norm& x) {
  const int gain = to.add(
      {.name = "gain", .extents = {x.width}, .initial = runtime::distribution::normal(0.5)});
  to.segment("", [=](runtime::tape& tape, runtime::pass& p) {
    p.hidden = norm(tape,
                    as_variable(tape, p.batch.at("patches")),
                    {kernels::normalization::rms},
                    gain,
                    runtime::no_parameter);
  });
}

inline runtime::module_traits traits_of(const patch_norm& x) {
  return {.width = x.width, .reads = {"patches"}, .takes_stream = false};
}

/// (B, P, C) to (B, T, C): row t % P. On the CPU. With sequence parallelism each rank gathers x and
/// makes its own rows.
inline runtime::variable repeated(runtime::tape& tape,
                                  const runtime::variable& x,
                                  const runtime::row_layout& from,
                                  const runtime::row_layout& to) {
  const auto B = to.positions.extents()[0], T = to.T(), P = from.T();
  const auto C = x.data.extents()[x.data.extents().rank() - 1];
  const own_part own(tape, B * T * C);
  const auto all = own.sharded ? copy_to_tensor_region(tape, x) : x;
  // Element i of the result is element source(i) of `all`.
  const auto source = [T, P, C, first = own.first](std::int64_t i) {
    const auto b = (first + i) / (T * C), t = (first + i) / C % T;
    return (b * P + t % P) * C + i % C;
  };
  return runtime::with_element(tape.type(), [&]<class E>(E) {
    auto y = runtime::tensor::empty<E>(tape.stream(), own.extents({B, T, C}, C));
    tape.stream().run([&] {
      for (std::int64_t i = 0; i < y.size(); ++i)
        y.template data<E>()[i] = all.data.template data<E>()[source(i)];
    });
    auto out = tape.make(std::move(y), own.lies());
    tape.record([source, extents = all.data.extents(), sum_of = all.gradient, of = out.gradient](
                    runtime::tape& back) {
      const auto dy = std::move(of->sum);
      auto dx = runtime::tensor::empty<E>(back.stream(), extents);
      back.stream().run([&] {
        std::fill_n(dx.template data<E>(), dx.size(), E(0.0F));
        for (std::int64_t i = 0; i < dy.size(); ++i) {
          auto& sum = dx.template data<E>()[source(i)];
          sum = E(float(sum) + float(dy.template data<E>()[i]));
        }
      });
      back.add(*sum_of, std::move(dx));
    });
    return out;
  });
}

inline runtime::own_sublayer reads_encoder() {
  return {.name = "encoder",
          .build =
              [](runtime::module_builder& to) {
                to.segment("add", [](runtime::tape& tape, runtime::pass& p) {
                  runtime::ensure(p.rows_of.at("encoder").T() == patches,
                                  "TEST-1: each stream has its own rows");
                  const auto x
                      = repeated(tape, p.streams.at("encoder"), p.rows_of.at("encoder"), p.rows);
                  p.hidden = dropout_add(tape, x, p.hidden, 0, 0, p.rows);
                });
              },
          .reads = {"encoder"},
          .host_only = true};
}

inline runtime::model_spec two_lengths() {
  const auto config = tiny_gpt(2);
  auto out = runtime::gpt_spec(config);
  const runtime::layer_spec encoder = out.part<runtime::layer_spec>();
  for (const std::size_t l : {0, 1})
    out.part<runtime::layer_spec>(l).sublayers.emplace_back(reads_encoder());
  out.streams.insert(out.streams.begin(),
                     {.name = "encoder", .width = config.hidden, .positions = "patch_positions"});
  const auto insert = [&](std::ptrdiff_t at, char letter, std::string name, auto module) {
    out.units.insert(out.units.begin() + at,
                     {.letter = letter,
                      .name = name,
                      .prefix = name,
                      .stream = "encoder",
                      .module = std::move(module)});
  };
  insert(0, 'p', "patches", patch_norm{config.hidden});
  insert(1, 't', "encoder.layers.0", encoder);
  return out;
}

}  // namespace troupe::tests
