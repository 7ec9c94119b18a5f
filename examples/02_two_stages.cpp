// Two pipeline stages by hand: the work of stage actors, without actors.
//
// A chunk is a range of layers of a model. The first stage passes its output on. The last stage
// computes the loss and passes the gradient of its input back. The backward pass has two parts,
// which schedules order separately: I computes the gradient of the input, W adds the gradients of
// the weights.

#include "hand_made_stage.hpp"
#include "small.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;

int main() {
  const auto recipe = story::small_recipe();
  const story::counting data(recipe);
  const auto m_each = recipe.batch.global / recipe.batch.micro;
  stream stream(backend_kind::cpu, 1, memory_pool());

  const auto half = split_layers(letters_of(recipe), 2, {});
  story::stage first(recipe, half[0], stream), last(recipe, half[1], stream);
  reference_trainer whole(recipe, std::make_shared<story::counting>(recipe), stream);

  std::uint64_t consumed = 0;
  for (std::uint64_t n = 1; n <= 5; ++n) {
    first.begin_step();
    last.begin_step();
    loss_value loss;
    for (std::int64_t m = 0; m < m_each; ++m) {
      const auto batch = data.microbatch({.consumed = consumed, .microbatch = std::uint64_t(m)});
      auto f = first.pass(n, m_each), l = last.pass(n, m_each);

      bundle hidden = f->forward(batch);  // F: activations, with positions and sample numbers
      hidden.add("labels", batch.at("labels"));
      hidden.add("mask", batch.at("mask"));
      l->forward(hidden);
      loss.total += l->loss().total;
      loss.tokens += l->loss().tokens;

      const bundle gradient = l->input_gradients({}, 0);  // I: the result can be sent at once
      l->weight_gradients(0);                             // W: can overlap with the other stage
      f->input_gradients(gradient, 0);
      f->weight_gradients(0);
    }

    // A step is a transaction: all norms, then one decision, then all updates.
    auto norms = first.optimizer.norms(stream);
    add_to(norms, last.optimizer.norms(stream));
    const auto verdict = decide(recipe,
                                losses_of(recipe),
                                {.iteration = n - 1, .consumed = consumed},
                                {.losses = {{loss.total, loss.tokens}}, .norms = norms});
    first.optimizer.update(stream, verdict.update);
    last.optimizer.update(stream, verdict.update);
    consumed += std::uint64_t(recipe.batch.global);

    auto state = first.optimizer.digests(stream).own;
    state.merge(last.optimizer.digests(stream).own);
    const auto judge = whole.step();
    fmt::print("step {}: loss {:.2f}, reference trainer {:.2f}; the same bits of the state: {}\n",
               n,
               loss.total / loss.tokens,
               judge.loss,
               combine(state) == judge.state);
  }
}

// Expected output:
//   step 1: loss 2.29, reference trainer 2.29; the same bits of the state: true
//   step 2: loss 2.30, reference trainer 2.30; the same bits of the state: true
//   step 3: loss 2.24, reference trainer 2.24; the same bits of the state: true
//   step 4: loss 2.15, reference trainer 2.15; the same bits of the state: true
//   step 5: loss 2.06, reference trainer 2.06; the same bits of the state: true
