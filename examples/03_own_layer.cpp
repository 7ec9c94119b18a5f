// Your own layer and loss. The layer is a feed-forward sublayer with ReGLU, which Troupe does not
// have. The loss is cross-entropy with label smoothing. docs/guides/own_layer.md explains the
// steps.

#include "runtime/autograd/parts.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "small.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace troupe::runtime;

/// Computes max(g, 0) u for x = [g | u], (.., 2 N) -> (.., N), f32, and records the gradient.
/// Shazeer: "GLU Variants Improve Transformer", 2020.
variable reglu(tape& tape, const variable& x) {
  require_placement(x, placement::feature_sharded, "reglu");
  const auto N = channels_of(x.data) / 2;
  // Element i of the output: g is input element gate(i), u is N elements later.
  const auto gate = [N](std::int64_t i) { return i / N * 2 * N + i % N; };
  auto y = tensor::empty<float>(tape.stream(), with_channels(x.data.extents(), N));
  tape.stream().run([&] {
    const auto* in = x.data.data<float>();
    for (std::int64_t i = 0; i < y.size(); ++i)
      y.data<float>()[i] = std::max(in[gate(i)], 0.0F) * in[gate(i) + N];
  });
  auto out = tape.make(std::move(y), placement::feature_sharded);
  tape.record([=, in = x.data, to = x.gradient, from = out.gradient](troupe::runtime::tape& back) {
    const auto dy = std::move(from->sum);
    auto dx = tensor::empty<float>(back.stream(), in.extents());
    back.stream().run([&] {
      for (std::int64_t i = 0; i < dy.size(); ++i) {
        const float g = in.data<float>()[gate(i)], u = in.data<float>()[gate(i) + N];
        dx.data<float>()[gate(i)] = g > 0 ? dy.data<float>()[i] * u : 0;
        dx.data<float>()[gate(i) + N] = dy.data<float>()[i] * std::max(g, 0.0F);
      }
    });
    back.add(*to, std::move(dx));
  });
  return out;
}

// --- the sublayer: parameters and segments ---

void reglu_sublayer(module_builder& to, const feed_forward_spec& in_place_of) {
  const auto C = in_place_of.hidden, N = in_place_of.ffn,
             ranks = std::int64_t{to.ranks(axis::tensor)};
  const int gain
      = to.add({.name = "norm.weight", .extents = {C}, .initial = distribution::constant(1)});
  const int up = to.add({.name = "up.weight",
                         .extents = {2 * N, C},
                         .initial = distribution::normal(0.02),
                         .decays = true,
                         .placements = {{axis::tensor, row_sharded(2)}}});
  const int down = to.add({.name = "down.weight",
                           .extents = {C, N},
                           .initial = distribution::normal(0.02),
                           .decays = true,
                           .placements = {{axis::tensor, column_sharded()}}});
  to.segment("norm", [=](tape& tape, pass& p) {
    p.x = norm(tape, p.hidden, {troupe::kernels::normalization::rms}, gain, no_parameter);
  });
  to.segment("gate", [=](tape& tape, pass& p) {
    p.x = linear(
        tape, copy_to_tensor_region(tape, p.x), product::column, 2 * N / ranks, up, no_parameter);
    p.x = linear(tape, reglu(tape, p.x), product::row, C, down, no_parameter);
  });
  to.segment("residual", [=](tape& tape, pass& p) {
    p.hidden = dropout_add(
        tape, reduce_from_tensor_region(tape, std::exchange(p.x, {})), p.hidden, 0, 0, p.rows);
  });
}

/// Cross-entropy with label smoothing: the target is 0.9 at the label plus 0.1 / V everywhere. The
/// loss of a row is log sum exp - 0.9 logit[label] - 0.1 mean logit, its gradient is softmax -
/// target. Szegedy et al., 2016. Logits: (B, T, V and padding), f32.
tensor smooth_loss(tape& tape,
                   variable logits,
                   const tensor& labels,
                   const tensor& mask,
                   std::int64_t V,
                   loss_average average) {
  if (tape.group_size() > 1)
    throw input_error("smooth_loss needs the whole vocabulary; set --tensor-model-parallel-size 1");
  loss_value out;
  const auto counts = mask.elements<float>();
  auto gradient = tensor::empty<float>(tape.stream(), logits.data.extents());
  tape.stream().run([&] {
    out.tokens = std::accumulate(counts.begin(), counts.end(), 0.0);
    const auto width = channels_of(gradient);
    for (std::int64_t r = 0; r < mask.size(); ++r) {
      const float* row = logits.data.data<float>() + r * width;
      const double weight = counts[std::size_t(r)],
                   each = weight * average.weight(out.tokens, mask.size());
      double sum = 0;
      for (std::int64_t v = 0; v < V; ++v)
        sum += std::exp(double(row[v]));
      out.total += weight * std::log(sum);
      for (std::int64_t v = 0; v < width; ++v) {
        const double target = (v == labels.data<std::int32_t>()[r] ? 0.9 : 0) + 0.1 / double(V);
        gradient.data<float>()[r * width + v]
            = v < V ? float(each * (std::exp(double(row[v])) / sum - target)) : 0;
        out.total -= v < V ? weight * target * double(row[v]) : 0;
      }
    }
  });
  tape.record(
      [gradient, to = logits.gradient](troupe::runtime::tape& back) { back.add(*to, gradient); });
  return loss_sums(tape.stream(), out);
}

// --- a check of both: finite differences ---

/// Largest difference between gradients and finite differences of the loss of one micro-batch,
/// relative to the largest gradient. Checks some elements of each parameter.
double check_gradients(const recipe& recipe) {
  stream stream(backend_kind::reference, 1, memory_pool());  // sums in double
  const chunk model(spec_of(recipe), {0, recipe.model.layers() + 2});
  const recompute_plan plan(model, {});
  resident_store store(model.units(), 1, stream.pool());
  initialise(store, recipe.seed);
  const auto batch = story::counting(recipe).microbatch({});
  const auto loss = [&] {
    chunk_pass pass(model, plan, stream, store, {});
    pass.forward(batch);
    return pass.loss().total / pass.loss().tokens;
  };
  chunk_pass pass(model, plan, stream, store, {});
  pass.forward(batch);
  pass.input_gradients({}, 0);
  pass.weight_gradients(0);

  double worst = 0, largest = 0;
  for (const auto& e : store.entries())
    for (std::int64_t i = 0; i < e.valid; i += e.valid / 4) {
      float& x = store.values()[std::size_t(store.value_offset(e) + i)];
      const double g = store.gradients(0)[std::size_t(store.gradient_offset(e) + i)];
      const float before = x, h = 1.0F / 1024;
      x = before + h;
      const double up = loss();
      x = before - h;
      worst = std::max(worst, std::abs((up - loss()) / (2 * h) - g));
      largest = std::max(largest, std::abs(g));
      x = before;
    }
  return worst / largest;
}

int main() {
  auto recipe = story::small_recipe();
  // Checkpoints store the name; only a program with this extension loads them.
  recipe.own = {.name = "story 3: ReGLU, smoothing 0.1",
                .feed_forward = reglu_sublayer,
                .loss = smooth_loss,
                .host_only = true};
  fmt::print("gradients match finite differences to 1 %: {}\n", check_gradients(recipe) < 0.01);

  stream stream(backend_kind::cpu, 1, memory_pool());
  reference_trainer trainer(recipe, std::make_shared<story::counting>(recipe), stream);
  for (const auto& e : trainer.state().parameters())
    if (e.name.find("layers.0.mlp") != std::string::npos)
      fmt::print("{} {}\n", e.name, to_string(e.whole));
  for (int i = 0; i < 200; ++i) {
    const auto now = trainer.step();
    if (now.iteration == 1 || now.iteration == 200)
      fmt::print("iteration {:3}  loss {:.1f}\n", now.iteration, now.loss);
  }
}

// Expected output:
//   gradients match finite differences to 1 %: true
//   decoder.layers.0.mlp.norm.weight (32)
//   decoder.layers.0.mlp.up.weight (128, 32)
//   decoder.layers.0.mlp.down.weight (32, 64)
//   iteration   1  loss 2.3
//   iteration 200  loss 0.5
