#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/masked_loss.hpp"
#include "kernels/op/sum.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Combines the parts of all ranks; `part` is (2, R): this rank's lse and target logit.
void merge(tape& tape, const tensor& part, tensor& loss, tensor& lse) {
  const auto R = loss.size();
  const auto all = tensor::empty<float>(tape.stream(), {tape.group_size(), 2, R});
  const auto ends = equal_ends(std::int64_t(all.bytes()), tape.group_size());
  tape.group(axis::tensor)
      .all_gather(tape.stream(), part.raw(), const_cast<std::byte*>(all.raw()), ends);
  std::vector<const float*> part_lse, part_logit;
  for (int r = 0; r < tape.group_size(); ++r) {
    part_lse.push_back(all.data<float>() + 2 * r * R);
    part_logit.push_back(all.data<float>() + (2 * r + 1) * R);
  }
  tape.stream().run(kernels::cross_entropy_merge<float>{loss.data<float>(),
                                                        lse.data<float>(),
                                                        part_lse.data(),
                                                        part_logit.data(),
                                                        tape.group_size(),
                                                        R});
}

/// This rank's columns of the vocabulary, and operations on them. Replicated logits are all
/// columns.
template <class T>
struct own_columns {
  tensor logits;  ///< (R, V)
  tensor targets;
  std::int64_t V, R, first = 0, vocabulary;
  int ranks;

  own_columns(const tape& tape, variable& from, tensor of_rows, std::int64_t all_words)
      : logits(std::move(from.data)),
        targets(std::move(of_rows)),
        V(channels_of(logits)),
        R(logits.size() / V),
        ranks(from.placements[axis::tensor] == placement::replicated ? 1 : tape.group_size()) {
    if (ranks > 1)
      first = tape.rank() * V;
    vocabulary = std::clamp<std::int64_t>(all_words - first, 0, V);
  }

  /// The place of the gradient: the logits if no other tensor shares their memory.
  tensor place(tape& tape) const {
    return logits.block().use_count() == 1 ? logits
                                           : tensor::empty<T>(tape.stream(), logits.extents());
  }

  /// Loss and lse (R) over the whole vocabulary.
  void forward(tape& tape, tensor& loss, tensor& lse) const {
    kernels::cross_entropy_forward<T> op{.loss = loss.data<float>(),
                                         .lse = lse.data<float>(),
                                         .logits = logits.data<T>(),
                                         .target = targets.data<std::int32_t>(),
                                         .R = R,
                                         .V = V,
                                         .vocabulary = vocabulary,
                                         .first = std::int32_t(first)};
    if (ranks == 1) {
      tape.stream().run(op);
      return;
    }
    auto part = tensor::empty<float>(tape.stream(), {2, R});
    op.loss = nullptr;
    op.lse = part.data<float>();
    op.target_logit = part.data<float>() + R;
    tape.stream().run(op);
    merge(tape, part, loss, lse);
  }

  /// Forward and backward pass; `gradient` may be the logits. With several ranks the gradient needs
  /// a sum over all ranks. By then the first rows have left the caches, and blocks of rows that fit
  /// them would need one collective each. So the logits are read twice there.
  void both(tape& tape, const tensor& dloss, tensor& loss, tensor& lse, tensor& gradient) const {
    if (ranks == 1) {
      tape.stream().run(
          kernels::cross_entropy_both_passes<T>{.loss = loss.data<float>(),
                                                .lse = lse.data<float>(),
                                                .dlogits = gradient.data<T>(),
                                                .logits = logits.data<T>(),
                                                .target = targets.data<std::int32_t>(),
                                                .dloss = dloss.data<float>(),
                                                .R = R,
                                                .V = V,
                                                .vocabulary = vocabulary});
      return;
    }
    forward(tape, loss, lse);
    backward(tape, dloss, lse, gradient);
  }

  void backward(tape& tape, const tensor& dloss, const tensor& lse, tensor& gradient) const {
    tape.stream().run(kernels::cross_entropy_backward<T>{.dlogits = gradient.data<T>(),
                                                         .logits = logits.data<T>(),
                                                         .lse = lse.data<float>(),
                                                         .target = targets.data<std::int32_t>(),
                                                         .dloss = dloss.data<float>(),
                                                         .R = R,
                                                         .V = V,
                                                         .vocabulary = vocabulary,
                                                         .first = std::int32_t(first)});
  }
};

/// Gradient of each row's loss (R). It depends on the mask only, so it is ready before the logits
/// are read. Writes `tokens` if the average divides by them.
tensor gradients_of_rows(tape& tape, const tensor& mask, double* tokens, loss_average average) {
  const auto R = mask.size();
  auto out = tensor::empty<float>(tape.stream(), {R});
  kernels::masked_loss_backward<float> mean{
      out.data<float>(), mask.data<float>(), tokens, double(average.scale), R};
  if (average.per_row) {
    mean.tokens = nullptr;
    mean.scale = average.weight(0, R);
  } else {
    tape.stream().run(kernels::masked_loss_forward<float>{
        .total = nullptr, .tokens = tokens, .loss = nullptr, .mask = mask.data<float>(), .R = R});
  }
  tape.stream().run(mean);
  return out;
}

template <class T>
tensor run(tape& tape,
           variable logits,
           const tensor& targets,
           const tensor& mask,
           std::int64_t all_words,
           loss_average average) {
  const own_columns<T> own(tape, logits, targets, all_words);
  const std::int64_t R = own.R;
  auto& stream = tape.stream();
  auto loss = tensor::empty<float>(stream, {R}), lse = tensor::empty<float>(stream, {R});
  auto sums = tensor::empty<double>(stream, {2});
  double *const total = sums.data<double>(), *const tokens = total + 1;
  if (tape.recording()) {
    const auto dloss = gradients_of_rows(tape, mask, tokens, average);
    auto gradient = own.place(tape);
    own.both(tape, dloss, loss, lse, gradient);
    tape.record([gradient, to = std::move(logits.gradient)](troupe::runtime::tape& back) mutable {
      back.add(*to, std::move(gradient));
    });
  } else {
    own.forward(tape, loss, lse);
  }
  stream.run(kernels::masked_loss_forward<float>{.total = total,
                                                 .tokens = tokens,
                                                 .loss = loss.data<float>(),
                                                 .mask = mask.data<float>(),
                                                 .R = R});
  return sums;
}

void negate(tape& tape, tensor& x) {
  auto* const at = x.data<float>();
  const float* const source = at;
  tape.stream().run(kernels::ordered_sum<float>{at, &source, 1, x.size(), -1});
}

template <class T>
variable run_log_probs(tape& tape, variable logits, const tensor& targets, std::int64_t all_words) {
  own_columns<T> own(tape, logits, targets, all_words);
  auto& stream = tape.stream();
  auto loss = tensor::empty<float>(stream, {own.R}), lse = tensor::empty<float>(stream, {own.R});
  own.forward(tape, loss, lse);
  negate(tape, loss);
  auto made
      = tape.make(std::move(loss), logits.placements.with(axis::tensor, placement::replicated));
  if (logits.gradient)
    tape.record([own = std::move(own), lse, dx = logits.gradient, dy = made.gradient](auto& on) {
      auto dloss = copy_of(on.stream(), std::exchange(dy->sum, {}));
      negate(on, dloss);
      auto gradient = own.place(on);
      own.backward(on, dloss, lse, gradient);
      on.add(*dx, std::move(gradient));
    });
  return made;
}

void require_logits(const variable& x, std::string_view by) {
  if (x.placements[axis::tensor] != placement::replicated)
    require_placement(x, placement::feature_sharded, by);
}

}  // namespace

loss_value loss_of(const stream& stream, const tensor& sums) {
  const auto found = elements_of<double>(stream, sums);
  return {found[0], found[1]};
}

tensor loss_sums(stream& stream, const loss_value& x) {
  return uploaded<double>(stream, std::vector<double>{x.total, x.tokens}, {2});
}

tensor cross_entropy(tape& tape,
                     variable logits,
                     const tensor& targets,
                     const tensor& mask,
                     std::int64_t vocabulary,
                     loss_average average) {
  require_logits(logits, "cross_entropy");
  return with_element(tape.type(), [&]<class T>(T) {
    return run<T>(tape, std::move(logits), targets, mask, vocabulary, average);
  });
}

variable token_log_probs(tape& tape,
                         variable logits,
                         const tensor& targets,
                         std::int64_t vocabulary) {
  require_logits(logits, "token_log_probs");
  return with_element(tape.type(), [&]<class T>(T) {
    return run_log_probs<T>(tape, std::move(logits), targets, vocabulary);
  });
}

}  // namespace troupe::runtime
